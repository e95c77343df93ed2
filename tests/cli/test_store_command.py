"""`phrasemt store`: its output, and its one-line messages for mistakes."""

from __future__ import annotations

import functools
import random
from datetime import date
from pathlib import Path

import pytest

from phrasemt.files.digests import digest_file
from phrasemt.syntax.annotations import Annotation
from phrasemt.syntax.sentences import key_array
from phrasemt.syntax.store import AnnotationStore
from phrasemt.workflow.cache import Entry

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


def test_verify(store, filled):
    files = len(list(filled[0].folder.glob("*/*.arrow")))
    good = f"{CHUNKER}: 1 files, 1 sentences whole, 0 damaged\noutputs of stages: 0 files whole, 0 damaged\n"
    assert store("verify") == (0, f"{PARSER}: {files} files, 1,200 sentences whole, 0 damaged\n{good}", "")
    victim = next(filled[0].folder.glob("*/*.arrow"))
    victim.write_bytes(victim.read_bytes()[:-1])
    code, out, err = store("verify")
    assert code == 2
    assert out.startswith(f"{PARSER}: {files - 1} files, ")
    assert out.endswith(f" sentences whole, 1 damaged\n{good}")
    relative = victim.relative_to(Path.cwd())
    assert err == (
        f"warning: {relative} is damaged (its content is not what its name says). It is set aside as "
        f"{victim.name}.damaged; its sentences count as missing\n"
        f"phrasemt store: error: resources/cache: damaged or unreadable files (found {relative}). Next: run the study "
        "again, which makes their content again; `phrasemt store gc` removes the damaged files\n"
    )
    assert store("verify")[0] == 0


def test_outputs_of_stages(store, cache):
    texts = {}
    for number, stage in enumerate(("tokenize_text", "tokenize_text", "clean_pairs")):
        path = Path(f"text.{number}")
        path.write_text("a sentence\n" * (number + 1))
        Entry(cache, stage, {"number": number}).put({"text": path}, {"text": digest_file(path)})
        texts[stage] = cache / "files" / digest_file(path)[:2] / digest_file(path)
    today = f"{date.today():%Y-%m-%d}"
    assert store("ls") == (
        0,
        "stage          entries  size    last used\n"
        f"clean_pairs    1        0.0 kB  {today}\n"
        f"tokenize_text  2        0.0 kB  {today}\n",
        "",
    )
    assert store("verify") == (0, "outputs of stages: 3 files whole, 0 damaged\n", "")
    texts["clean_pairs"].write_text("damaged")
    code, out, err = store("verify")
    assert (code, out) == (2, "outputs of stages: 2 files whole, 1 damaged\n")
    assert err.startswith(f"warning: {texts['clean_pairs'].relative_to(Path.cwd())} is damaged")
    assert "damaged or unreadable files" in err
    # gc also removes the entry of the damaged file.
    removed = "outputs of stages: 1 entries, 0 files (0.0 kB) and 1 leftovers removed\n"
    assert store("gc", "--unused", "30")[1] == removed


@pytest.mark.parametrize("action", ["verify", "gc"])
def test_a_folder_that_is_not_there(store, action):
    message = "no: no such folder. Next: check --cache, or the environment variable PHRASEMT_CACHE"
    assert store(action, "--cache", "no") == (2, "", f"phrasemt store: error: {message}\n")


def test_a_store_of_another_version(store, filled):
    card = filled[0].folder / "card.json"
    card.write_text(card.read_text().replace('"format": 1', '"format": 9'))
    code, _, err = store("ls")
    assert code == 2
    assert "the card of the annotator is not readable (expected format version 1, found format version 9, " in err
