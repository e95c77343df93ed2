"""`phrasemt store`: its output, and its one-line messages for mistakes."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest

from phrasemt.syntax.annotations import Annotation, key_array
from phrasemt.syntax.store import AnnotationStore

CARD = {"kind": "constituency", "language": "en", "origin": "trained", "stanza": "1.15.0", "scores": {"f1": 0.862}}
PARSER, CHUNKER = "ab" * 16, "ac" * 16


@pytest.fixture(autouse=True)
def cache(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PHRASEMT_CACHE", raising=False)
    return here / "resources" / "cache"


@pytest.fixture
def filled(cache: Path) -> list[AnnotationStore]:
    """A parser with 1,200 sentences in four times as many files as needed, and a chunker with one sentence."""
    parser = AnnotationStore(cache, {**CARD, "fingerprint": PARSER})
    chunker = AnnotationStore(cache, {"kind": "chunks", "language": "en", "fingerprint": CHUNKER})
    keys = [random.Random(number).randbytes(16) for number in range(1200)]
    for start in range(0, 1200, 300):
        annotations = [Annotation(None, "too long"), *[Annotation("(S (X 0))", None)] * 299]
        parser.add(key_array(keys[start : start + 300]), annotations)
    chunker.add(key_array(keys[:1]), [Annotation("B-NP", None)])
    return [parser, chunker]


@pytest.fixture
def store(phrasemt):
    return functools.partial(phrasemt, "store")


def test_ls(store, filled, monkeypatch, cache, tmp_path):
    code, out, err = store("ls")
    assert (code, err) == (0, "")
    names, parser, chunker = out.split("\n")[:-1]
    assert names.split() == (
        "fingerprint kind language origin F1 Stanza sentences failures size files".split()  # noqa: SIM905
    )
    assert parser.split()[:8] == [PARSER, "constituency", "en", "trained", "86.2", "1.15.0", "1,200", "4"]
    assert parser.split()[9] == "kB"
    assert chunker.split()[:8] == [CHUNKER, "chunks", "en", "?", "?", "?", "1", "0"]
    monkeypatch.chdir("/")
    assert store("ls", "--cache", cache) == (0, out, "")
    monkeypatch.setenv("PHRASEMT_CACHE", str(cache))
    assert store("ls") == (0, out, "")
    assert store("ls", "--cache", tmp_path) == (0, f"nothing in {tmp_path}\n", "")


def test_a_folder_that_is_not_there(store):
    message = "no: no such folder. Next: check --cache, or the environment variable PHRASEMT_CACHE"
    assert store("gc", "--cache", "no") == (2, "", f"phrasemt store: error: {message}\n")
