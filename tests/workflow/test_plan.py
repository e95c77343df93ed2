"""`phrasemt plan` of a study that was run: what it says of changes, and what it lets a person accept."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from workplace import STUDY, Workplace

from phrasemt.artefacts.sidecar import Sidecar

SCORES = "results/tiny/demo.en-de/scores/max/1.json"
TRANSLATIONS = "results/tiny/demo.en-de/translations/max/1/test.tok"


def _plan(workplace: Workplace, *arguments: str, code: int = 0) -> str:
    done = workplace.phrasemt("plan", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    if code:
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done.stderr
    assert done.stderr == ""
    return done.stdout


def _accept(workplace: Workplace, *names: str, code: int = 0) -> str:
    return _plan(workplace, "--accept", "--note", "only renamed", "study.yaml", *names, code=code)


def _rules(plan: str) -> dict[str, int]:
    """Jobs of each rule, from the table of a plan."""
    rows = re.findall(r"^  (\w+) +(\d+)  +[\d.<?]+  ", plan, re.MULTILINE)
    return {rule: int(jobs) for rule, jobs in rows if rule != "all"}


def _snakemakes(workplace: Workplace) -> dict[str, int]:
    """Jobs of each rule, from Snakemake's own dry run."""
    done = workplace.snakemake("--dry-run", "--quiet", "rules", "host")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    return {rule: int(jobs) for rule, jobs in rows if rule not in ("all", "total")}


def _edit(workplace: Workplace, module: str) -> None:
    path = workplace.folder / "phrasemt" / module
    path.write_text(path.read_text() + "\nCHANGED = 1\n")


def _all_bytes(workplace: Workplace) -> dict[Path, bytes]:
    """Results and what Snakemake knows of them, with the times of the files."""
    folders = (workplace.results, workplace.folder / ".snakemake/metadata")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 100
    return {path: path.read_bytes() + str(path.stat().st_mtime_ns).encode() for path in files}


def test_nothing_to_do(finished: Workplace) -> None:
    before = _all_bytes(finished)
    assert _plan(finished, "study.yaml") == "tiny: nothing to do, all 79 jobs are done\n"
    assert _all_bytes(finished) == before
    assert not list((finished.folder / ".snakemake/locks").glob("*"))


def test_a_plan_names_each_change_and_counts_what_follows(finished: Workplace) -> None:
    study = yaml.safe_load(STUDY)
    study["title"] = "Another"
    study["systems"]["max"]["model"]["dropout"] = 0.2
    study["seeds"] = [1, 2]
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    _edit(finished, "scoring/bleu.py")
    (finished.results / "demo.en-de/phrases/parse/train.json").unlink()
    plan = _plan(finished, "study.yaml")
    assert _rules(plan) == _snakemakes(finished)
    lines = [line.strip() for line in plan.splitlines()]
    (changed,) = [line for line in lines if line.startswith("settings model.dropout: 0.1 -> 0.2: ")]
    rules = changed.removeprefix("settings model.dropout: 0.1 -> 0.2: ").removesuffix(" of max").split(", ")
    reading = {"average_checkpoints", "score_contrasts", "translate_examples", "analyse_attention"}
    assert set(rules) == {"train_model", *reading}
    assert "code phrasemt/scoring/bleu.py: score_system of base, bi, max" in lines
    assert "settings title: tiny -> Another: make_table, write_report" in lines
    assert "settings seeds: +2: score_by_length, make_table of base, bi, max" in lines
    (inputs,) = [line for line in lines if line.startswith("other inputs")]
    assert "+results/tiny/demo.en-de/scores/base/2.json" in inputs
    rules, _, systems = inputs.rpartition(" and others: ")[2].partition(" of ")
    assert set(rules.split(", ")) == {"compare_systems", "score_by_length", "make_table", "write_report"}
    assert set(systems.split(", ")) == {"base", "bi", "max"}
    why = {line.split()[0]: line for line in lines}
    assert why["measure_phrases"].endswith("output missing")
    assert "4 never run" in why["train_model"]
    assert "1 settings" in why["train_model"]
    assert "5 x the same job" not in plan  # base of seed 2 has no record of its own
    assert re.search(r"the cost comes from earlier runs: .*\d+ x the same job.*\d+ x jobs of the rule", plan)


def test_jobs_that_snakemake_has_no_record_of_are_named_with_what_changed(finished: Workplace) -> None:
    """As after a copy of the results without .snakemake: nothing runs again for a change, and nobody would know."""
    shutil.rmtree(finished.folder / ".snakemake/metadata")
    missing = "Snakemake has no records of 79 finished jobs"
    headline, said = _plan(finished, "study.yaml").splitlines()
    assert headline == "tiny: nothing to do, all 79 jobs are done"
    assert said.startswith(missing)
    finished.write_study(STUDY.replace("samples: 10", "samples: 11"))
    _edit(finished, "scoring/bleu.py")
    assert _snakemakes(finished) == {}
    plan = _plan(finished, "study.yaml")
    assert missing in plan
    assert "  settings samples: 10 -> 11: compare_systems, score_by_length, write_report of bi, max, base\n" in plan
    assert "  code phrasemt/scoring/bleu.py: score_system of base, bi, max\n" in plan


def test_gpu_hours_are_those_of_a_machine_with_gpus(finished: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    finished.write_study(STUDY.replace("max_updates: 2", "max_updates: 3\n      precision: bfloat16"))
    for path in (finished.folder / "benchmarks").rglob("train_model/**/*.tsv"):
        path.write_text("s\th:m:s\n1800.0\t0:30:00\n")
    program = finished.folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    program.write_text("#!/bin/sh\necho 0, GPU-a\n")
    program.chmod(0o755)
    plan = _plan(finished, "study.yaml")
    assert re.search(r"^  train_model +4 +3\.00 +3\.00 ", plan, re.MULTILINE)  # half an hour each, for 3 updates, not 2
    assert "GPUs older than Ampere (V100, T4) compute in float32" in plan


def test_mistakes_of_a_study_and_of_arguments_end_the_plan(finished: Workplace) -> None:
    finished.write_study(STUDY.replace("max_updates: 2", "max_updates: -2"))
    assert "systems.base.training.max_updates" in _plan(finished, "study.yaml", code=2)
    assert "no such file" in _plan(finished, "missing.yaml", code=2)
    finished.write_study(STUDY)
    assert "needs --accept" in _plan(finished, "study.yaml", "translate_examples", code=2)
    message = _plan(finished, "study.yaml", "--profile", "profiles/missing", code=2)
    assert "Snakemake cannot plan this study" in message
    assert "profiles/missing" in message


def test_what_is_accepted_does_not_run(finished: Workplace) -> None:
    _edit(finished, "scoring/bleu.py")
    finished.write_study(STUDY.replace("samples: 10", "samples: 11"))
    bytes_before = (finished.folder / SCORES).read_bytes()
    made = Sidecar.beside(finished.folder / SCORES)
    said = _accept(finished, "score_system")
    assert said.startswith("accepted: 3 x score_system\n")
    left = {"compare_systems": 2, "score_by_length": 3, "make_table": 1, "write_report": 1}
    assert _snakemakes(finished) == _rules(said) == left
    sidecar = Sidecar.beside(finished.folder / SCORES)
    (accepted,) = sidecar.accepted
    assert sidecar.model_copy(update={"accepted": ()}) == made
    assert (finished.folder / SCORES).read_bytes() == bytes_before
    assert accepted.changes == ["code phrasemt/scoring/bleu.py"]
    assert accepted.note == "only renamed"
    assert accepted.code != made.code
    assert accepted.settings == made.settings

    assert "nothing to accept of this rule" in _accept(finished, "score_system", code=2)
    said = _accept(finished)
    accepted = "accepted: 2 x compare_systems, 3 x score_by_length, 1 x write_report"
    assert said == f"{accepted}\ntiny: nothing to do, all 79 jobs are done\n"
    assert "nothing to accept" in _accept(finished, code=2)

    # The next change is a change against what was accepted.
    finished.write_study(STUDY.replace("samples: 10", "samples: 12"))
    assert "settings samples: 11 -> 12: compare_systems" in _plan(finished, "study.yaml")
    comparison = "results/tiny/demo.en-de/comparisons/max.json"
    assert _rules(_accept(finished, comparison))["compare_systems"] == 1
    changes = [["settings samples: 10 -> 11"], ["settings samples: 11 -> 12"]]
    assert [entry.changes for entry in Sidecar.beside(finished.folder / comparison).accepted] == changes


def _refused(workplace: Workplace, *names: str) -> str:
    before = _all_bytes(workplace)
    message = _accept(workplace, *names, code=2)
    assert _all_bytes(workplace) == before
    return message


def test_outputs_that_are_not_as_they_were_made_are_refused_with_all_others(finished: Workplace) -> None:
    assert "nothing to accept: no output differs only by settings, code or times of files" in _refused(finished)
    _edit(finished, "scoring/bleu.py")
    message = _refused(finished, "score_system", "scor_system")
    assert "scor_system: nothing to accept of this rule or artefact (expected one of score_system" in message
    scores, locks = finished.folder / SCORES, finished.folder / ".snakemake/locks"
    text = scores.read_text()
    scores.write_text(text + "\n")
    assert f"{SCORES}: not the file that score_system wrote" in _refused(finished)
    scores.write_text(text)
    locks.mkdir(exist_ok=True)
    (locks / "0.output.lock").write_text(f"{SCORES}\n")
    assert "a run is going in this folder" in _refused(finished)
    shutil.rmtree(locks)
    sidecar = scores.with_name(scores.name + ".meta.json")
    sidecar.rename(finished.folder / "sidecar")
    assert "has no sidecar" in _refused(finished, "score_system")
    (finished.folder / "sidecar").rename(sidecar)
    scores.unlink()
    assert "nothing to accept of this rule or artefact" in _refused(finished, SCORES)
    said = _accept(finished)
    assert said.startswith("accepted: 2 x score_system\n")
    assert _rules(said)["score_system"] == 1
    assert not scores.exists()


def test_changed_inputs_are_no_cosmetic_change(finished: Workplace) -> None:
    _edit(finished, "scoring/bleu.py")
    path = finished.folder / TRANSLATIONS
    path.write_text(path.read_text() + "x\n")
    assert "made of an input that has other contents now" in _refused(finished, "score_system")
    _edit(finished, "scoring/significance.py")
    finished.write_study(STUDY + "seeds: [1, 2]\n")
    assert "made of other inputs" in _refused(finished, "compare_systems")
    path.write_text(path.read_text().removesuffix("x\n"))
    assert _accept(finished).startswith("accepted: 3 x score_system\n")


def _compare_no_contents(workplace: Workplace) -> None:
    """Makes Snakemake treat all files as files that are too large to compare."""
    profile = workplace.folder / "profiles/local/profile.yaml"
    profile.write_text(profile.read_text() + "max-checksum-file-size: 0\n")


@pytest.mark.parametrize("with_records", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_copy_without_times_is_accepted(finished: Workplace, tmp_path: Path, *, with_records: bool) -> None:
    """As after `cp -r`, with and without the folder .snakemake."""
    _compare_no_contents(finished)
    left_out = None if with_records else shutil.ignore_patterns("metadata")
    shutil.copytree(finished.folder, tmp_path / "cp", copy_function=shutil.copyfile, ignore=left_out)
    copied = replace(finished, folder=tmp_path / "cp")
    for number, path in enumerate(sorted(copied.folder.rglob("*"), reverse=True)):
        os.utime(path, (1e9 + number, 1e9 + number))  # in an order that is far from the order of the work
    contents = {path: path.read_bytes() for path in copied.results.rglob("*") if path.is_file()}
    jobs = sum(_snakemakes(copied).values())
    assert jobs > 40
    plan = _plan(copied, "study.yaml")
    assert f"tiny: {jobs} of 79 jobs to run" in plan
    assert f"{jobs} of these jobs need not run: inputs and outputs have the contents" in plan
    assert _plan(copied, "--accept", "study.yaml").splitlines()[1] == "tiny: nothing to do, all 79 jobs are done"
    assert _snakemakes(copied) == {}
    assert contents == {path: path.read_bytes() for path in copied.results.rglob("*") if path.is_file()}


def test_what_differs_is_not_accepted_with_a_copy(finished: Workplace) -> None:
    _compare_no_contents(finished)
    subwords = finished.results / "demo.en-de/subwords/train.en"
    text = subwords.read_text()
    subwords.write_text(text + "x\n")
    plan = _plan(finished, "study.yaml")
    assert "input newer results/tiny/demo.en-de/subwords/train.en" in plan
    assert "need not run" not in plan
    assert _rules(plan) == _snakemakes(finished)
    assert "nothing to accept" in _refused(finished)
    subwords.write_text(text)
    finished.write_study(STUDY.replace("merges: 100", "merges: 90"))
    scores = finished.folder / SCORES
    scores.write_text(scores.read_text() + "\n")
    plan = _plan(finished, "study.yaml")
    assert "need not run" not in plan, "every job follows learn_subwords"
    finished.write_study(STUDY)
    plan = _plan(finished, "study.yaml")
    assert re.search(r"^  score_system +\d .* what it reads is made again$", plan, re.MULTILINE)
    assert re.search(r"^  train_model +\d .* only times of files$", plan, re.MULTILINE)


_DIES_BEFORE_THE_RECORD = """
import os, signal, sys
from snakemake.persistence.file import FilePersistence
FilePersistence._write_record = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
from phrasemt.cli import main
main(["plan", "--accept", "study.yaml"])
"""


def test_killed_in_between_it_can_be_done_again(finished: Workplace) -> None:
    _edit(finished, "scoring/bleu.py")
    killed = finished.run(sys.executable, "-c", _DIES_BEFORE_THE_RECORD)
    assert killed.returncode == -9, killed.stderr
    assert _rules(_plan(finished, "study.yaml"))["score_system"] == 3
    assert _accept(finished).startswith("accepted: 3 x score_system\n")
    assert _snakemakes(finished) == {}
    for path in (finished.results / "demo.en-de/scores").rglob("?.json"):
        assert len(Sidecar.beside(path).accepted) == 1
