"""Score files, and comparisons of them.

A score has a convention: the name of its metric and its signature. At least three numbers called BLEU are in use, which
differ by about one point for the same translations. Scores are therefore compared, subtracted or tested only after
`check_comparable` (phrasemt/scoring/scores.py) has found equal conventions and equal sentences.

Columns of the statistics of a sentence, in the order of the score file:

| metric | columns |
|---|---|
| BLEU | 4 clipped n-gram matches, 4 n-grams of the hypothesis, tokens of the hypothesis, tokens of the reference |
| chrF | for 6 orders of characters, then of words: n-grams of the hypothesis, n-grams of the reference, matches |
| TER | edits; tokens of the reference, the mean over references |
| mean (of your own metric) | the score of the sentence; 1 |

Of several references BLEU takes the closest or the shortest length, and chrF and TER the best reference.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import SkipValidation, model_validator

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.fields import Settings

Part = TypeVar("Part", bound=Settings)
Better = Literal["higher", "lower"]
Formula = Literal["BLEU", "chrF", "TER", "mean"]
BLEU_COLUMNS = 10


@dataclass(frozen=True)
class Convention:
    """A convention in which systems are scored, and its column in tables.

    metric: the formula that gives the score. meaning: what it is computed on. with_difference: whether a column with
    the difference to the baseline follows.
    """

    heading: str
    metric: Formula
    better: Better
    meaning: str
    with_difference: bool

    def score(self, value: float, signature: str) -> MetricScore:
        """A score in this convention."""
        return MetricScore(score=value, metric=self.metric, better=self.better, signature=signature)


_DETOKENISED = "sacreBLEU on detokenised text"
CONVENTIONS = {
    "bleu_tok": Convention("BLEU tok", "BLEU", "higher", "tokens, as multi-bleu.perl", True),
    "bleu_tok_uncased": Convention(
        "BLEU lc", "BLEU", "higher", "tokens with A to Z in lower case, as multi-bleu.perl -lc", False
    ),
    "bleu_tok_compound_split": Convention(
        "BLEU split", "BLEU", "higher", "Moses tokens split at hyphens, as Tensor2Tensor", False
    ),
    "bleu_detok": Convention("BLEU detok", "BLEU", "higher", _DETOKENISED, True),
    "chrf2": Convention("chrF2", "chrF", "higher", _DETOKENISED, False),
    "chrf2pp": Convention("chrF++", "chrF", "higher", _DETOKENISED, False),
    "ter": Convention("TER", "TER", "lower", _DETOKENISED, False),
    "nats": Convention("nats", "mean", "lower", "per token of the reference, by forced decoding", True),
}


def parts_of(signature: str) -> dict[str, str]:
    """The parts of a signature of sacreBLEU: `nrefs:1|case:mixed` is {nrefs: 1, case: mixed}."""
    return dict(part.split(":", 1) for part in signature.split("|"))


class MetricScore(Settings):
    """A score. metric: the formula that gives it from the statistics; signature: names all else that decides it."""

    score: float
    metric: Formula
    better: Better
    signature: str

    @property
    def columns(self) -> int:
        """The number of statistics of a sentence."""
        if self.metric == "chrF":
            parts = parts_of(self.signature)
            return 3 * (int(parts["nc"]) + int(parts["nw"]))
        return BLEU_COLUMNS if self.metric == "BLEU" else 2


class Scores(Settings):
    """The scores of one test set.

    references: sha256 of each reference as tokens and as text; equal values mean equal test sets. statistics: for each
    metric one row per sentence, in the order of the test set (columns: see above).
    """

    sentences: int
    references: dict[Literal["tokens", "text"], list[str]]
    metrics: dict[str, MetricScore]
    statistics: dict[str, SkipValidation[list[list[int | float]]]]  # a check of each number takes longer

    @model_validator(mode="after")
    def _complete(self) -> Scores:
        if unpaired := self.statistics.keys() ^ self.metrics.keys():
            raise ValueError(f"{min(unpaired)} stands only in one of metrics and statistics")
        for name, rows in self.statistics.items():
            columns = self.metrics[name].columns
            if not _is_table(rows, self.sentences, columns):
                raise ValueError(f"statistics.{name} is not a table of {self.sentences} rows of {columns} numbers")
        return self


def _is_table(rows: Any, length: int, columns: int) -> bool:
    """Whether this is a list of so many lists of so many finite numbers."""
    if not isinstance(rows, list) or len(rows) != length:
        return False
    whole = (row for row in rows if isinstance(row, list) and len(row) == columns)
    numbers = [*itertools.chain.from_iterable(whole)]
    if len(numbers) != length * columns or not {*map(type, numbers)} <= {int, float}:
        return False
    try:
        return math.isfinite(math.fsum(numbers))
    except (OverflowError, ValueError):  # of numbers that no float can be, of inf and -inf
        return False


class OfTestSets(JsonFile, Generic[Part], format=3):
    """A file about a system, trained with one seed. test_sets: a part for each test set of the data set, by name."""

    dataset: str
    system: str
    seed: int
    test_sets: dict[str, Part]

    @property
    def by_place(self) -> dict[tuple[str | int, ...], Part]:
        """The parts by (data set, test set, system, seed)."""
        return {(self.dataset, name, self.system, self.seed): part for name, part in self.test_sets.items()}


class SystemScores(OfTestSets[Scores], format=5):
    """BLEU in all conventions, chrF and TER of a system, with the statistics of each sentence."""

    indent = None


class MetricScores(OfTestSets[Scores], format=5):
    """The scores of a system in your own metric, with those of each sentence."""

    metric: str


class SeedVariation(Settings):
    """How much scores differ between trainings that differ in their seed only, pooled over systems.

    variance: of the score of a training on the test set. of_sentences: the part of it that other sentences would
    change, for trainings of one system are good at different ones. freedom: degrees of freedom, trainings minus
    systems.
    """

    variance: float
    of_sentences: float
    freedom: int


class VariationOnTestSet(Settings):
    """The variation between trainings on one test set, by kind of system and convention.

    sentences, references: as in the scores; signatures: of the conventions. They say of what the variation is.
    """

    sentences: int
    references: dict[str, list[str]]
    signatures: dict[str, str]
    kinds: dict[str, dict[str, SeedVariation]]


class SeedVariations(JsonFile):
    """The variation between the trainings of a data set, by test set."""

    dataset: str
    test_sets: dict[str, VariationOnTestSet]


class Estimate(Settings):
    """A value on the whole test set, with its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self, decimals: int, after: str = "") -> str:
        """A difference with its interval. after: what stands behind the value, such as a mark or a unit."""
        return f"{self.value:+.{decimals}f}{after} ({self.low:.{decimals}f} to {self.high:.{decimals}f})"


class Power(Settings):
    """What the trainings behind a difference can show.

    deviation: of the score of a training, pooled over the systems of a kind that were trained several times, the root
    of the mean variance of both sides; freedom: degrees of freedom of that of the difference. seeds_needed: trainings
    of each system with which a difference such as this one would be significant (p < 0.05) in 80 % of all repetitions,
    because of this deviation alone; None without a difference. detectable: the difference that the present trainings
    would show in 80 % of all repetitions.
    """

    deviation: float
    freedom: float
    seeds_needed: int | None = None
    detectable: float

    @property
    def text(self) -> str:
        """The smallest difference that shows, and the trainings of each system that the one found would take."""
        needed = "" if self.seeds_needed is None else f", {self.seeds_needed:,} trainings"
        return f"{self.detectable:.2f}{needed}"


class MetricComparison(Settings):
    """The comparison in one convention: both systems (mean over seeds) and their difference, system minus baseline.

    Estimates are over sentences and trainings, or over sentences alone if nobody knows how far trainings of the kind of
    the system differ, for a difference those of both systems; then there is no power. p_value: two-sided, over both, by
    which the table marks (phrasemt/scoring/significance.py); None if it is not known how far trainings differ, and for
    one training beside one. one_sided: the 90 % interval of a difference that is tested; within a margin, the systems
    are equal up to this margin. p_of_sentences: two-sided, over the choice of sentences alone; koehn2004: likewise,
    one-sided, to stand beside a mark that a paper prints.
    """

    better: Better
    baseline: Estimate
    system: Estimate
    difference: Estimate
    p_value: float | None = None
    one_sided: tuple[float, float] | None = None
    p_of_sentences: float
    koehn2004: float
    power: Power | None = None


class Comparison(JsonFile, format=8):
    """Tests of the difference of a system to its baseline. samples, seed: of the bootstrap. test_sets: by name, then by
    convention.
    """

    dataset: str
    system: str
    baseline: str
    samples: int
    seed: int
    test_sets: dict[str, dict[str, MetricComparison]]
