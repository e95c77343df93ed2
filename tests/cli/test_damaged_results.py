"""Commands name a damaged file of the results, and show no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_study_errors import RIGHT

from phrasemt.cli import main
from phrasemt.commands.trace import Pair, StageRun, nth, views
from phrasemt.errors import DamagedFileError
from phrasemt.study.reading import load_study
from phrasemt.workflow.paths import Paths


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.chdir(tmp_path)
    model = "model: {family: transformer, width: 16, heads: 2}"
    Path("study.yaml").write_text(RIGHT.replace(model, model.replace("transformer", "phrase_representation")))
    return Paths.of(load_study("study.yaml"), "demo")


def write(path: str | Path, content: bytes) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)
    return Path(path)


@pytest.mark.parametrize("content", [b"one\n", b"[]\n", b"\0\n"])
def test_rows_of_a_split(paths: Paths, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    write(paths.examples.at(split="test"), b"")
    rows = write(paths.rows.at(split="test"), content)
    assert main(["trace", "test:1", "--study", "study.yaml"]) == 2
    assert f"{rows}: not a file of clean_pairs (found ValueError" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"no JSON\n", b"[]\n", b'{"n_best": [1]}\n'])
def test_translations(paths: Paths, content: bytes) -> None:
    raw = write("my.en", b"a\n")
    translations = write(paths.translations.at(system="base", seed=1, split="test"), content)
    rows = Path(paths.rows.at(split="test"))
    study = load_study("study.yaml")
    pair = Pair(study=study, dataset="demo", paths=paths, split="test", row=0, line=0)
    runs = [
        StageRun("clean_pairs", {"raw_source": [raw], "raw_target": [raw]}, {"rows": rows}),
        StageRun("translate_examples", {}, {"translations": translations}),
    ]
    with pytest.raises(DamagedFileError, match=str(translations)):
        list(views(pair, runs))


def test_a_file_with_too_few_lines(paths: Paths) -> None:
    path = write("short", b"a\nb\n")
    assert nth(path, 1) == "b"
    with pytest.raises(DamagedFileError, match=r"short: the file has too few lines \(expected more than 2\)"):
        nth(path, 2)
