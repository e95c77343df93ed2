"""The section "Learning curves", and the records and metrics of all trainings."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.lines import read_lines
from phrasemt.report.cells import Table
from phrasemt.report.figures import Drawing, Series, draw_curves
from phrasemt.report.page import Section, fill
from phrasemt.scoring.scores import read_artefact
from phrasemt.workflow.paths import ANY_STUDY


class Evaluation(BaseModel, extra="allow"):
    """Dev scores after an update, and further measurements by name. dev_bleu: None for a language model."""

    __pydantic_extra__: dict[str, float]

    update: int
    dev_bleu: float | None = None
    dev_perplexity: float


class TrainingRecord(BaseModel):
    """The fields of a training record (written by `train_model`) that the report shows.

    metrics: path of the metrics file, relative to the record's folder.
    """

    format: Literal[1]
    parameters: int
    updates: int
    stopped: str
    best_update: int | None
    evaluations: list[Evaluation]
    metrics: str


class _Report(BaseModel):
    """The values of a line of metrics that the report shows."""

    update: int
    seconds: float | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    evaluation_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A training with its loss by update, and its evaluations; both have no entry that is not known."""

    dataset: str
    system: str
    seed: int
    losses: Mapping[int, float]
    evaluations: Sequence[Evaluation]


@dataclass(frozen=True, kw_only=True)
class TrainingCurve(Curve):
    """A finished training; `losses` is empty where somebody has deleted the training state.

    evaluation_share: part of the time of the training that evaluations on dev took; None where nobody knows.
    """

    record: TrainingRecord
    tokens_per_second: float | None
    evaluation_share: float | None

    @property
    def best(self) -> Evaluation | None:
        return next((one for one in self.record.evaluations if one.update == self.record.best_update), None)

    @property
    def measurements(self) -> Mapping[str, float]:
        """Further measurements of the last evaluation, by name (docs/measurements.md)."""
        return self.record.evaluations[-1].__pydantic_extra__ if self.record.evaluations else {}


def read_training(path: Path) -> TrainingCurve:
    """Read a record at <data set>.<source>-<target>/models/<system>/<seed>/training.json, and its metrics.

    Raises DamagedFileError for a record or a line of metrics that cannot be read.
    """
    record = read_artefact(path, TrainingRecord)
    names = ANY_STUDY.record.names(path)
    losses, speeds = {}, []
    seconds, evaluations = 0.0, 0.0
    metrics = path.parent / record.metrics
    if metrics.exists():
        for number, line in enumerate(read_lines(metrics), start=1):
            try:
                report = _Report.model_validate_json(line)
            except ValidationError as error:
                raise DamagedFileError(
                    "not a line of training metrics",
                    where=f"{metrics}, line {number}",
                    found=f"{line[:60]!r}: {error.errors()[0]['msg']}",
                    next_step="delete the line, or the folder of this file to train again",
                ) from None
            if report.loss is not None and report.tokens_per_second is not None:  # evaluations have neither
                losses[report.update] = report.loss
                speeds.append(report.tokens_per_second)
            seconds = max(seconds, report.seconds or 0.0)  # of the training so far
            evaluations += report.evaluation_seconds or 0.0
    return TrainingCurve(
        dataset=names["dataset"],
        system=names["system"],
        seed=int(names["seed"]),
        record=record,
        losses=losses,
        evaluations=record.evaluations,
        tokens_per_second=statistics.median(speeds) if speeds else None,
        evaluation_share=evaluations / seconds if seconds and evaluations else None,
    )


def read_unfinished(folder: Path) -> Curve | None:
    """Read the metrics in models/<system>/<seed>/ that were written last; None if there are none.

    Lines that are no reports are skipped, because a training may write the last one right now.
    """
    metrics = max(folder.glob("state/*/metrics.jsonl"), key=lambda path: path.stat().st_mtime, default=None)
    if metrics is None:
        return None
    losses, evaluations = {}, []
    for line in metrics.read_bytes().split(b"\n"):
        with contextlib.suppress(ValidationError):
            if b'"dev_perplexity"' in line:
                evaluations.append(Evaluation.model_validate_json(line))
            elif (report := _Report.model_validate_json(line)).loss is not None:
                losses[report.update] = report.loss
    names = ANY_STUDY.model.names(folder)
    return Curve(
        dataset=names["dataset"],
        system=names["system"],
        seed=int(names["seed"]),
        losses=losses,
        evaluations=evaluations,
    )


def check_trainings(table: Table, trainings: Sequence[TrainingCurve]) -> None:
    """Check that each trained system of the table has a training with each seed on each data set.

    Raises DataError naming the first training that is missing.
    """
    found = {(training.dataset, training.system, training.seed) for training in trainings}
    runs = [(system, seed) for system, seeds in table.trained.items() for seed in seeds]
    for needed in ((dataset, *run) for dataset in table.datasets for run in runs):
        if needed not in found:
            raise DataError(
                f"the report would be incomplete: no training record for {' '.join(map(str, needed))}",
                next_step="run the workflow again, which makes the missing files",
            )


def curves_section(datasets: Sequence[str], trainings: Sequence[Curve], titles: Mapping[str, str]) -> Section:
    """Make the section. titles: of the systems, by name."""
    drawings = [drawing for dataset in datasets for drawing in curves(dataset, trainings, titles)]
    content = fill(__file__, drawings=drawings, trainings=trainings, titles=titles)
    return Section(anchor="curves", heading="Learning curves", content=content)


def curves(dataset: str, trainings: Sequence[Curve], titles: Mapping[str, str]) -> Iterator[Drawing]:
    """Draw loss, dev BLEU and dev perplexity on a data set, one line for each training. titles: by system.

    A training with BLEU has no line for its perplexity. A figure without lines is left out.
    """
    chosen = [training for training in trainings if training.dataset == dataset]
    losses, bleu, perplexity = [], [], []
    for training in chosen:
        # The loss falls so much in the first updates that it would flatten the rest of the curve.
        first = max(training.losses, default=0) / 10
        if late := {update: loss for update, loss in training.losses.items() if update > first}:
            losses.append(Series(group=titles[training.system], x=list(late), y=list(late.values())))
        evaluations = training.evaluations
        updates = [evaluation.update for evaluation in evaluations]
        scores = [evaluation.dev_bleu for evaluation in evaluations if evaluation.dev_bleu is not None]
        if scores:
            bleu.append(Series(group=titles[training.system], x=updates, y=scores))
        elif evaluations:
            perplexities = [evaluation.dev_perplexity for evaluation in evaluations]
            perplexity.append(Series(group=titles[training.system], x=updates, y=perplexities))
    for name, title, y_label, series in (
        ("loss", "training loss", "loss per token", losses),
        ("BLEU", "dev BLEU", "dev BLEU", bleu),
        ("perplexity", "dev perplexity", "dev perplexity", perplexity),
    ):
        if series:
            yield draw_curves(
                f"{name}-{dataset}", series, title=f"{dataset}: {title}", x_label="updates", y_label=y_label
            )
