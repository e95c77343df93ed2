"""Texts, results and tables of scores, as `compare`, `papers`, `score` and `force` read and print them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.scores import MetricComparison, SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.commands._arguments import in_range
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel
from phrasemt.runs.display import table
from phrasemt.scoring.gains import PairedTest
from phrasemt.scoring.significance import decimals_of, p_text, undecided
from phrasemt.study.schema import MOST_SAMPLES, SAMPLES, SEED, Study
from phrasemt.workflow.paths import Paths

_Kind = TypeVar("_Kind", bound=JsonFile)
_NUMBERS = ("score", "difference", "p", "p (bootstrap)", "p (swaps)")


def read_columns(*paths: Path) -> list[list[str]]:
    """Return the lines of each of some parallel texts.

    Raises DataError for texts without a line, and the errors of `read_parallel`.
    """
    rows = list(read_parallel(*paths))
    if not rows:
        raise DataError("no lines", where=paths[0], next_step="give a file with at least one sentence")
    return [list(side) for side in zip(*rows, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Files of the systems of a study. source: tokens of its test sets."""

    scores: list[SystemScores]
    attention: list[AttentionAnalysis]
    contrasts: list[ContrastAccuracy]
    source: list[Path]

    @classmethod
    def of(cls, study: Study, datasets: Iterable[str]) -> Self:
        """Read the files about some data sets, of the systems and seeds that the study names now."""
        found = cls(scores=[], attention=[], contrasts=[], source=[])
        trainings = [{"system": system, "seed": seed} for system in study.systems for seed in study.seeds_of(system)]
        for name in datasets:
            dataset, paths = study.datasets[name], Paths.of(study, name)
            language = dataset.languages[0]
            sources = [Path(paths.tokens.at(split=test_set, language=language)) for test_set in dataset.test_sets]
            found.source.extend(path for path in sources if path.exists())
            for one in trainings:
                found.scores.extend(_read(SystemScores, [paths.system_scores.at(**one)]))
                analyses = [paths.attention_analysis.at(split=test_set, **one) for test_set in dataset.test_sets]
                found.attention.extend(_read(AttentionAnalysis, analyses))
                contrasts = [paths.of_kind(ContrastAccuracy).at(split=split, **one) for split in dataset.contrastive]
                found.contrasts.extend(_read(ContrastAccuracy, contrasts))
        return found


def paired_test(study: Study) -> PairedTest:
    """The test of a study's report."""
    comparison = study.comparison
    return PairedTest(samples=comparison.samples, seed=SEED, repeated=study.repeated)


def _read(kind: type[_Kind], paths: Iterable[str]) -> Iterator[_Kind]:
    return (kind.read(path) for path in map(Path, paths) if path.exists())


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
    """The score of a system in a metric. tested: its difference to the first system; None for the first one.

    sentences: of the test set.
    """

    metric: str
    system: str
    score: float
    sentences: int
    seeds: str = ""
    tested: MetricComparison | None = None


def score_table(rows: Iterable[ScoreRow]) -> Iterator[str]:
    """Yield the lines of the table.

    Column p covers sentences and trainings. Where every system was trained once, the p of both tests of sentences
    replace it. Of few sentences it says that nothing is decided.
    """
    headings = ("metric", "system", "seeds", *_NUMBERS[:2], "95 % interval", *_NUMBERS[2:])
    lines = [(one.metric, one.system, one.seeds, f"{one.score:.2f}", *_tested(one)) for one in rows]
    yield from table([headings, *lines], right_aligned=_NUMBERS)


def _tested(row: ScoreRow) -> Iterator[str]:
    if (found := row.tested) is None:
        yield from [""] * 5
        return
    shown, p_values = found.shown, found.p_values
    tested = p_values.over_seeds is not None
    of_sentences = [None, None] if tested else [p_values.two_sided, p_values.randomization]
    decimals = decimals_of(shown.value, p_values.over_seeds if tested else p_values.two_sided, 2)
    yield f"{shown.value:+.{decimals}f}"
    yield f"{shown.low:+.{decimals}f} to {shown.high:+.{decimals}f}"
    if too_few := undecided(row.sentences):
        yield from (too_few, "", "")
    else:
        yield from ("" if p is None else p_text(p) for p in (p_values.over_seeds, *of_sentences))
