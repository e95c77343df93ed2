"""Texts, results and tables of scores, as `compare`, `papers`, `score` and `force` read and print them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import MetricComparison, SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.commands._arguments import as_written, in_range
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel
from phrasemt.runs.display import table
from phrasemt.scoring.scores import NATS
from phrasemt.scoring.significance import decimals_of, p_text, undecided
from phrasemt.study.schema import MOST_SAMPLES, SAMPLES, Study

_NUMBERS = ("score", "difference", "p")


def read_columns(*paths: Path) -> list[list[str]]:
    """Return the lines of each of some parallel texts.

    Raises DataError for texts without a line, and the errors of `read_parallel`.
    """
    rows = list(read_parallel(*paths))
    if not rows:
        raise DataError("no lines", where=paths[0], next_step="give a file with at least one sentence")
    return [list(side) for side in zip(*rows, strict=True)]


def read_scores(study: Study, dataset: str) -> list[SystemScores]:
    """The score files on a data set, of the systems and seeds that the study names now.

    Raises DamagedFileError as `as_written`.
    """
    path = Paths.of(study, dataset).system_scores
    files = (Path(path.at(system=system, seed=seed)) for system in study.systems for seed in study.seeds_of(system))
    return [SystemScores.read(as_written(file)) for file in files if file.exists()]


def read_nats(study: Study, dataset: str) -> list[AttentionAnalysis]:
    """The files with nats of the references, as `read_scores`."""
    path = Paths.of(study, dataset).attention_analysis
    names = (
        (name, seed, split)
        for name in study.forced
        for seed in study.seeds_of(name)
        for split in study.datasets[dataset].test_sets
    )
    files = (Path(path.at(system=name, seed=seed, split=split)) for name, seed, split in names)
    return [AttentionAnalysis.read(as_written(file)) for file in files if file.exists()]


def add_samples(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples",
        type=in_range(int, 1, MOST_SAMPLES),
        default=SAMPLES,
        metavar="N",
        help="samples of the tests (default: %(default)s)",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """The score of a system in a metric. tested: its difference to the first system; None for the first one.

    sentences: of the test set. p_value: of the difference; None where it is not tested.
    """

    metric: str
    system: str
    score: float
    sentences: int
    seeds: str = ""
    tested: MetricComparison | None = None
    p_value: float | None = None

    @property
    def decimals(self) -> int:
        return 3 if self.metric == NATS else 2


def score_table(rows: Iterable[ScoreRow]) -> Iterator[str]:
    """Yield the lines of the table. Of few sentences it says in place of p that nothing is decided."""
    headings = ("metric", "system", "seeds", *_NUMBERS[:2], "95 % interval", *_NUMBERS[2:])
    lines = [(one.metric, one.system, one.seeds, f"{one.score:.{one.decimals}f}", *_tested(one)) for one in rows]
    yield from table([headings, *lines], right_aligned=_NUMBERS)


def _tested(row: ScoreRow) -> Iterator[str]:
    if row.tested is None:
        yield from [""] * 3
        return
    shown = row.tested.difference
    decimals = decimals_of(shown.value, row.p_value, row.decimals)
    yield f"{shown.value:+.{decimals}f}"
    yield f"{shown.low:+.{decimals}f} to {shown.high:+.{decimals}f}"
    yield undecided(row.sentences) or p_text(row.p_value)
