"""Small data for trainings: a toy language for translation models, demo text for a parser and a chunker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from democorpus.pairs import conll, demo_pairs
from phrasemt.artefacts.syntax import Card, Kind
from phrasemt.batching.pack import pack_examples
from phrasemt.files.lines import write_lines, write_text
from phrasemt.stages.subwords import BuildVocabulary, PackExamples
from phrasemt.stages.syntax import TrainChunker, TrainParser, TrainTagger, TrainVectors
from phrasemt.syntax.stanza.training import train_chunker, train_parser, train_tagger, train_vectors
from phrasemt.text.subwords import build_vocabulary


@dataclass(frozen=True)
class TinyData:
    """The files of a packed toy corpus: words are letters, the target is the source in capitals."""

    folder: Path

    @property
    def train(self) -> Path:
        return self.folder / "train.arrow"

    @property
    def dev(self) -> Path:
        return self.folder / "dev.arrow"

    @property
    def dev_reference(self) -> Path:
        return self.folder / "dev.target"

    @property
    def source_vocabulary(self) -> Path:
        return self.folder / "vocabulary.source"

    @property
    def target_vocabulary(self) -> Path:
        return self.folder / "vocabulary.target"

    @property
    def inputs(self) -> dict[str, Path | list[Path]]:
        """The inputs of `train_model`, for a system that reads no phrases and no chunks."""
        names = ("train", "dev", "dev_reference", "source_vocabulary", "target_vocabulary")
        columns: dict[str, Path | list[Path]] = {
            f"{split}_{kind}": [] for split in ("train", "dev") for kind in ("phrases", "chunks")
        }
        return {name: getattr(self, name) for name in names} | columns | {"initial_weights": []}

    def make(self) -> None:
        """1,500 pairs for training and 60 of dev, each of 1 to 7 words."""
        random = Random(5)
        for split, pairs in (("train", 1500), ("dev", 60)):
            sources = [[random.choice("abcdefgh") for _ in range(random.randint(1, 7))] for _ in range(pairs)]
            write_lines(self.folder / f"{split}.source", (" ".join(words) for words in sources))
            write_lines(self.folder / f"{split}.target", (" ".join(words).upper() for words in sources))
            write_lines(self.folder / f"{split}.rows", map(str, range(pairs)))
        vocabularies = {"source_vocabulary": self.source_vocabulary, "target_vocabulary": self.target_vocabulary}
        texts = {side: self.folder / f"train.{side}" for side in ("source", "target")}
        build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **texts, **vocabularies)
        for split in ("train", "dev"):
            paths = {name: self.folder / f"{split}.{name}" for name in ("source", "target", "rows")}
            examples = self.folder / f"{split}.arrow"
            pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=examples)


@dataclass(frozen=True)
class TinyAnnotators:
    """The files of a parser and a chunker after a few seconds of training, and of their treebank."""

    folder: Path

    @property
    def trees(self) -> dict[str, list[Path]]:
        return {split: [self.folder / f"{split}.trees"] for split in ("train", "dev", "test")}

    @property
    def chunks(self) -> dict[str, list[Path]]:
        return {split: [self.folder / f"{split}.chunks"] for split in ("train", "dev", "test")}

    @property
    def parser(self) -> Path:
        return self.folder / "parser.json"

    @property
    def chunker(self) -> Path:
        return self.folder / "chunker.json"

    def make(self) -> None:
        """Train both on 150 sentences of the demo corpus, by the stages: about ten CPU seconds."""
        for split, pairs in (("train", 150), ("dev", 15), ("test", 30)):
            drawn = list(demo_pairs(split=split, pairs=pairs, seed=1))
            write_lines(self.trees[split][0], (pair.tree for pair in drawn))
            chunks = "".join(conll(pair.source_tokens, pair.source_chunks) for pair in drawn)
            write_text(self.chunks[split][0], chunks)
        vectors = no_vectors(self.folder)
        tagger(self.folder, vectors, self.trees, hidden=32, tagger_updates=48)
        parser(self.folder, vectors, self.trees, hidden=32)
        chunker(self.folder, vectors, self.chunks, hidden=32, updates=48)


def no_vectors(folder: Path) -> Path:
    """A file of word vectors without a word."""
    path = folder / "vectors.pt"
    settings = TrainVectors(language="en", vectors=0, seed=1)
    train_vectors(settings=settings, cores=1, texts=[], trees=[], chunks=[], vectors=path)
    return path


def tagger(folder: Path, vectors: Path, trees: dict[str, list[Path]], **changes: Any) -> dict[str, Path]:
    settings = {"language": "en", "sentences": None, "hidden": 8, "tagger_updates": 9, "seed": 1, **changes}
    outputs = {"tagger": folder / "tagger.pt", "scores": folder / "tagger.json"}
    train_tagger(settings=TrainTagger.model_validate(settings), cores=2, **trees, vectors=vectors, **outputs)
    return outputs


def parser(folder: Path, vectors: Path, trees: dict[str, list[Path]], **changes: Any) -> Card:
    settings = {"language": "en", "sentences": None, "hidden": 8, "epochs": 2, "seed": 1, **changes}
    train_parser(
        settings=TrainParser.model_validate(settings),
        cores=2,
        **trees,
        vectors=vectors,
        tagger=folder / "tagger.pt",
        tagger_scores=folder / "tagger.json",
        constituency=folder / "constituency.pt",
        annotator=folder / "parser.json",
    )
    return Card.read(folder / "parser.json")


def chunker(folder: Path, vectors: Path, chunks: dict[str, list[Path]], **changes: Any) -> Card:
    settings = {"language": "en", "sentences": None, "hidden": 8, "updates": 9, "seed": 1, **changes}
    outputs = {"chunker": folder / "chunker.pt", "annotator": folder / "chunker.json"}
    train_chunker(settings=TrainChunker.model_validate(settings), cores=2, **chunks, vectors=vectors, **outputs)
    return Card.read(outputs["annotator"])


ROLES = ("constituency", "chunker", "tagger", "vectors", "forward_charlm", "backward_charlm")


def describe(card: Path, kind: Kind, files: Mapping[str, Path]) -> Path:
    """Write the card of model files, by role."""
    Card.of_files(kind=kind, origin="trained", language="en", files=files).write(card)
    return card
