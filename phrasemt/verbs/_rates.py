"""How fast a device computes: by its data sheet, or by the finished trainings whose records lie below results/."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import count_lines
from phrasemt.files.sidecars import read_sidecar
from phrasemt.runs.notes import StageNote, training_note
from phrasemt.study.architectures import ModelSettings
from phrasemt.workflow.paths import ANY_STUDY

# Multiply-adds of 16-bit matrices with sums in float32, without sparsity, in 10^12 floating-point operations a second,
# as the data sheets state them.
GPUS = {"rtx3090": 71, "l4": 121, "a10": 125, "rtx4090": 165, "a100": 312, "l40s": 362, "h100": 989, "h200": 989}
UTILISATION = 0.3  # of a training with large updates; a search computes with small matrices
UTILISATION_OF_A_SEARCH = 0.03
BACKWARD = 2  # times the multiply-adds of the forward pass
MEASURED = "measured"  # in place of a kind of GPU: the device of the finished trainings


@dataclass(frozen=True)
class Rate:
    """Floating-point operations a second of a device in a training and in a search, and what they rest on."""

    device: str
    training: float
    search: float
    basis: str


def rate_of(kind: str, utilisation: float) -> Rate:
    """The rate of a kind of GPU, or of the device of finished trainings (`MEASURED`).

    Raises PhrasemtError if no training has finished.
    """
    if kind == MEASURED:
        return _measured()
    stated = GPUS[kind] * 1e12
    return Rate(
        device=kind,
        training=stated * utilisation,
        search=stated * UTILISATION_OF_A_SEARCH,
        basis=f"{GPUS[kind]} TFLOP/s ({kind}), of which a training reaches {utilisation:.0%} and a search "
        f"{UTILISATION_OF_A_SEARCH:.0%}",
    )


def _measured() -> Rate:
    """The median over the finished trainings of the device that has most of them."""
    rates: dict[tuple[str, str], list[float]] = {}
    for host, device, rate in _trainings():
        rates.setdefault((host, device), []).append(rate)
    if not rates:
        raise PhrasemtError(
            "no finished training tells a rate",
            where=ANY_STUDY.record.glob,
            expected="the records of a training with its note and its vocabularies",
            next_step=f"run a study first, or name a kind of GPU: {', '.join(GPUS)}",
        )
    (host, device), found = max(rates.items(), key=lambda entry: len(entry[1]))
    median = statistics.median(found)
    return Rate(
        device=device,
        training=median,
        search=median * UTILISATION_OF_A_SEARCH / UTILISATION,
        basis=f"measured rates of {device} on {host}: {median / 1e12:,.3g} TFLOP/s, the median of {len(found)} "
        f"finished trainings ({min(found) / 1e12:,.3g} to {max(found) / 1e12:,.3g}), of which a search reaches "
        f"{UTILISATION_OF_A_SEARCH / UTILISATION:.0%}",
    )


def _trainings() -> Iterator[tuple[str, str, float]]:
    """Host, device and operations a second of each process, for each finished training that can be read."""
    for record in sorted(Path().glob(ANY_STUDY.record.glob)):
        try:
            written = json.loads(record.read_text(encoding="utf-8"))
            note = StageNote.read(training_note(record.parent / written["metrics"]))
            model = TypeAdapter(ModelSettings).validate_python(written["model"])
            inputs = read_sidecar(record)["inputs"]
            sizes = {side: count_lines(inputs[f"{side}_vocabulary"][0]["path"]) for side in ("source", "target")}
        except (OSError, ValueError, KeyError, ValidationError, PhrasemtError):
            continue  # of another version, or without its state and its vocabularies
        report = note.training if note else None
        if note is None or report is None or not report.tokens_per_second:
            continue
        from phrasemt.models.cost import cost_of  # imports torch

        cost = cost_of(model, source_vocabulary=sizes["source"], target_vocabulary=sizes["target"])
        operations = 2 * (1 + BACKWARD) * cost.multiply_adds * report.tokens_per_second
        yield note.host, report.device, operations / report.processes
