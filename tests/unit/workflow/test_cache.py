"""The cache of artefacts, through the command line: what counts as the same work, and what no accident can break."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stage_settings
from stage_settings import arguments_of, fetching

from phrasemt.artefacts.sidecar import Origin, sidecar_path
from phrasemt.cli import main
from phrasemt.corpus import fetch
from phrasemt.stages.syntax import TrainParser
from phrasemt.text import subwords
from phrasemt.workflow import cache as artefacts
from phrasemt.workflow import run_stage
from phrasemt.workflow.cache import Entry, clean, contents, entry_of

OUTPUTS = {"source_vocabulary": Path("vocabulary.en"), "target_vocabulary": Path("vocabulary.de")}
OLD = time.time() - 10 * 86_400


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHRASEMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PHRASEMT_MIRROR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages whose functions were called."""
    called: list[str] = []

    def counted(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            called.append(name)
            function(**arguments)

        return run

    for module, name in ((subwords, "build_vocabulary"), (fetch, "fetch_corpus")):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return called


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, bytes]]:
    """Builds the vocabularies of a study in a folder of its own; returns the outputs and sidecars."""

    def study(name: str, *, source: bytes = b"a b@@ c\na\n", **options: object) -> dict[str, bytes]:
        folder = tmp_path / name / "results" / name
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        Path("train.en").write_bytes(source)
        Path("train.de").write_text("x y\nz\n")
        files = {"source": "train.en", "target": "train.de", **OUTPUTS}
        command = arguments_of("build_vocabulary", {"shared": True, **options}, **files)
        assert main([*command, "--cores", str(len(name))]) == 0
        return {str(path): path.read_bytes() for file in OUTPUTS.values() for path in (file, sidecar_path(file))}

    return study


def entry(cache: Path) -> Path:
    (path,) = (cache / "stages").glob("*/*.json")
    return path


def files(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "files").glob("*/*") if re.fullmatch("[0-9a-f]{64}", path.name))


def others(cache: Path) -> list[str]:
    """Files that are neither entries nor what they hold."""
    known = {*files(cache), *(cache / "stages").glob("*/*.json")}
    return [path.name for path in cache.rglob("*") if path.is_file() and path not in known]


def test_another_study_gets_what_it_would_have_made(study, runs, cache, capsys, monkeypatch):
    with monkeypatch.context() as without:
        without.delenv("PHRASEMT_CACHE")
        computed = study("second")
    study("first")
    assert runs == ["build_vocabulary"] * 2
    assert study("another") == computed
    assert runs == ["build_vocabulary"] * 2
    assert capsys.readouterr().err.endswith(f"build_vocabulary: from the cache, {entry(cache)}\n")
    assert contents(cache)["build_vocabulary"].entries == 1


def test_results_are_new_files_of_their_own(study, cache):
    study("first")
    for path in [entry(cache), *files(cache)]:
        os.utime(path, (OLD, OLD))
    begin = time.time() - 1
    study("second")
    for path in OUTPUTS.values():
        status = path.lstat()
        assert stat.S_ISREG(status.st_mode)
        assert status.st_nlink == 1
        assert status.st_mtime >= begin, "older than its inputs, it would be made again"
    expected = Path("vocabulary.en").read_bytes()
    assert clean(cache, unused=-10).entries == 1
    assert Path("vocabulary.en").read_bytes() == expected


@pytest.mark.parametrize("change", [{"shared": False}, {"source": b"a b c\na\n"}], ids=["setting", "input"])
def test_other_work_is_a_miss(study, runs, change):
    study("first")
    study("second", **change)
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("code_digest", "0" * 16), ("library_versions", {"python": "4.0.0"})], ids=["code", "libraries"]
)
def test_other_code_and_other_libraries_are_a_miss(study, runs, monkeypatch, name, value):
    study("first")
    monkeypatch.setattr(run_stage, name, lambda *arguments: value)
    study("second")
    assert len(runs) == 2


def test_places_of_model_files_count_where_a_card_names_them(tmp_path):
    """Beside the card they are named without their folder; elsewhere with it."""

    def path_of(study: str, tagger: Path) -> Path:
        folder = tmp_path / study / "annotators" / study
        roles = {"vectors": folder / "vectors.pt", "tagger": tagger, "train": tmp_path / study / "train.trees"}
        for path in roles.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("the same")
        settings = TrainParser(language="en", sentences=None, hidden=8, epochs=1, seed=1)
        inputs = {role: [path] for role, path in roles.items()}
        made_of = Origin.of("train_parser", inputs=inputs, settings=settings, code="0")
        outputs = {"constituency": folder / "constituency.pt", "annotator": folder / "annotator.json"}
        entry = entry_of(made_of, settings, outputs)
        return entry.path

    beside = path_of("one", tmp_path / "one/annotators/one/tagger.pt")
    assert path_of("two", tmp_path / "two/annotators/two/tagger.pt") == beside
    elsewhere = path_of("two", tmp_path / "elsewhere/tagger.pt")
    assert len({beside, elsewhere, path_of("two", tmp_path / "somewhere/tagger.pt")}) == 3


def test_an_input_that_was_edited_meanwhile(study, runs, cache, monkeypatch):
    build = subwords.build_vocabulary

    def edit(*, source: Path, **arguments: Any) -> None:
        build(source=source, **arguments)
        source.write_text("another\n")

    with monkeypatch.context() as editing:
        editing.setattr(subwords, "build_vocabulary", edit)
        study("first")
    assert contents(cache) == {}
    study("second")
    assert len(runs) == 2


DATA = b"one\ntwo\n"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers a corpus of one file, whose source does not answer; a mirror has it."""

    def register(**changes: object) -> None:
        (tmp_path / "mirror" / "tiny").mkdir(parents=True, exist_ok=True)
        (tmp_path / "mirror" / "tiny" / "corpus.txt").write_bytes(DATA)
        checksum = changes or {"sha256": hashlib.sha256(DATA).hexdigest()}
        file = {"name": "corpus.txt", "url": "http://127.0.0.1:9/corpus.txt", **checksum}
        stage_settings.register(monkeypatch, [file], {"all": {"sides": {"en": {"file": "corpus.txt"}}}})

    register()
    return register


def get(folder: Path) -> Path:
    file = folder / "resources" / "tiny" / "corpus.txt"
    settings = stage_settings.settings_file(fetching("tiny", "corpus.txt"))
    assert main(["fetch_corpus", "--settings", settings, "--file", str(file)]) == 0
    return file


def test_a_fetched_file_is_found_by_its_checksum(corpus, runs, tmp_path, monkeypatch):
    with monkeypatch.context() as once:
        once.setenv("PHRASEMT_MIRROR", str(tmp_path / "mirror"))
        assert get(tmp_path / "first").read_bytes() == DATA
    monkeypatch.setattr(run_stage, "code_digest", lambda *modules: "0" * 16)
    monkeypatch.setattr(run_stage, "library_versions", lambda libraries: {"python": "4.0.0"})
    assert get(tmp_path / "second").read_bytes() == DATA, "without mirror and source, by other code"
    assert runs == ["fetch_corpus"]
    corpus(sha256=hashlib.sha256(b"another file").hexdigest())
    monkeypatch.setenv("PHRASEMT_MIRROR", str(tmp_path / "mirror"))
    with pytest.raises(AssertionError):  # the file is another than the registered one
        get(tmp_path / "third")
    assert runs == ["fetch_corpus"] * 2


def test_a_file_that_nobody_can_verify_is_not_kept(corpus, runs, cache, tmp_path, monkeypatch):
    corpus(unverified="nobody has published one")
    monkeypatch.setenv("PHRASEMT_MIRROR", str(tmp_path / "mirror"))
    for name in ("first", "second"):
        get(tmp_path / name)
    assert runs == ["fetch_corpus"] * 2
    assert contents(cache) == {}


def _one_warning(capsys: pytest.CaptureFixture[str]) -> str:
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]
    return warning


def _edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\t", b" ", 1).replace(b"build", b"guild"))


@pytest.mark.parametrize("damage", [_edit, lambda path: path.write_bytes(b"{}")])
@pytest.mark.parametrize("of", ["entry", "file"])
def test_what_is_damaged_is_set_aside_and_made_again(study, runs, cache, capsys, of, damage):
    expected = study("first")
    victim = entry(cache) if of == "entry" else files(cache)[0]
    before = victim.read_bytes()
    damage(victim)
    assert victim.read_bytes() != before
    assert study("second") == expected
    assert len(runs) == 2
    said = _one_warning(capsys)
    assert re.match(rf"warning: {victim} is damaged \(.*\)\. It is set aside as {victim.name}\.damaged; ", said)
    assert others(cache) == [f"{victim.name}.damaged"]
    assert study("third") == expected
    assert len(runs) == 2
    assert clean(cache).leftovers == 1
    assert others(cache) == []


def test_a_cache_that_is_cleaned_while_a_stage_copies(study, runs, cache, monkeypatch):
    expected = study("first")
    copy = artefacts._copy_file

    def clean_then(source: Path, target: Path) -> None:
        copy(source, target)
        source.unlink()  # both outputs are this file

    with monkeypatch.context() as cleaning:
        cleaning.setattr(artefacts, "_copy_file", clean_then)
        cleaning.setattr(Entry, "put", lambda *arguments: None)
        assert study("second") == expected
    assert len(runs) == 2
    assert study("third") == study("fourth") == expected
    assert len(runs) == 3


def test_what_nobody_uses_is_removed(study, runs, cache):
    study("first")
    study("first", shared=False)
    for path in (cache / "stages").glob("*/*.json"):
        os.utime(path, (OLD, OLD))
    for path in files(cache):
        os.utime(path, (OLD, OLD))
    study("second")  # notes that it is used
    week = 7 * 86_400
    done = clean(cache, unused=week)
    assert (done.entries, done.blobs, done.leftovers, done.refused) == (1, 2, 0, 0)
    study("third")
    assert len(runs) == 2
    assert clean(cache, unused=week).entries == clean(cache).entries == 0
