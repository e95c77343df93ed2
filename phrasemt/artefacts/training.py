"""Files of a training: its record, its metrics, the averaged weights and their scores; the weights of a tuner."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.lines import read_lines, write_text
from phrasemt.study.architectures import ModelSettings
from phrasemt.study.tokenization import BleuTokenizer

_Scores = TypeVar("_Scores", bound="DevScores")


class DevScores(Settings):
    """Scores on dev. dev_bleu: of greedy search; None for a language model. dev_perplexity: without label smoothing."""

    dev_bleu: float | None = None
    dev_perplexity: float

    @property
    def summary(self) -> str:
        bleu = "" if self.dev_bleu is None else f"BLEU {self.dev_bleu:.2f}, "
        return f"{bleu}perplexity {self.dev_perplexity:.3f}"


class Evaluation(DevScores):
    """Dev scores after an update. measurements: further losses and diagnostics, by name (docs/measurements.md).

    The names are sorted, so a training that continues or resumes writes the record of one from the first update.
    """

    update: int
    measurements: Annotated[dict[str, float], AfterValidator(lambda found: dict(sorted(found.items())))] = Field(
        default_factory=dict
    )


def ranked(scores: Sequence[_Scores], best_by: str) -> list[_Scores]:
    """Dev scores, the best first: by dev BLEU, then by dev perplexity, then the earlier one.

    dev BLEU is 0 at first, and often for long. Perplexity distinguishes these evaluations. `best_by: perplexity` and
    language models go by perplexity alone.
    """
    return sorted(scores, key=lambda one: (-(one.dev_bleu or 0.0) if best_by == "bleu" else 0.0, one.dev_perplexity))


def parameters_text(parameters: int, idle: int | None) -> str:
    """A number of parameters, and beside it those in use if they are fewer."""
    return f"{parameters:,}" + (f" ({parameters - idle:,} in use)" if idle else "")


class TrainingRecord(JsonFile, format=2):
    """A finished training; written last.

    idle_parameters: how many of the parameters change nothing; None in records of versions that did not count them.
    stopped: why it ended, `max_updates` or `early_stopping`. skipped: updates whose loss or gradient was not finite.
    micro_batch_positions: the size of micro-batches of each process. checkpoints: paths of the files to average.
    metrics: path of the metrics. Both are relative to the folder of the record.
    """

    model: ModelSettings
    parameters: int
    idle_parameters: int | None = None
    precision: str
    updates: int
    stopped: str
    skipped: int
    processes: int
    micro_batch_positions: list[int]
    micro_batches_per_update: float
    checkpoints: list[str]
    best_update: int | None = None
    evaluations: list[Evaluation]
    metrics: str

    @property
    def parameters_text(self) -> str:
        """The number of parameters, and beside it those in use if they are fewer."""
        return parameters_text(self.parameters, self.idle_parameters)

    @property
    def best(self) -> Evaluation | None:
        return next((one for one in self.evaluations if one.update == self.best_update), None)


class UpdateReport(Settings):
    """Means over the updates since the last report. seconds: training time of all runs so far; epoch: from 1.

    parts: further losses of the model. skipped: updates without a step so far.
    """

    update: int
    seconds: float
    memory_mib: float
    epoch: int
    loss: float
    perplexity: float
    parts: dict[str, float] = Field(default_factory=dict)
    learning_rate: float
    tokens_per_second: float
    skipped: int


class EvaluationReport(Settings):
    """An evaluation, and how long it took."""

    seconds: float
    memory_mib: float
    evaluation_seconds: float
    evaluation: Evaluation

    @property
    def update(self) -> int:
        return self.evaluation.update


@dataclass(frozen=True)
class Metrics:
    """The reports of a training so far, one JSON object a line."""

    reports: Sequence[UpdateReport | EvaluationReport]

    @property
    def updates(self) -> list[UpdateReport]:
        return [one for one in self.reports if isinstance(one, UpdateReport)]

    @property
    def evaluations(self) -> list[EvaluationReport]:
        return [one for one in self.reports if isinstance(one, EvaluationReport)]

    def write(self, path: Path) -> None:
        """Write all reports in the order of the updates; an evaluation follows the report of its update."""
        write_text(path, "".join(map(self.line, sorted(self.reports, key=lambda report: report.update))))

    @staticmethod
    def line(report: UpdateReport | EvaluationReport) -> str:
        return report.model_dump_json(exclude_none=True) + "\n"

    @classmethod
    def parse(cls, line: str) -> UpdateReport | EvaluationReport:
        """The report of a line. Raises ValueError for another line."""
        values = json.loads(line)
        kind = EvaluationReport if isinstance(values, dict) and "evaluation" in values else UpdateReport
        return kind.model_validate(values)

    @classmethod
    def read(cls, path: Path) -> Metrics:
        """Read a file; an absent one has no reports. Raises DamagedFileError, with the line, for another line."""
        reports = []
        for number, line in enumerate(read_lines(path) if path.exists() else (), start=1):
            try:
                reports.append(cls.parse(line))
            except ValueError as error:
                what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
                raise DamagedFileError(
                    "not a line of training metrics",
                    where=f"{path}, line {number}",
                    found=f"{line[:60]!r}: {what}",
                    next_step="delete the line, or the folder of this file to train again",
                ) from None
        return cls(reports)

    @classmethod
    def read_unfinished(cls, path: Path) -> Metrics:
        """Read a file that a training may be writing: lines that are no reports are skipped."""
        reports = []
        with contextlib.suppress(OSError):
            for line in path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    reports.append(cls.parse(line.decode()))
        return cls(reports)


class LastUpdate(DevScores):
    """The scores of the weights after the last update."""

    update: int


class AverageScores(JsonFile, DevScores, format=1):
    """Dev scores of the averaged weights, and of the last update beside them.

    updates: of the averaged checkpoints. dev_bleu_tokenizer: sacreBLEU's tokeniser for the language; with 13a, dev BLEU
    is computed on tokens.
    """

    dataset: str
    system: str
    seed: int
    sentences: int
    dev_bleu_tokenizer: BleuTokenizer
    updates: list[int]
    last: LastUpdate
    worse_than_last: bool


class TunedWeights(JsonFile):
    """The weights of the features of a phrase-based system. bleu: on dev; run: the best of the tuner's runs."""

    bleu: float
    run: int
    runs: int
    weights: dict[str, list[float]]
