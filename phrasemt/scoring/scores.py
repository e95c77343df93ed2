"""Score files: the scores of a system, trained with one seed, on the test sets of a data set.

A score has a convention: the name of its metric and its signature. At least three numbers called BLEU are in use, which
differ by about one point for the same translations. Scores are therefore compared, subtracted or tested only after
`check_comparable` has found equal conventions and equal sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Discriminator, Tag, ValidationError, model_validator

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.fields import Settings
from phrasemt.files.lines import write_text
from phrasemt.scoring.statistics import columns_of
from phrasemt.stages.scoring import SystemOnTestSets

Artefact = TypeVar("Artefact", bound=BaseModel)
Part = TypeVar("Part", bound=BaseModel)


class MetricScore(Settings):
    """A score with the signature of its metric."""

    score: float
    signature: str


class BleuScore(MetricScore):
    """BLEU with n-gram counts of orders 1 to 4, precisions in percent, and lengths in tokens."""

    counts: list[int]
    totals: list[int]
    precisions: list[float]
    brevity_penalty: float
    sys_len: int
    ref_len: int


def _kind_of_metric(value: Any) -> str:
    """The class of a score by its keys, so that a missing field is reported for the right class."""
    keys = value if isinstance(value, dict) else vars(value)
    return "BLEU" if set(keys) - {"score", "signature"} else "other"


class Scores(Settings):
    """The scores of one test set.

    references: sha256 of each reference as tokens and as text; equal values mean equal test sets. statistics: for each
    metric one row per sentence, in the order of the test set (columns: phrasemt/scoring/statistics.py).
    """

    sentences: int
    references: dict[Literal["tokens", "text"], list[str]]
    metrics: dict[
        str,
        Annotated[
            Annotated[BleuScore, Tag("BLEU")] | Annotated[MetricScore, Tag("other")], Discriminator(_kind_of_metric)
        ],
    ]
    statistics: dict[str, list[list[int | float]]]

    @model_validator(mode="after")
    def _complete(self) -> Scores:
        for name, rows in self.statistics.items():
            if name not in self.metrics:
                raise ValueError(f"statistics.{name} has no score in metrics")
            columns = columns_of(self.metrics[name].signature)
            if len(rows) != self.sentences or any(len(row) != columns for row in rows):
                raise ValueError(f"statistics.{name} is not a table of {self.sentences} rows of {columns} numbers")
        return self


class OfTestSets(Settings, Generic[Part]):
    """A file about a system, trained with one seed. test_sets: a part for each test set of the data set, by name."""

    format: Literal[2]
    dataset: str
    system: str
    seed: int
    test_sets: dict[str, Part]

    @property
    def by_place(self) -> dict[tuple[str | int, ...], Part]:
        """The parts by (data set, test set, system, seed)."""
        return {(self.dataset, name, self.system, self.seed): part for name, part in self.test_sets.items()}


class ScoreFile(OfTestSets[Scores]):
    """The file that `score_system` writes."""

    format: Literal[3]  # type: ignore[assignment]


def write_of_test_sets(path: Path, settings: SystemOnTestSets, parts: Mapping[str, Any], **more: str) -> None:
    """Write a file with a part for each test set. parts: JSON values by test set. more: further values of the file."""
    place = {"dataset": settings.dataset, "system": settings.system, "seed": settings.seed, **more}
    write_text(path, json.dumps({"format": 2, **place, "test_sets": parts}, indent=1) + "\n")


def of_test_sets(names: Sequence[str], *files: Sequence[Path]) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Each test set with its files, one of each kind. Raises MismatchError if a kind has another number of files."""
    for paths in files:
        if len(paths) != len(names):
            raise MismatchError(
                "each test set needs one file",
                where=", ".join(map(str, paths)) or None,
                expected=f"{len(names)}: {', '.join(names)}",
                found=len(paths),
                next_step="give the files in the order of the test sets",
            )
    return zip(names, zip(*files, strict=True), strict=True)


def read_artefact(path: Path, model: type[Artefact]) -> Artefact:
    """Read and check a JSON artefact. Raises DamagedFileError, with file and field, for a missing or wrong field."""
    again = "delete it and run again"
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DamagedFileError("no such file", where=path, next_step="run the stage that makes it") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise DamagedFileError(f"{field}: {first['msg']}", where=path, next_step=again) from None


def check_comparable(test_set: str, files: Mapping[str, Scores]) -> None:
    """Check that scores on a test set have equal sentences and equal conventions. files: scores by path.

    Raises MismatchError, with file and difference, for the first file that differs from the first one.
    """
    (first_path, first), *others = files.items()
    for path, file in others:
        for what, expected, found in (
            ("number of sentences", first.sentences, file.sentences),
            ("reference", first.references, file.references),
            ("set of metrics", sorted(first.metrics), sorted(file.metrics)),
            ("set of statistics", sorted(first.statistics), sorted(file.statistics)),
            *(
                (f"convention of {name}", metric.signature, file.metrics[name].signature)
                for name, metric in first.metrics.items()
                if name in file.metrics
            ),
        ):
            if expected != found:
                raise MismatchError(
                    f"{test_set} cannot be compared with {first_path}: the {what} differs",
                    where=path,
                    expected=expected,
                    found=found,
                    next_step="score both systems on the same test set with the same convention",
                )
