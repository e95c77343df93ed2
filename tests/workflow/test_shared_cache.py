"""A second study, under other names and in another folder, beside a first one that has the same cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from workplace import STUDY, Workplace, stage_command

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.cli import main
from phrasemt.runs.notes import StageNote, stage_note
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


def _run(second: Workplace, *files: str) -> dict[str, set[bool]]:
    """Makes files of the data set; says of each stage that ran whether its outputs came from the cache."""
    done = second.snakemake(*(f"results/second/{file}" for file in files))
    assert done.returncode == 0, done.stderr[-3000:]
    cached: dict[str, set[bool]] = {}
    for log in (second.folder / "logs" / "second").rglob("*.log"):
        note = StageNote.read(stage_note(log))
        assert note.from_cache == (f"{note.stage}: from the cache, " in log.read_text()), log
        cached.setdefault(note.stage, set()).add(note.from_cache)
    return cached


def test_the_same_texts_and_subwords_go_on_to_the_training(finished: Workplace, second: Workplace) -> None:
    cached = _run(second, "pairs.en-de/examples/train.arrow", "pairs.en-de/phrases/parse/train.arrow")
    assert cached == {stage: {stage != "parse_sentences"} for stage in cached}  # which has the store
    assert {"generate_demo", "clean_pairs", "tokenize_text", "learn_subwords", "train_parser", "pack_examples"} < set(
        cached
    )
    for log in (second.folder / "logs/second/parse_sentences").rglob("*.log"):
        assert re.search(r"(\d+) sentences, \1 of them found in the store", log.read_text())
    files = [path for path in (second.folder / "results").rglob("*") if path.is_file()]
    assert len(files) > 60
    first = {_renamed(str(path.relative_to(finished.folder))): path for path in finished.results.rglob("*")}
    for path in files:
        made = first[str(path.relative_to(second.folder))]
        if path.name.endswith(".meta.json"):
            assert path.read_text() == _renamed(made.read_text())
        else:
            assert path.read_bytes() == made.read_bytes(), path
    shutil.rmtree(finished.folder / "resources")  # what came from the cache stays
    assert all(path.is_file() for path in files)
    assert "Nothing to be done" in second.snakemake("results/second/pairs.en-de/examples/train.arrow").stderr


def test_other_subwords_begin_there(second: Workplace) -> None:
    second.write_study((second.folder / "study.yaml").read_text().replace("merges: 100", "merges: 90"))
    assert _run(second, "pairs.en-de/subwords/train.de") == {
        "generate_demo": {True},
        "clean_pairs": {True},
        "tokenize_text": {True},
        "learn_subwords": {False},
        "apply_subwords": {False},
    }


@pytest.mark.parametrize("stage", sorted(name for name, stage in STAGES.items() if stage.cached))
def test_no_output_depends_on_what_its_key_does_not_have(
    stage: str, undisturbed: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made without a cache, under other names, elsewhere, on more cores: the same bytes."""
    sidecars = sorted(undisturbed.results.rglob("*.meta.json"))
    made = [path for path in sidecars if f'"stage": "{stage}"' in path.read_text(encoding="utf-8")]
    if not made:
        pytest.skip("not in the study; tests/unit/workflow/test_cache.py has those that read registries")
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
