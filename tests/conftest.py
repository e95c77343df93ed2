"""Fixtures that several tiers of tests share."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

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
from phrasemt.syntax.stanza.training import train_chunker, train_parser, train_tagger
from phrasemt.syntax.stanza.vectors import train_vectors
from phrasemt.text.vocab import build_vocabulary

REPOSITORY = Path(__file__).parents[1]
os.environ.pop("PHRASEMT_CACHE", None)  # of the person who runs the tests


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(autouse=True)
def _no_cache_of_another_test() -> Iterator[None]:
    """Takes back what opening a study sets for its process: no test is to find what another one made."""
    yield
    os.environ.pop("PHRASEMT_CACHE", None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora beside the checkout, when they are there."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder shared/data beside the checkout")
    return folder


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


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """For tensors so small that threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> TinyData:
    folder = tmp_path_factory.mktemp("tiny")
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


@pytest.fixture(scope="session")
def tiny_annotators(tmp_path_factory: pytest.TempPathFactory) -> TinyAnnotators:
    folder = tmp_path_factory.mktemp("annotators")
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


@pytest.fixture(autouse=True)
def _no_logging_of_an_earlier_test() -> Iterator[None]:
    """Takes back what the command line sets up for its process: level and handlers."""
    yield
    root = logging.getLogger()
    for handler in [
        handler for handler in root.handlers if type(handler) in (logging.StreamHandler, logging.FileHandler)
    ]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.WARNING)
    logging.getLogger("phrasemt").setLevel(logging.NOTSET)
