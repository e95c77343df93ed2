"""A second study, under other names and in another folder, beside a first one that has the same cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from workplace import STUDY, Workplace, stage_command

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.cli import main
from phrasemt.stages import STAGES

# The first one's names, and those of the second.
NAMES = {"results/tiny/": "results/second/", "demo.en-de": "pairs.en-de"}


def _renamed(text: str) -> str:
    for name, other in NAMES.items():
        text = text.replace(name, other)
    return text


@pytest.fixture
def second(repository: Path, finished: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A study with the texts, the parser and the subwords of the first, and with other systems, in a new folder."""
    monkeypatch.setenv("PHRASEMT_CACHE", str(finished.folder / "resources" / "cache"))
    study = STUDY.replace("study: tiny", "study: second").replace("demo", "pairs").replace("width: 16", "width: 24")
    return Workplace.new(repository, tmp_path / "elsewhere", study, finished.warm)


@pytest.mark.slow
def test_a_second_study_takes_over_the_parser_and_its_parses(finished: Workplace, second: Workplace) -> None:
    done = second.snakemake("results/second/pairs.en-de/phrases/parse/train.arrow")
    assert done.returncode == 0, done.stderr[-3000:]
    logs = second.folder / "logs" / "second"
    for stage in ("train_vectors", "train_tagger", "train_parser"):
        assert "copied from " in (logs / stage / "english.log").read_text()
    for log in (logs / "parse_sentences").rglob("*.log"):
        assert re.search(r"(\d+) sentences, \1 of them found in the store", log.read_text())
    trained = second.folder / "results/second/annotators/english"
    for path in (path for path in trained.rglob("*") if path.is_file()):
        made = finished.results / "annotators/english" / path.relative_to(trained)
        if path.name.endswith(".meta.json"):
            assert path.read_text() == _renamed(made.read_text())
        else:
            assert path.read_bytes() == made.read_bytes(), path
    shutil.rmtree(finished.folder / "resources")  # what was copied stays
    assert "Nothing to be done" in second.snakemake("results/second/annotators/english/constituency.pt").stderr


@pytest.mark.parametrize("stage", sorted(name for name, stage in STAGES.items() if stage.used_by_all_studies))
def test_no_shared_output_depends_on_names_and_cores(
    stage: str, undisturbed: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained under other names, elsewhere, on more cores: the same bytes."""
    sidecars = sorted(undisturbed.results.rglob("*.meta.json"))
    made = [path for path in sidecars if f'"stage": "{stage}"' in path.read_text(encoding="utf-8")]
    sidecar = Sidecar.beside(Path(str(made[0]).removesuffix(".meta.json")))
    elsewhere = tmp_path / "elsewhere" / "deeper"
    elsewhere.mkdir(parents=True)
    for files in sidecar.inputs.values():
        for file in files:
            copy = elsewhere / _renamed(file.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(undisturbed.folder / file.path, copy)
    monkeypatch.chdir(elsewhere)
    command = stage_command(sidecar, stage, {})
    assert main([*map(_renamed, command), "--cores", "3"]) == 0
    for file in sidecar.outputs.values():
        assert Path(_renamed(file.path)).read_bytes() == (undisturbed.folder / file.path).read_bytes()
