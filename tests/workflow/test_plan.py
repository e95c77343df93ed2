"""`phrasemt plan` of a study that was run: what it says of changes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from workplace import STUDY, Workplace


def _plan(workplace: Workplace, *arguments: str, code: int = 0) -> str:
    done = workplace.phrasemt("plan", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    if code:
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done.stderr
    assert done.stderr == ""
    return done.stdout


def _rules(plan: str) -> dict[str, int]:
    """Jobs of each rule, from the table of a plan."""
    rows = re.findall(r"^  (\w+) +(\d+)  +[\d.<~]+  ", plan, re.MULTILINE)
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


def test_nothing_to_do_and_a_missing_profile(finished: Workplace) -> None:
    before = _all_bytes(finished)
    assert _plan(finished, "study.yaml") == "tiny: nothing to do, all 70 jobs are done\n"
    assert _all_bytes(finished) == before
    assert not list((finished.folder / ".snakemake/locks").glob("*"))
    message = _plan(finished, "study.yaml", "--profile", "profiles/missing", code=2)
    assert "Snakemake cannot plan this study" in message
    assert "profiles/missing" in message


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
    assert "code: score_system of base, bi, max" in lines
    assert "settings title: tiny -> Another: make_table, write_report" in lines
    assert "settings seeds: +2: make_table" in lines
    (inputs,) = [line for line in lines if line.startswith("other inputs")]
    assert "+results/tiny/demo.en-de/scores/base/2.json" in inputs
    rules, _, systems = inputs.rpartition(" and others: ")[2].partition(" of ")
    assert set(rules.split(", ")) == {"compare_systems", "make_table", "write_report"}
    assert set(systems.split(", ")) == {"bi", "max"}
    why = {line.split()[0]: line for line in lines}
    assert why["measure_phrases"].endswith("output missing")
    assert "4 new" in why["train_model"]
    assert "1 settings" in why["train_model"]


@pytest.mark.slow
def test_changes_below_a_job_that_runs_are_not_overlooked(finished: Workplace) -> None:
    """Trainings and averages wait for the comparison of the splits, but do not run again when it does."""
    _edit(finished, "corpus/compare_splits.py")
    assert "train_model" not in _rules(_plan(finished, "study.yaml"))
    study = yaml.safe_load(STUDY)
    study["systems"]["max"]["model"]["dropout"] = 0.2
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    assert "train_model" not in _snakemakes(finished), "Snakemake sees it now; refuse_overlooked can go"
    said = _plan(finished, "study.yaml", code=2)
    assert "only after another run of compare_splits (found 1 train_model, 1 average_checkpoints" in said
    (first,) = re.findall(r"`phrasemt run STUDY --snakemake (\S+)`", said)
    done = finished.phrasemt("run", "study.yaml", "--snakemake", first)
    assert done.returncode == 0, done.stderr
    assert _rules(_plan(finished, "study.yaml"))["train_model"] == 1


def test_jobs_that_snakemake_has_no_record_of_are_named_with_what_changed(finished: Workplace) -> None:
    """As after a copy of the results without .snakemake: nothing runs again for a change, and nobody would know."""
    shutil.rmtree(finished.folder / ".snakemake/metadata")
    missing = "Snakemake has no records of 70 finished jobs"
    headline, said = _plan(finished, "study.yaml").splitlines()
    assert headline == "tiny: nothing to do, all 70 jobs are done"
    assert said.startswith(missing)
    finished.write_study(STUDY.replace("samples: 10", "samples: 11"))
    _edit(finished, "scoring/bleu.py")
    plan = _plan(finished, "study.yaml")
    assert _rules(plan) == {}, "Snakemake runs nothing again"
    assert missing in plan
    assert "  settings samples: 10 -> 11: compare_systems, write_report of bi, max\n" in plan
    assert "  code: score_system of base, bi, max\n" in plan


@pytest.mark.slow
def test_a_touched_study_has_nothing_to_do(finished: Workplace) -> None:
    """What docs/reruns.md says of `snakemake --touch`, after an edit without effect and after a copy without times."""
    profile = finished.folder / "profiles/local/profile.yaml"
    profile.write_text(profile.read_text() + "max-checksum-file-size: 0\n")  # compares no contents
    for number, path in enumerate(sorted(finished.results.rglob("*"), reverse=True)):
        os.utime(path, (1e9 + number, 1e9 + number))  # in an order that is far from the order of the work
    _edit(finished, "scoring/bleu.py")
    finished.write_study(STUDY.replace("samples: 10", "samples: 11"))
    assert _rules(_plan(finished, "study.yaml"))
    contents = {path: path.read_bytes() for path in finished.results.rglob("*") if path.is_file()}
    touched = finished.snakemake("--touch")
    assert touched.returncode == 0, touched.stderr
    assert _plan(finished, "study.yaml") == "tiny: nothing to do, all 70 jobs are done\n"
    assert contents == {path: path.read_bytes() for path in finished.results.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_change_that_was_begun_and_taken_back(finished: Workplace) -> None:
    """Snakemake removes the outputs of jobs that it begins; those of a stopped one stay away."""
    record, tokens = (
        finished.results / "demo.en-de/models/max/1/training.json",
        "results/tiny/demo.en-de/tokens/test.en",
    )
    expected = record.read_bytes()
    record.unlink()
    finished.write_study(STUDY.replace("max_updates: 2", "max_updates: 3"))
    changed = _plan(finished, "study.yaml")
    assert re.search(r"^  settings training.max_updates: 2 -> 3: train_model.* of base, bi, lm, max$", changed, re.M)
    finished.write_study(STUDY)
    assert _rules(_plan(finished, "study.yaml"))["train_model"] == 1
    jobs = json.loads(_plan(finished, "study.yaml", "--json"))["jobs"]
    (training,) = [job for job in jobs if job["rule"] == "train_model"]
    assert training["reasons"] == [{"why": "output missing", "what": str(record.relative_to(finished.folder))}]
    assert finished.snakemake().returncode == 0
    assert record.read_bytes() == expected
    done = "tiny: nothing to do, all 70 jobs are done\n"
    assert _plan(finished, "study.yaml") == done
    (finished.folder / tokens).unlink()
    said = "To make a file again: `phrasemt run STUDY --snakemake FILE`"
    assert _plan(finished, "study.yaml") == f"{done}missing, but no job needs it now: {tokens}. {said}\n"
    scores = finished.results / "demo.en-de/models/max/1/averaged.json"
    content = scores.read_bytes()
    scores.unlink()
    assert _rules(_plan(finished, "study.yaml"))["average_checkpoints"] == 1
    scores.write_bytes(content)
    for path in finished.results.glob("*/models/*/*/*"):  # weights and checkpoints, to have room on the disk
        if path.name == "state":
            shutil.rmtree(path)
        elif path.name.startswith("averaged.safetensors"):
            path.unlink()
    assert _plan(finished, "study.yaml").startswith(f"{done}missing, but no job needs it now: ")
