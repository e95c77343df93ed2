"""`phrasemt gc`: it removes what no study names, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from workplace import STUDY

from phrasemt.cli import main
from phrasemt.runs.notes import StageNote

FOLDER = "results/tiny/demo.en-de"
NAMED = [
    *(f"{FOLDER}/{name}" for name in ("corpus/train.en", "corpus/test.dropped.tsv", "raw/train.chunks.en")),
    *(f"{FOLDER}/{name}" for name in ("vocabulary.de.tsv", "phrases/parse/train.arrow", "splits.json")),
    *(f"{FOLDER}/{name}" for name in ("scores/max/1.json", "comparisons/max.json", "translations/max/1/test.tok")),
    f"{FOLDER}/models/max/1/averaged.safetensors",
    "results/tiny/annotators/english/constituency.pt",
    "results/tiny/table.json",
]
UNNAMED = {
    "system mean": [f"{FOLDER}/models/mean/1/training.json", f"{FOLDER}/comparisons/mean.json"],
    "seed 2": [f"{FOLDER}/scores/max/2.json", f"{FOLDER}/translations/base/2/test.jsonl"],
    "data set old": ["results/tiny/old.en-de/corpus/train.en", "results/tiny/old.en-de/models/max/1/training.json"],
    "split extra": [f"{FOLDER}/tokens/extra.de"],
    "phrases random": [f"{FOLDER}/phrases/random/train.arrow"],
    "parser or chunker french": ["results/tiny/annotators/french/annotator.json"],
}
OTHERS = [f"{FOLDER}/notes.txt", "results/tiny/plots/mean.png", "results/second/demo.en-de/models/mean/1/training.json"]


def write(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("{}\n")


@pytest.fixture(autouse=True)
def _results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of a study, which once had other systems, seeds and data sets; each artefact has a sidecar."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    artefacts = [*NAMED, *(path for paths in UNNAMED.values() for path in paths)]
    write(*artefacts, *(f"{path}.meta.json" for path in artefacts), *OTHERS)
    write(f"{FOLDER}/models/mean/1/state/abc/latest.safetensors", f"{FOLDER}/models/mean/1/state/abc/note.json")


def files() -> set[str]:
    return {str(path) for path in Path("results").rglob("*") if path.is_file()}


def unnamed() -> set[str]:
    found = {name for paths in UNNAMED.values() for path in paths for name in (path, f"{path}.meta.json")}
    return found | {f"{FOLDER}/models/mean/1/state/abc/{name}" for name in ("latest.safetensors", "note.json")}


def test_it_lists_and_removes_nothing_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert main(["gc", "study.yaml"]) == 0
    said = capsys.readouterr().out
    assert files() == before
    assert f"{FOLDER}/phrases/random  " in said
    assert f"nothing was removed. Next: `phrasemt gc study.yaml --yes` removes {len(unnamed())} files (" in said


def test_it_removes_what_no_study_names(capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert main(["gc", "study.yaml", "--yes"]) == 0
    assert before - files() == unnamed()
    assert not Path("results/tiny/old.en-de").exists(), "no empty folders"
    capsys.readouterr()
    assert main(["gc", "study.yaml", "--yes"]) == 0
    assert capsys.readouterr().out.startswith("nothing to remove")


def _with_annotator(name: str, file: str) -> dict[str, Any]:
    """Another study, which names a file of an annotator."""
    study = yaml.safe_load(STUDY) | {"study": name}
    study["parsers"]["english"] = {"language": "en", "trees": [file]}
    return study


def test_what_another_study_names_stays(capsys: pytest.CaptureFixture[str]) -> None:
    other = yaml.safe_load(STUDY)
    other["systems"]["mean"] = other["systems"].pop("max")
    annotator = "results/tiny/annotators/french/annotator.json"
    third = _with_annotator("third", annotator)
    pairs = f"{FOLDER}/tokens/extra.de"
    third["datasets"]["demo"]["contrast_sets"] = {"agreement": [{"pairs": pairs}]}
    for name, study in (("other", other), ("third", third)):
        write(f"studies/{name}.yaml")
        Path(f"studies/{name}.yaml").write_text(yaml.safe_dump(study))
    before = files()
    assert main(["gc", "study.yaml", "--yes"]) == 0
    kept = {path for path in unnamed() if "/mean" in path or path.removesuffix(".meta.json") in (annotator, pairs)}
    assert before - files() == unnamed() - kept
    capsys.readouterr()
    Path("studies/third.yaml").write_text("study: [")
    assert main(["gc", "study.yaml", "--yes"]) == 2
    assert "studies/third.yaml: 1 mistake in the study" in capsys.readouterr().err


@pytest.mark.parametrize("recorded", [True, False])
def test_states_of_earlier_settings_are_removed(*, recorded: bool) -> None:
    """The state that the record names stays; without a record all stay, because each may be needed."""
    model = f"{FOLDER}/models/max/1"
    for number, state in enumerate(("old", "kept", "new")):
        write(f"{model}/state/{state}/latest.safetensors", f"{model}/state/{state}/metrics.jsonl")
        for path in Path(f"{model}/state/{state}").iterdir():
            os.utime(path, (1e9 + number, 1e9 + number))
    if recorded:
        Path(f"{model}/training.json").write_text('{"metrics": "state/kept/metrics.jsonl"}')
    assert main(["gc", "study.yaml", "--yes"]) == 0
    states = {path.name for path in Path(f"{model}/state").iterdir()}
    assert states == ({"kept"} if recorded else {"old", "kept", "new"})


def test_files_of_a_user_stay(tmp_path: Path) -> None:
    """Files without a sidecar, weights that a study starts from, files behind a link, paths of a second given study."""
    study = yaml.safe_load(STUDY)
    weights = f"{FOLDER}/models/mean/1/averaged.safetensors"
    study["systems"]["max"]["init_from"] = weights
    annotator = "results/tiny/annotators/french/annotator.json"
    second = _with_annotator("second", annotator)
    for name, one in (("study", study), ("second", second)):
        Path(f"{name}.yaml").write_text(yaml.safe_dump(one))
    mine = [f"{FOLDER}/tokens/README.md", f"{FOLDER}/corpus/train.en.orig", weights, f"{weights}.meta.json"]
    linked = [f"elsewhere/1/state/{state}/x" for state in ("aa", "bb")]
    write(*mine, *linked)
    Path("elsewhere/1/training.json").write_text('{"metrics": "state/bb/metrics.jsonl"}')
    (Path(FOLDER) / "models/base").symlink_to(tmp_path / "elsewhere")
    assert main(["gc", "study.yaml", "second.yaml", "--yes"]) == 0
    assert all(Path(path).is_file() for path in (*mine, *linked, annotator, f"{annotator}.meta.json"))
    assert not Path(f"{FOLDER}/comparisons/mean.json").exists()


def test_nothing_is_removed_while_a_stage_runs(capsys: pytest.CaptureFixture[str]) -> None:
    note = Path("logs/tiny/train_model/demo.en-de/mean.1.json")
    write(str(note))
    StageNote(stage="train_model").write(note)  # of this process, which is alive
    before = files()
    assert main(["gc", "study.yaml", "--yes"]) == 2
    assert "a run of this study is still going, so nothing is removed" in capsys.readouterr().err
    assert files() == before
