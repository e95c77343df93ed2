"""Small data for trainings: a toy language for translation models, demo text for a parser and a chunker."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

from phrasemt.batching.pack import pack_examples
from phrasemt.corpus.demo.generate import conll, demo_pairs
from phrasemt.files.lines import write_lines, write_text
from phrasemt.settings import (
    ChunkerSettings,
    PackSettings,
    ParserSettings,
    TaggerSettings,
    VectorsSettings,
    VocabularySettings,
)
from phrasemt.syntax.stanza.train_chunker import train_chunker
from phrasemt.syntax.stanza.train_parser import train_parser
from phrasemt.syntax.stanza.train_tagger import train_tagger
from phrasemt.syntax.stanza.vectors import train_vectors
from phrasemt.text.vocab import build_vocabulary


@dataclass(frozen=True)
class TinyData:
    """A packed toy corpus: words are letters, the target is the source in capitals."""

    train: Path
    dev: Path
    dev_reference: Path
    source_vocabulary: Path
    target_vocabulary: Path

    @property
    def inputs(self) -> dict[str, Path | list[Path]]:
        """Of train_model, for a system that reads no phrase columns."""
        paths = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**paths, "train_phrases": [], "dev_phrases": [], "train_chunks": [], "dev_chunks": []}


def make_tiny_data(folder: Path) -> TinyData:
    """1,500 pairs of training and 60 of dev: 1 to 7 letters, and the same in capitals."""
    random = Random(5)
    stages_of_text = {}
    for split, pairs in (("train", 1500), ("dev", 60)):
        sources = [[random.choice("abcdefgh") for _ in range(random.randint(1, 7))] for _ in range(pairs)]
        paths = {side: folder / f"{split}.{side}" for side in ("source", "target", "rows")}
        write_lines(paths["source"], (" ".join(words) for words in sources))
        write_lines(paths["target"], (" ".join(words).upper() for words in sources))
        write_lines(paths["rows"], map(str, range(pairs)))
        stages_of_text[split] = paths
    vocabularies = {side: folder / f"vocabulary.{side}" for side in ("source_vocabulary", "target_vocabulary")}
    build_vocabulary(
        settings=VocabularySettings(shared=True),
        cores=1,
        source=stages_of_text["train"]["source"],
        target=stages_of_text["train"]["target"],
        **vocabularies,
    )
    for split, paths in stages_of_text.items():
        pack_examples(settings=PackSettings(), cores=1, **paths, **vocabularies, examples=folder / f"{split}.arrow")
    return TinyData(
        train=folder / "train.arrow",
        dev=folder / "dev.arrow",
        dev_reference=stages_of_text["dev"]["target"],
        **vocabularies,
    )


@dataclass(frozen=True)
class TinyAnnotators:
    """A parser and a chunker that a few seconds of training have made, with what they were trained on."""

    folder: Path
    trees: dict[str, list[Path]]
    chunks: dict[str, list[Path]]
    parser: Path
    chunker: Path


def make_tiny_annotators(folder: Path) -> TinyAnnotators:
    """By the real stages, from 150 sentences of the demo's corpus, in about ten CPU seconds."""
    trees, chunks = {}, {}
    for split, pairs in (("train", 150), ("dev", 15), ("test", 30)):
        drawn = list(demo_pairs(split=split, pairs=pairs, seed=1))
        trees[split], chunks[split] = [folder / f"{split}.trees"], [folder / f"{split}.chunks"]
        write_lines(trees[split][0], (pair.tree for pair in drawn))
        write_text(chunks[split][0], "".join(conll(pair.source_tokens, pair.source_chunks) for pair in drawn))
    common: dict[str, Any] = {"language": "en", "seed": 1}
    vectors, tagger, scores = (folder / name for name in ("vectors.pt", "tagger.pt", "tagger.json"))
    annotators = TinyAnnotators(folder, trees, chunks, folder / "parser.json", folder / "chunker.json")
    train_vectors(
        settings=VectorsSettings(vectors=0, **common), cores=1, texts=[], trees=[], chunks=[], vectors=vectors
    )
    small: dict[str, Any] = {"sentences": None, "hidden": 32, **common}
    train_tagger(
        settings=TaggerSettings(tagger_updates=48, **small),
        cores=1,
        **trees,
        vectors=vectors,
        tagger=tagger,
        scores=scores,
    )
    train_parser(
        settings=ParserSettings(epochs=2, **small),
        cores=1,
        **trees,
        vectors=vectors,
        tagger=tagger,
        tagger_scores=scores,
        constituency=folder / "constituency.pt",
        annotator=annotators.parser,
    )
    train_chunker(
        settings=ChunkerSettings(updates=48, **small),
        cores=1,
        **chunks,
        vectors=vectors,
        chunker=folder / "chunker.pt",
        annotator=annotators.chunker,
    )
    return annotators
