"""The stages from a corpus' source to its clean pairs on the command line: what a user sees, and what is left."""

from __future__ import annotations

import errno
import io
import json
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stage_settings import extracting, fetching

from phrasemt.cli import main
from phrasemt.files.lines import read_lines
from phrasemt.stages.stage import Stage

TRAIN = {"source_language": "en", "target_language": "de", "filters": {}}
TEST = {**TRAIN, "filters": None}
OUTPUTS = ("source", "target", "rows", "dropped")
LONG = b"x" * 100_000


@pytest.fixture(autouse=True)
def _leave_process_as_it_was() -> Iterator[None]:
    """main() sets up logging and a signal handler for a whole process."""
    root, ours = logging.getLogger(), logging.getLogger("phrasemt")
    handlers, levels, handler = root.handlers[:], (root.level, ours.level), signal.getsignal(signal.SIGTERM)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    signal.signal(signal.SIGTERM, handler)


def run(stage: str, settings: dict[str, Any], **paths: Path | list[Path]) -> int:
    arguments = [stage, "--settings", json.dumps(settings)]
    for name, value in paths.items():
        arguments += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return main(arguments)


def clean(folder: Path, source: bytes, target: bytes, settings: dict[str, Any] = TRAIN) -> int:
    """Cleans two raw files, which stand apart from the outputs."""
    raw = {"raw_source": [folder / "raw.en"], "raw_target": [folder / "raw.de"]}
    for (path,), data in zip(raw.values(), (source, target), strict=True):
        path.write_bytes(data)
    return run("clean_pairs", settings, **raw, **{name: folder / "out" / name for name in OUTPUTS})


def left(folder: Path) -> list[str]:
    """Everything in the folder and below it, hidden files too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("settings", [TRAIN, TEST], ids=["train", "test"])
@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [(b"a\nb\n", b"c\n", "2 and 1"), (b"a\n", b"c\nd\n", "1 and 2"), (b"", b"c\n", "0 and 1")],
)
def test_unequal_line_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: bytes, target: bytes, counts: str,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    """One message, and nothing but the raw files is left."""
    assert clean(tmp_path, source, target, settings) == 2
    assert capsys.readouterr() == (
        "",
        f"phrasemt clean_pairs: error: {tmp_path / 'raw.en'}, {tmp_path / 'raw.de'}: the sides of a parallel text have "
        f"unequal numbers of lines (expected the same number of lines in each file, found {counts}). "
        "Next: restore the missing line; phrasemt never cuts the longer side\n",
    )
    assert left(tmp_path) == ["raw.de", "raw.en"]


@pytest.mark.parametrize("settings", [TRAIN, TEST], ids=["train", "test"])
def test_other_line_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, Any]) -> None:
    source = "one\u2028two\r\nthree\x0cfour\r\n\x85five\n".encode()
    assert clean(tmp_path, source, b"eins zwei\r\ndrei vier\r\nf\xc3\xbcnf\n", settings) == 0
    assert list(read_lines(tmp_path / "out" / "source")) == ["one two", "three four", "five"]
    assert list(read_lines(tmp_path / "out" / "target")) == ["eins zwei", "drei vier", "fünf"]
    assert (tmp_path / "out" / "source").read_bytes().count(b"\n") == 3
    assert capsys.readouterr().err == (
        "clean_pairs: read 3 pairs, kept 3, dropped 0\n"
        "clean_pairs: 5 lines had white space or control characters normalised\n"
    )
    assert left(tmp_path / "out") == sorted(f"{name}{end}" for name in OUTPUTS for end in ("", ".meta.json"))


def _settings(stage: Stage) -> dict[str, Any]:
    return stage.model_dump(mode="json")


def test_from_the_mirror_to_clean_pairs(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHRASEMT_MIRROR", str(shared_data))
    for language in ("en", "de"):
        file = tmp_path / "original" / f"val.{language}.gz"
        assert run("fetch_corpus", _settings(fetching("multi30k", file.name)), file=file) == 0
        side = _settings(extracting("multi30k", "val", language))
        assert run("extract_text", side, files=[file], text=tmp_path / f"val.{language}") == 0
    inputs = {"raw_source": [tmp_path / "val.en"], "raw_target": [tmp_path / "val.de"]}
    assert run("clean_pairs", TEST, **inputs, **{name: tmp_path / "out" / name for name in OUTPUTS}) == 0
    assert list(read_lines(tmp_path / "out" / "rows")) == [str(row) for row in range(1014)]
    assert "clean_pairs: read 1014 pairs, kept 1014, dropped 0\n" in capsys.readouterr().err
    assert not [name for name in left(tmp_path) if name.endswith((".part", ".partial"))]


def partition(folder: Path, pairs: int, **settings: int) -> int:
    for side in ("en", "de"):
        (folder / f"raw.{side}").write_text("".join(f"{side} {number}\n" for number in range(pairs)))
    splits = [f"{split}_{side}" for split in ("train", "dev", "test") for side in ("source", "target")]
    outputs = {name: folder / "out" / name for name in splits}
    return run("partition_corpus", settings, source=folder / "raw.en", target=folder / "raw.de", **outputs)


def test_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert partition(tmp_path, 30, dev=5, test=7, seed=1) == 0
    assert capsys.readouterr().err == (
        "partition_corpus: 30 pairs in 30 components, the largest of 1 pairs; train 18, dev 5, test 7\n"
    )


class FullDisk(io.FileIO):
    """A file on a disk with room for its name only."""

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self.name))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def fill() -> None:
        original = Path.open

        def open_(path: Path, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
            if "w" in mode or "a" in mode:
                return FullDisk(path, mode.replace("b", ""))
            return original(path, mode, *arguments, **keywords)

        monkeypatch.setattr(Path, "open", open_)

    return fill


def test_full_disk(tmp_path: Path, full_disk: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.en").write_text("a\n")
    (tmp_path / "raw.de").write_text("b\n")
    full_disk()
    inputs = {"raw_source": [tmp_path / "raw.en"], "raw_target": [tmp_path / "raw.de"]}
    assert run("clean_pairs", TRAIN, **inputs, **{name: tmp_path / "out" / name for name in OUTPUTS}) == 2
    printed = capsys.readouterr().err.strip()
    assert printed.startswith(f"phrasemt clean_pairs: error: {tmp_path / 'out'}/.")
    assert printed.endswith(": the disk is full; nothing half-written was kept. Next: free space and run again")
    assert left(tmp_path) == ["raw.de", "raw.en"]


def test_corpora_lists_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["corpus", "languages", "size", "parts", "terms"]
    by_id = {line.split()[0]: line for line in lines}
    assert len(by_id) == len(lines)
    assert " ".join(by_id["tatoeba-zh-en"].split()) == (
        "tatoeba-zh-en en zh 546.1 kB all CC-BY 2.0; attribution: www.manythings.org/anki and tatoeba.org"
    )


def test_corpora_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora", "tatoeba-zh-en"]) == 0
    assert capsys.readouterr().out == (
        "tatoeba-zh-en\n"
        "  about Short English sentences with Chinese translations, simplified and traditional characters mixed\n"
        "  terms CC-BY 2.0; attribution: www.manythings.org/anki and tatoeba.org\n"
        "  cite  Tatoeba, https://tatoeba.org; selection of https://www.manythings.org/anki\n"
        "parts\n"
        "  all: 20294 lines\n"
        "    en: cmn-eng.zip, cmn.txt, column 1\n"
        "    zh: cmn-eng.zip, cmn.txt, column 2\n"
        "files\n"
        "  cmn-eng.zip\n"
        "    https://raw.githubusercontent.com/timmy0519/machine_translation/"
        "4e3655173d124e706b8a175991b09d237c5d04de/cmn-eng.zip\n"
        "    546053 bytes, sha256 5400a73ca08dc3b098c78945185694757e1bb12f9a9596115b9914700e603439\n"
    )


@pytest.mark.parametrize("number", ["LDC2002E18", "LDC2003E14", "LDC2004T08", "LDC2005T06"])
def test_corpora_say_what_to_order_and_where_its_texts_lie(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora", number.lower()]) == 0
    shown = capsys.readouterr().out
    assert f"by hand: order {number}, and write its pairs" in shown
    assert f"in the mirror as {number.lower()}/train.zh (PHRASEMT_MIRROR)" in shown


def test_corpora_of_an_unknown_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora", "multi30"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "found 'multi30'; did you mean 'multi30k'?" in printed.err


def test_corpora_of_a_study(
    capsys: pytest.CaptureFixture[str], repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched, what is there already, and what a person must bring; each file and corpus once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHRASEMT_MIRROR", str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "un-v1-en-ru").mkdir(parents=True)
    (tmp_path / "mirror" / "un-v1-en-ru" / "UNv1.0.en-ru.tar.gz").touch()
    here = tmp_path / "resources" / "commoncrawl" / "original" / "training-parallel-commoncrawl.tgz"
    here.parent.mkdir(parents=True)
    here.touch()
    assert main(["corpora", "--study", str(repository / "studies" / "phrasal2020-en-ru.yaml")]) == 0
    out = capsys.readouterr().out
    by_file = {line.split()[1]: line.split(maxsplit=2)[2] for line in out.splitlines()[1:8]}
    assert by_file["training-parallel-commoncrawl.tgz"].endswith(f"fetched: {here.relative_to(tmp_path)}")
    assert by_file["UNv1.0.en-ru.tar.gz"].endswith("the mirror")
    assert "by hand: log in at this address" in by_file["1mcorpus.zip"]
    assert by_file["wiki-titles.tgz"] == "9.5 MB  http://www.statmt.org/wmt15/wiki-titles.tgz"
    assert "7 files, 3.6 GB, without 3 files of unknown size" in out
    assert out.count("  yandex-en-ru: only for registered users") == 1


def test_corpora_of_a_study_of_the_users_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "study: own\ndatasets:\n  d:\n    source_language: en\n    target_language: de\n"
        f"    partition: {{text: {{source: {study}, target: {tmp_path / 'b.de'}}}, dev: 1, test: 1}}\n"
        "systems: {base: {model: {family: transformer}}}\n"
    )
    assert main(["corpora", "--study", str(study)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "the study fetches no corpus",
        f"your file: {study}",
        f"your file: {tmp_path / 'b.de'} (missing)",
    ]
