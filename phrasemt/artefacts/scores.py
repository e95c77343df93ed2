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

from typing import Generic, Literal, TypeVar

from pydantic import model_validator

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.fields import Settings

Part = TypeVar("Part", bound=Settings)
BLEU_COLUMNS = 10
_MEAN = "mean:"


def parts_of(signature: str) -> dict[str, str]:
    """The parts of a signature: `nrefs:1|case:mixed` is {nrefs: 1, case: mixed}."""
    return dict(part.split(":", 1) for part in signature.split("|"))


def mean_signature(metric: str, better: Literal["higher", "lower"], program: str) -> str:
    """The signature of a metric whose score is the mean over the sentences of what a program computes."""
    return f"{metric}|{_MEAN}{better}|{program}"


def is_mean(signature: str) -> bool:
    """Whether a signature is one of `mean_signature`. Programs may hold any characters, so only its begin is read."""
    return signature.partition("|")[2].startswith(_MEAN)


def columns_of(signature: str) -> int:
    """The number of statistics of a sentence for the metric of a signature."""
    if is_mean(signature):
        return 2
    parts = parts_of(signature)
    if "nc" in parts:  # chrF
        return 3 * (int(parts["nc"]) + int(parts["nw"]))
    return BLEU_COLUMNS if "smooth" in parts else 2


def lower_is_better(signature: str) -> bool:
    """Whether the metric counts mistakes: TER does, and your own metric may."""
    if is_mean(signature):
        return signature.partition("|")[2].startswith(f"{_MEAN}lower|")
    return columns_of(signature) == 2


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


class Scores(Settings):
    """The scores of one test set.

    references: sha256 of each reference as tokens and as text; equal values mean equal test sets. statistics: for each
    metric one row per sentence, in the order of the test set (columns: see above).
    """

    sentences: int
    references: dict[Literal["tokens", "text"], list[str]]
    metrics: dict[str, BleuScore | MetricScore]
    statistics: dict[str, list[list[int | float]]]

    @model_validator(mode="after")
    def _complete(self) -> Scores:
        if unpaired := self.statistics.keys() ^ self.metrics.keys():
            raise ValueError(f"{min(unpaired)} stands only in one of metrics and statistics")
        for name, rows in self.statistics.items():
            columns = columns_of(self.metrics[name].signature)
            if len(rows) != self.sentences or any(len(row) != columns for row in rows):
                raise ValueError(f"statistics.{name} is not a table of {self.sentences} rows of {columns} numbers")
        return self


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


class SystemScores(OfTestSets[Scores]):
    """BLEU in all conventions, chrF and TER of a system, with the statistics of each sentence."""

    indent = None


class MetricOnTestSet(Settings):
    """Scores of the sentences of a test set in its order, and their mean."""

    sentences: int
    score: float
    signature: str
    by_sentence: list[float]


class MetricScores(OfTestSets[MetricOnTestSet]):
    """The scores of a system in your own metric."""

    metric: str


class Estimate(Settings):
    """A value on the whole test set, with its mean and 95 % interval over the bootstrap samples."""

    value: float
    mean: float
    low: float
    high: float


class PValues(Settings):
    """The p-values (phrasemt/scoring/significance.py).

    over_seeds: of sentences and trainings, by which the table marks; None if nobody knows how far trainings differ, and
    for one training beside one. two_sided covers the choice of sentences only, and so does koehn2004, which stands
    beside a mark that a paper prints.
    """

    two_sided: float
    koehn2004: float
    over_seeds: float | None = None


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


class OverSeeds(Power):
    """What several seeds show. Estimates: over samples of trainings and sentences; value: as in the comparison."""

    baseline: Estimate
    system: Estimate
    difference: Estimate


class MetricComparison(Settings):
    """The comparison in one convention: both systems (mean over seeds) and their difference, system minus baseline."""

    signature: str
    baseline: Estimate
    system: Estimate
    difference: Estimate
    p_values: PValues
    over_seeds: OverSeeds | None = None

    @property
    def shown(self) -> Estimate:
        """The difference over sentences and trainings; over sentences if nobody knows how far trainings differ."""
        return (self.over_seeds or self).difference


class ComparisonOnTestSet(Settings):
    """The comparison on one test set. metrics: by convention, as in the score files."""

    sentences: int
    metrics: dict[str, MetricComparison]


class Comparison(JsonFile, format=5):
    """Tests of the difference of a system to its baseline. samples, seed: of the bootstrap; test_sets: by name."""

    dataset: str
    system: str
    baseline: str
    system_seeds: list[int]
    baseline_seeds: list[int]
    samples: int
    seed: int
    test_sets: dict[str, ComparisonOnTestSet]


class LengthRange(Settings):
    """Sentences with low to high words in the source. high: None for no limit."""

    low: int
    high: int | None = None
    sentences: int

    @property
    def name(self) -> str:
        if self.high is None:
            return f">{self.low - 1}" if self.low > 0 else "all"
        return f"≤{self.high}" if self.low == 0 else f"{self.low}-{self.high}"


class GainOfGroup(LengthRange):
    """A group of two systems with the test of their difference, system minus baseline."""

    comparison: MetricComparison


class GainByLength(Settings):
    """The gain of a system by the length of the source, in one convention.

    joint: further ranges of lengths. slope: its difference is how much the gain grows for twice as many words, positive
    where longer sentences gain more, also in a metric that counts mistakes; None with fewer than two groups.
    """

    signature: str
    groups: list[GainOfGroup]
    joint: list[GainOfGroup]
    slope: MetricComparison | None = None
