"""Tables of scores and of differences between systems, as `compare`, `score` and `contrast` print them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.report.page import TextTable
from phrasemt.runs.text_table import table
from phrasemt.scoring.significance import p_text
from phrasemt.study.evaluation import MOST_SAMPLES, SAMPLES
from phrasemt.verbs._numbers import in_range

_NUMBERS = ("score", "difference", "p", "p (bootstrap)", "p (swaps)")


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add --samples, the number of samples of the tests."""
    parser.add_argument(
        "--samples",
        type=in_range(int, 1, MOST_SAMPLES),
        default=SAMPLES,
        metavar="N",
        help="samples of the tests (default: %(default)s)",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """The score of a system in a metric. tested: its difference to the first system; None for the first one."""

    metric: str
    system: str
    score: float
    seeds: str = ""
    tested: MetricComparison | None = None


def score_table(rows: Iterable[ScoreRow]) -> Iterator[str]:
    """Yield the lines of the table.

    Column p is of sentences and trainings. Where nobody knows how much trainings differ, p of both tests of sentences
    stand in place of it.
    """
    headings = ("metric", "system", "seeds", *_NUMBERS[:2], "95 % interval", *_NUMBERS[2:])
    lines = [(one.metric, one.system, one.seeds, f"{one.score:.2f}", *_tested(one.tested)) for one in rows]
    yield from table([headings, *lines], right_aligned=_NUMBERS)


def _tested(found: MetricComparison | None) -> Iterator[str]:
    if found is None:
        yield from [""] * 5
        return
    shown, p_values = found.shown, found.p_values
    yield f"{shown.value:+.2f}"
    yield f"{shown.low:+.2f} to {shown.high:+.2f}"
    tested = p_values.over_seeds is not None
    of_sentences = [None, None] if tested else [p_values.two_sided, p_values.randomization]
    yield from ("" if p is None else p_text(p) for p in (p_values.over_seeds, *of_sentences))


def gain_lines(gains: Iterable[TextTable]) -> Iterator[str]:
    """Yield tables of gains (phrasemt/report/sections/gains.py) with a line for each group."""
    for one in gains:
        yield f"\n{one.caption}"
        yield from table(list(zip(one.headings, *one.rows, strict=True)))
