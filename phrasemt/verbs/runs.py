"""`phrasemt runs`: list all trainings below the results folder, their progress and their state.

The verb reads only small files that trainings write, so it can be called at any time, also by `watch phrasemt runs`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phrasemt.artefacts.training import Metrics, TrainingRecord, ranked
from phrasemt.errors import PhrasemtError
from phrasemt.runs.notes import StageNote, TrainingReport, last_sign_of_life, training_note
from phrasemt.runs.text_table import table
from phrasemt.runs.units import clock, memory
from phrasemt.verbs._study import FILE_OR_NAME, study_name
from phrasemt.workflow.paths import RESULTS, Paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List all trainings below results/. state: running; finished; stopped (by a signal, or at the end "
        "of its time); failed (its log names the error); dead (its process ended without a report, or runs on another "
        "machine and has not reported for ten minutes). To continue a training that is not finished, run the same "
        "command again."
    )
    parser.add_argument("study", nargs="*", type=Path, metavar="STUDY", help=f"{FILE_OR_NAME} (default: all studies)")
    parser.add_argument("--all", action="store_true", help="also list trainings under earlier settings, data or code")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(options: argparse.Namespace) -> None:
    """Print the list. Raises PhrasemtError for a study without a folder of results."""
    studies = list(dict.fromkeys(_results_of(study) for study in options.study)) or sorted(RESULTS.glob("*"))
    now = datetime.now(UTC)
    trainings = [
        training
        for study in studies
        for folder in Path().glob(Paths(study.name).model.glob)
        for training in trainings_in(folder, now, every=options.all)
    ]
    trainings.sort(
        key=lambda one: (one["study"], one["dataset"], one["system"], len(one["seed"]), one["seed"], one["reported"])
    )
    if options.json:
        print(json.dumps(trainings, indent=1))
    elif trainings:
        rows = [_row(training) | ({} if options.all else {"settings": ""}) for training in trainings]
        lines = table([list(rows[0]), *(list(row.values()) for row in rows)], right_aligned=rows[0].keys() - _LEFT)
        print(*lines, sep="\n")
    else:
        where = " or ".join(map(str, studies if options.study else [RESULTS]))
        print(f"no trainings in {where} yet. Next: snakemake --profile profiles/local --configfile STUDY.yaml")


def _results_of(study: Path) -> Path:
    folder = RESULTS / study_name(study)
    if not folder.is_dir():
        raise PhrasemtError(
            "no results of this study",
            where=folder,
            expected=f"one of {', '.join(sorted(path.name for path in RESULTS.glob('*'))) or 'none yet'}",
            next_step="snakemake --profile profiles/local --configfile STUDY.yaml",
        )
    return folder


def trainings_in(folder: Path, now: datetime, *, every: bool) -> list[dict[str, Any]]:
    """Return the training in models/<system>/<seed>/ that reported last; with `every`, all trainings there."""
    record = _record(folder / "training.json")
    finished = (folder / record.metrics).parent if record else None
    states = {path.parent for name in ("note.json", "metrics.jsonl") for path in folder.glob(f"state/*/{name}")}
    found = [
        _training(folder, state, record if state == finished else None, now)
        for state in states | ({finished} if finished else set())
    ]
    return found if every else sorted(found, key=lambda training: str(training["reported"]))[-1:]


def _record(path: Path) -> TrainingRecord | None:
    """The record of a training; None when it is missing or damaged."""
    with contextlib.suppress(PhrasemtError):
        return TrainingRecord.read(path)
    return None


def _training(folder: Path, state: Path, record: TrainingRecord | None, now: datetime) -> dict[str, Any]:
    """What `--json` prints of a training. None: not known, or not known yet; a note is needed for most values."""
    path = state / "metrics.jsonl"
    note = StageNote.read(training_note(path))
    report = note.training if note else None
    metrics = Metrics.read_unfinished(path)
    evaluations = [one.evaluation for one in metrics.evaluations] or (record.evaluations if record else [])
    reports = metrics.reports
    update = max(reports[-1].update if reports else 0, record.updates if record else 0, report.update if report else 0)
    reported = report.reported if report else None
    reported = reported or last_sign_of_life(path) or last_sign_of_life(folder / "training.json") or now
    if note:
        status = "dead" if note.state == "running" and not note.alive(training_note(path), now) else note.state
    else:
        status = "finished" if record else "dead"
    max_updates = report.max_updates if report else update if record and record.stopped == "max_updates" else None
    measure = "dev_bleu" if any(one.dev_bleu is not None for one in evaluations) else "dev_perplexity"
    last = evaluations[-1] if evaluations else None
    best = next(iter(ranked(evaluations, "bleu" if measure == "dev_bleu" else "perplexity")), None)
    told = report.model_dump() if report else dict.fromkeys(TrainingReport.model_fields)
    return told | {
        "study": folder.parents[3].name,
        "dataset": folder.parents[2].name,
        "system": folder.parent.name,
        "seed": folder.name,
        "settings": state.name,  # the digest of settings, data and code
        "state": status,
        "update": update,
        "max_updates": max_updates,
        "percent": round(100 * update / max_updates, 1) if max_updates else None,
        "measure": measure if evaluations else None,
        "last": getattr(last, measure, None),
        "last_update": getattr(last, "update", None),
        "best": getattr(best, measure, None),
        "best_update": getattr(best, "update", None),
        "tokens_per_second": metrics.updates[-1].tokens_per_second if metrics.updates else None,
        # Of all runs of the training.
        "seconds": report.seconds if report else max((one.seconds for one in reports), default=None),
        "seconds_left": report.seconds_left if report and status != "finished" else None,
        "host": note.host if note else None,
        "pid": note.pid if note else None,
        "reported": reported.isoformat(timespec="seconds"),
        "seconds_since_report": max(0, round((now - reported).total_seconds())),
    }


_LEFT = {"study", "data set", "system", "settings", "state", "device", "host"}


def _row(one: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a training by heading; unknown values are empty."""
    measure = {"dev_bleu": "{:.2f} BLEU", "dev_perplexity": "{:.2f} ppl", None: ""}[one["measure"]]
    return {
        "study": one["study"],
        "data set": one["dataset"],
        "system": one["system"],
        "seed": one["seed"],
        "settings": one["settings"],
        "state": one["state"],
        "update": f"{one['update']:,}" + _cell(" of {:,}", one["max_updates"]),
        "%": _cell("{}", one["percent"], int),
        "dev": _cell(measure, one["last"]),
        "best": _cell(measure, one["best"]) + _cell(" at {:,}", one["best_update"]),
        "tokens/s": _cell("{:,.0f}", one["tokens_per_second"]),
        "spent": _cell("{}", one["seconds"], clock),
        "left": _cell("{}", one["seconds_left"], clock),
        "memory": _cell("{}", one["memory_mib"], memory),
        "device": (one["device"] or "") + (f" x {one['processes']}" if (one["processes"] or 1) > 1 else ""),
        "host": one["host"] or "",
        "report": _ago(one["seconds_since_report"]),
    }


def _cell(form: str, value: Any, shown: Callable[[Any], Any] = lambda value: value) -> str:
    return "" if value is None else form.format(shown(value))


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
