"""The claims of papers beside what a study measures of them, and the section "Claims" of the report.

A claim names analyses (phrasemt/printed/results.py); `ANALYSES` has a function for each. It yields a figure for each
data set and test set: of one system, a difference of two systems, or of costs their ratio. Where the whole interval of
a figure lies in the interval that the claim expects, the study agrees; where all of it lies outside, the study is
against the claim; otherwise, and on fewer than 30 sentences or pairs, nothing is decided. A claim that nothing differs
agrees where the interval reaches the expected one. What a paper measured on its own data is not compared with figures
of other data (S3). Intervals:

* of scores, the 95 % interval in the results table;
* of differences of scores that are not in the table, also by length of the source, and of contrastive accuracy, that of
  the paired test, for any two systems and any group of lengths or distances (phrasemt/scoring/gains.py);
* of shares (contrastive pairs, ratings), that of Wilson (1927), and of the difference of two shares of ratings that of
  Newcombe (1998, method 10), which takes them as independent, so it is too wide for two systems on the same sentences;
* of other figures, from the lowest to the highest over the trainings, or the figure itself for one training, which is
  then said.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.artefacts.table import Cell, Table
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.artefacts.translations import AttentionAnalysis, LayerAttention
from phrasemt.printed.results import HEDGES, AnalysisName, Claim, Interval, Paper
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.this_run import RelativeCost
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import ALL, BLEU, NATS, Bounds, DecidedPairs, Gains, quarters
from phrasemt.scoring.ratings import SCALES, SystemRating
from phrasemt.scoring.significance import undecided
from phrasemt.scoring.statistics import wilson_interval
from phrasemt.study.compared import AnalysedFigure, StudiedClaim, StudiedTest

_TIMES_VARY = 0.1  # relative times of one device
OTHER = "other data or another size"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a study has measured. costs: empty in artefacts, which have no times. ratings: of sheets, by system."""

    table: Table
    trainings: Sequence[TrainingCurve]
    gains: Sequence[Gains]
    attention: Sequence[AttentionAnalysis]
    contrasts: Sequence[DecidedPairs]
    costs: Sequence[RelativeCost] = ()
    ratings: Mapping[str, SystemRating] = field(default_factory=dict)


class OurFigure(NamedTuple):
    """A measured figure. on: data set and test set. low, high: None where nothing is known of its variation.

    trainings: of the system with the fewest; None for a figure that no training changes. too_few: of `undecided`.
    chance: the figure without any learning. detectable: the difference that would show in 80 % of all repetitions.
    """

    on: str
    value: float
    low: float | None
    high: float | None
    trainings: int | None
    too_few: str = ""
    chance: float | None = None
    detectable: float | None = None

    @property
    def text(self) -> str:
        """The figure with its interval."""
        if self.low is None or self.high is None or self.low == self.high:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def chance_text(self) -> str:
        """The figure without any learning, or nothing."""
        return _number(self.chance)

    def direction(self, expected: Interval, *, equal: bool = False) -> str:
        """Whether the study agrees with a claim, or, if `equal`, with a claim that nothing differs."""
        if self.too_few:
            return self.too_few
        does_not_differ = self.low == self.high == 0 and 0 in (expected.low, expected.high)  # no gain, no loss
        found = "not decided"
        if self.low is not None and self.high is not None and (equal or not does_not_differ):
            if expected.misses(self.low, self.high):
                found = "against"
            elif equal or expected.covers(self.low, self.high):
                found = "agrees"
        return found + self._of_one_training

    def verdict(self, printed: AnalysedFigure) -> str:
        """Where a printed figure lies."""
        if not printed.same_data and printed.than is None:
            return OTHER
        if self.too_few:
            return self.too_few
        if self.low is None or self.high is None:
            found = "no interval"
        elif not printed.same_data:
            same = (self.value > 0) == ((printed.expected.low or 0) > 0)
            direction = "no" if self.low <= 0 <= self.high else "same" if same else "opposite"
            found = f"other data: {direction} direction"
        elif printed.expected.low == printed.expected.high:
            lies = "outside of" if printed.expected.misses(self.low, self.high) else "in"
            found = f"the printed figure lies {lies} our interval"
        else:
            within = "in" if printed.expected.covers(self.low, self.high) else "partly in"
            lies = "outside of" if printed.expected.misses(self.low, self.high) else within
            found = f"our interval lies {lies} the printed range"
        return found + self._of_one_training

    @property
    def _of_one_training(self) -> str:
        return " (one training)" if self.trainings == 1 else ""


class ClaimRow(NamedTuple):
    """A test of a claim. ours: figure and interval. direction: or what is missing. The rest: of `OurFigure`."""

    claim: StudiedClaim
    measured: str
    on: str
    ours: str
    direction: str
    chance: str = ""
    detectable: str = ""


def claims_section(
    claims: Sequence[StudiedClaim], figures: Sequence[AnalysedFigure], evidence: Measured
) -> Section | None:
    """Make the section; None for a study in which no system stands for a row of a paper with claims.

    figures: the printed figures that analyses find, for the second table.
    """
    if not (rows := list(claim_rows(claims, evidence))):
        return None
    content = fill(
        "claims.html",
        groups=[(claim, list(group)) for claim, group in itertools.groupby(rows, key=lambda row: row.claim)],
        hedges=HEDGES,
        styles={"agrees": "better", "against": "worse"},
        beside=list(beside_figures(figures, evidence)),
    )
    return Section(anchor="claims", heading="Claims", content=content)


def claim_rows(claims: Iterable[StudiedClaim], evidence: Measured) -> Iterator[ClaimRow]:
    """Yield a row for each of our figures, or one that says what the study has not measured."""
    titles = dict(evidence.table.systems)
    for claim in claims:
        if claim.not_measurable:
            yield ClaimRow(claim, "", "", "", f"not measurable: {claim.not_measurable}")
        for one in claim.measured:
            found = [
                (ours.on, ours.text, _direction(ours, one), ours.chance_text, _number(ours.detectable))
                for ours in our_figures(one, evidence)
            ]
            missing = " and ".join(missing_rows(one))
            needed = f"no system stands for {missing}" if missing else ANALYSES[one.analysis][1]
            for row in found or ([] if one.control else [("", "", f"not measured: {needed}", "", "")]):
                yield ClaimRow(claim, _described(one, titles), *row)


def _direction(ours: OurFigure, one: StudiedTest) -> str:
    if one.comparable is not None and ours.on.split(", ")[0] not in one.comparable:
        return OTHER
    return ours.direction(one.expected, equal=one.equal)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


LEDGER_COLUMNS = "p{3.2cm}p{1.8cm}p{2.4cm}p{3.9cm}p{3.9cm}p{1.5cm}rrp{1.6cm}p{1.8cm}"  # alignment in LaTeX


def ledger(papers: Iterable[Paper], rows: Sequence[ClaimRow], *, repeated: bool) -> list[list[str]]:
    """All claims of papers as a table. rows: about each; none without a study.

    repeated: each row of a claim has its text, not only the first row.
    """
    table = [["claim", "hedge", "place", "evidence", "measured", "on", "chance", "would show", "ours", "direction"]]
    for paper in papers:
        for name, claim in paper.claims.items():
            start = [claim.content, HEDGES[claim.hedge], f"{paper.authors}, {claim.where}", claim.evidence or ""]
            own = [row for row in rows if (row.claim.paper, row.claim.name) == (paper.paper, name)]
            ends = [[row.measured, row.on, row.chance, row.detectable, row.ours, row.direction] for row in own]
            for number, end in enumerate(ends or [["; ".join(needs(paper, claim)), *[""] * 5]]):
                table.append([*(start if repeated or number == 0 else [""] * len(start)), *end])
    return table


def needs(paper: Paper, claim: Claim) -> list[str]:
    """What measures a claim, or why nothing does."""
    if claim.not_measurable:
        return [f"not measurable: {claim.not_measurable}"]
    rows = [(one, [f"{paper.paper}/{row}" for row in (one.row, one.than) if row]) for one in claim.measured]
    return list(dict.fromkeys(f"{one.analysis}: needs systems that stand for {' and '.join(of)}" for one, of in rows))


def beside_figures(figures: Iterable[AnalysedFigure], evidence: Measured) -> Iterator[tuple[AnalysedFigure, OurFigure]]:
    """Yield the printed figures that analyses find beside ours."""
    for printed in figures:
        yield from ((printed, ours) for ours in our_figures(printed, evidence))


def our_figures(one: StudiedTest, evidence: Measured) -> list[OurFigure]:
    """Measure; empty if the study has not all systems, or not what the analysis is made from."""
    return [] if missing_rows(one) else list(ANALYSES[one.analysis][0](evidence, one))


def missing_rows(one: StudiedTest) -> list[str]:
    """The rows that no system of the study stands for."""
    rows = [(one.row, one.system), (one.than, one.than_system)]
    return [f"{one.paper}/{row}" for row, system in rows if row is not None and system is None]


def _described(one: StudiedTest, titles: Mapping[str, str]) -> str:
    """What is measured. titles: of systems; rows of the paper stand for systems that the study does not have."""
    options = [
        one.measure or one.analysis,
        one.mistake,
        f"{one.words.text} words" if one.words else None,
        f"{one.layer} layer" if one.layer else None,
        f"on {one.only_on}" if one.only_on else None,
        ", ".join(one.places) + (f" minus {', '.join(one.than_places)}" if one.than_places else ""),
    ]
    systems = "its control " * one.control + titles.get(one.system or "", one.system or one.row)
    if one.than is not None:
        sign = "over" if one.is_ratio else "minus"
        systems += f" {sign} {titles.get(one.than_system or '', one.than)}"
    null = ", or no difference that is significant" if one.equal else ""
    return f"{', '.join(filter(None, options))}: {systems}; expected {one.expected.text}{null}"


Figures = Iterator[OurFigure]


def _of_table(evidence: Measured, one: StudiedTest) -> Figures:
    """A figure of the results table, or the difference to the baseline of the system."""
    assert one.counterpart is not None
    key = one.counterpart.column
    for block in evidence.table.blocks:
        cells = {row.system: row.cells for row in block.rows}
        system, than = (cells.get(name or "", {}).get(key) for name in (one.system, one.than_system))
        if block.kind != one.counterpart.kind or system is None or (one.than and than is None):
            continue
        on, trainings = f"{block.dataset}, {block.test_set}", len(system.by_seed or {})
        too_few = undecided(block.size, "pairs" if block.test_set is None else "sentences")
        if than is None:
            found = [OurFigure(on, system.value, system.low, system.high, trainings, too_few)]
            if system.low is None:
                found = list(_over_trainings(on, one, {one.system: _by_training(system)}))
            guessed = cells.get("", {}).get(key)  # of decisions about chunks, those that look at nothing
            chance = None if guessed is None else guessed.value
            yield from (ours._replace(chance=chance) for ours in found)
            continue
        tested = evidence.table.baselines.get(one.system or "") == one.than_system
        difference = cells[one.system or ""].get(f"{key}_difference") if tested else None
        scored = (gains for gains in evidence.gains if (gains.name, gains.metric) == (on, BLEU))
        if difference is not None:
            detectable = difference.power.detectable if difference.power and difference.power.deviation else None
            both = min(trainings, len(than.by_seed or {}))
            interval = difference.low, difference.high
            yield OurFigure(on, difference.value, *interval, both, too_few, detectable=detectable)
        elif gains := next((gains for gains in scored if gains.has(key, one.than_system, one.system)), None):
            for group in gains.in_metric(key).of(one.than_system or "", one.system or "", joint=[ALL]).joint:
                yield _tested(on, evidence, one, group.comparison, too_few)
        else:
            by_system = {one.system: _by_training(system), one.than_system: _by_training(than)}
            several = min(map(len, by_system.values())) > 1
            for ours in _over_trainings(on, one, by_system):
                yield ours if several else ours._replace(low=None, high=None)


def _by_training(cell: Cell) -> list[float]:
    return list((cell.by_seed or {0: cell.value}).values())


def _ratios(
    evidence: Measured, one: StudiedTest, of: Mapping[tuple[str, str], float | None]
) -> Iterator[tuple[str, float]]:
    """On each data set, the ratio of a value of both systems. of: by data set and system."""
    for dataset in evidence.table.datasets:
        system, than = (of.get((dataset, name or "")) for name in (one.system, one.than_system))
        if system and than:
            yield dataset, system / than


def _of_records(number: Callable[[TrainingRecord], float]) -> Callable[..., Figures]:
    """The analysis of the ratio of a number that each training records."""

    def find(evidence: Measured, one: StudiedTest) -> Figures:
        numbers = {(training.dataset, training.system): number(training.record) for training in evidence.trainings}
        for dataset, ratio in _ratios(evidence, one, numbers):
            yield OurFigure(dataset, ratio, ratio, ratio, None)

    return find


def _training_time(evidence: Measured, one: StudiedTest) -> Figures:
    """The ratio of the two ratios to their baseline, which must be the same."""
    if len({evidence.table.baselines.get(name or "", name) for name in (one.system, one.than_system)}) == 1:
        times = {(cost.dataset, cost.system): ratios["training"] for _, cost, ratios, *_ in evidence.costs}
        for dataset, ratio in _ratios(evidence, one, times):
            low, high = (ratio * (1 + sign * _TIMES_VARY) for sign in (-1, 1))
            yield OurFigure(dataset, ratio, low, high, _trainings(evidence, one))


def _trainings(evidence: Measured, one: StudiedTest) -> int:
    return min(len(evidence.table.trained.get(name, ())) for name in (one.system, one.than_system) if name is not None)


def share_or_difference(share: float, items: int, than: tuple[float, int] | None = None) -> tuple[float, float, float]:
    """A share (0 to 1) of so many items in percent with its interval; or its difference to another share (of items)."""
    low, high = wilson_interval(share, items)
    if than is None:
        return 100 * share, 100 * low, 100 * high
    than_low, than_high = wilson_interval(*than)
    difference = share - than[0]
    below, above = math.hypot(share - low, than_high - than[0]), math.hypot(high - share, than[0] - than_low)
    return 100 * difference, 100 * (difference - below), 100 * (difference + above)


def _contrasts(evidence: Measured, one: StudiedTest) -> Figures:
    """The accuracy on contrastive pairs, mean over the trainings, or its difference."""
    group = ALL if one.words is None else _bounds(one.words, least=1)
    for decided in evidence.contrasts:
        both = {one.system, one.than_system or one.system}
        if not both <= decided.of_systems.keys() or one.mistake not in (None, *decided.kinds):
            continue
        kind = None if one.mistake is None else decided.kinds.index(one.mistake)
        # Of one system, its comparison with itself has its accuracy.
        gain = decided.gains(kind).of(one.than_system or one.system or "", one.system or "", joint=[group])
        for found in gain.joint:
            on, too_few = f"{decided.name} ({found.sentences:,} pairs)", undecided(found.sentences, "pairs")
            if one.than is None:
                share = found.comparison.system.value / 100
                figure = share_or_difference(share, found.sentences)
                yield OurFigure(on, *figure, _trainings(evidence, one), too_few, chance=50)  # one of two is right
            else:
                yield _tested(on, evidence, one, found.comparison, too_few)


def _bounds(words: Interval, *, least: int = 0) -> Bounds:
    """An interval of whole numbers. least: of all that are known."""
    return max(least, math.ceil(words.low or 0)), None if words.high is None else math.floor(words.high)


def _lengths(evidence: Measured, one: StudiedTest) -> Figures:
    """The difference in BLEU on the sentences of a test set whose sources have these lengths in words."""
    assert one.words is not None
    for gains, baseline, system in _with_both(evidence, one):
        for group in gains.of(baseline, system, joint=[_bounds(one.words)]).joint if gains.metric == BLEU else ():
            on = f"{gains.name} ({group.sentences:,} sentences)"
            yield _tested(on, evidence, one, group.comparison, undecided(group.sentences))


def _length_growth(evidence: Measured, one: StudiedTest) -> Figures:
    """How much the gain grows for twice as many words, over quarters of the sentences, in BLEU and in nats a token."""
    for gains, baseline, system in _with_both(evidence, one):
        if slope := gains.of(baseline, system, groups=quarters(gains.words)).slope:
            on = f"{gains.name}, {'BLEU' if gains.metric == BLEU else NATS}"
            yield _tested(on, evidence, one, slope, undecided(len(gains.words)))


def _with_both(evidence: Measured, one: StudiedTest) -> Iterator[tuple[Gains, str, str]]:
    """The gains on test sets that both systems have scores of, and these systems."""
    baseline, system = one.than_system or "", one.system or ""
    return ((gains, baseline, system) for gains in evidence.gains if {baseline, system} <= gains.of_systems.keys())


def _tested(
    on: str, evidence: Measured, one: StudiedTest, comparison: MetricComparison, too_few: str = ""
) -> OurFigure:
    shown, power = comparison.shown, comparison.over_seeds
    detectable = power.detectable if power and power.deviation else None
    trainings = _trainings(evidence, one)
    return OurFigure(on, shown.value, shown.low, shown.high, trainings, too_few, detectable=detectable)


def _over_trainings(on: str, one: StudiedTest, values: Mapping[str | None, Sequence[float]]) -> Figures:
    """The mean over trainings, from the lowest to the highest. values: of the trainings of each system."""
    system = values.get(one.system)
    than = [0.0] if one.than is None else values.get(one.than_system)
    if system and than:
        value = math.fsum(system) / len(system) - math.fsum(than) / len(than)
        trainings = len(system) if one.than is None else min(len(system), len(than))
        yield OurFigure(on, value, min(system) - max(than), max(system) - min(than), trainings)


def _overfitting(evidence: Measured, one: StudiedTest) -> Figures:
    """The last perplexity on dev over the best one of the training."""
    for dataset in evidence.table.datasets:
        values: dict[str | None, list[float]] = defaultdict(list)
        for training in (training for training in evidence.trainings if training.dataset == dataset):
            perplexities = [evaluation.dev_perplexity for evaluation in training.evaluations]
            if perplexities:
                values[training.system].append(perplexities[-1] / min(perplexities))
        yield from _over_trainings(dataset, one, values)


def _of_raters(evidence: Measured, one: StudiedTest) -> Figures:
    """The difference of the means over raters: of a share in percent, or of a scale, whose variation is not known."""
    system, than = (evidence.ratings.get(name or "") for name in (one.system, one.than_system))
    if system and than and one.question:
        value, than_value = (rating.means[one.question] for rating in (system, than))
        on, too_few = f"{system.items:,} rated sentences", undecided(system.items)
        if one.question in SCALES:
            yield OurFigure(on, value - than_value, None, None, 1, too_few)
        else:
            yield OurFigure(on, *share_or_difference(value, system.items, (than_value, than.items)), 1, too_few)


def _of_attention(
    figure: Callable[[AttentionAnalysis, StudiedTest], float | None],
    chance: Callable[[AttentionAnalysis, StudiedTest], float | None] = lambda *_: None,
) -> Callable[..., Figures]:
    """The analysis of a figure that each analysed training has. chance: the figure of even attention."""

    def find(evidence: Measured, one: StudiedTest) -> Figures:
        values: dict[str, dict[str | None, list[float]]] = defaultdict(lambda: defaultdict(list))
        even: dict[str, float | None] = {}
        for file in evidence.attention:
            on = f"{file.dataset}, {file.test_set}"
            if (value := figure(file, one)) is not None:
                values[on][file.system].append(value)
                even[on] = chance(file, one) if file.system == one.system else even.get(on)
        for on, of_systems in values.items():
            yield from (ours._replace(chance=even[on]) for ours in _over_trainings(on, one, of_systems))

    return find


def _phrase_mass(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The share of the weights on n-grams of two or more tokens, in percent, mean over the attentions."""
    return _mean([attention.phrase_mass for attention in _with_ngrams(file, one)])


def _even_phrase_mass(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The same share of even attention."""
    return _mean([mass for attention in _with_ngrams(file, one) if (mass := attention.even_phrase_mass) is not None])


def _with_ngrams(file: AttentionAnalysis, one: StudiedTest) -> list[LayerAttention]:
    chosen = [attention for attention in file.attentions if len(attention.mass) > 1]
    top = max((attention.layer for attention in chosen), default=0)
    layer = {"top": top, "middle": (top + 1) // 2, None: None}[one.layer]
    return [attention for attention in chosen if layer in (None, attention.layer)]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _entropy(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The entropy of attentions as a share of the largest one, minus that of others of the system, if there are any."""
    share, than = (_relative_entropy(file.attentions, places) for places in (one.places, one.than_places))
    if share is None or (one.than_places and than is None):
        return None
    return share - (than or 0.0)


def _relative_entropy(attentions: Sequence[LayerAttention], places: Sequence[str]) -> float | None:
    return _mean([one.entropy / math.log(one.keys) for one in attentions if one.place in places and one.keys > 1])


def _level_weights(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """How far apart the decoder layers' mixtures of encoder levels are, beyond 99 % of initial ones of this size."""
    if "phrases" not in file.mixtures:
        return None
    weights_IJ = np.array(file.mixtures["phrases"])  # of each level in each layer
    return float(_apart(weights_IJ)) - _initially_apart(*weights_IJ.shape)


def _apart(weights_XIJ: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean total variation distance of mixtures [..., I levels, J layers] to the mean of their layers."""
    distances: NDArray[np.float64] = np.abs(weights_XIJ - weights_XIJ.mean(-1, keepdims=True)).sum(-2).mean(-1) / 2
    return distances


@functools.cache
def _initially_apart(levels: int, layers: int) -> float:
    """The distance that 1 % of initial weights exceed, in 10,000 draws; weights of Eq. (6) begin in +-1/sqrt(I)."""
    logits = np.random.default_rng(1).uniform(-(levels**-0.5), levels**-0.5, (10_000, levels, layers))
    weights = np.exp(logits)
    return float(np.quantile(_apart(weights / weights.sum(1, keepdims=True)), 0.99))


_TIMES = "times of trainings on one device; `phrasemt papers --claims` reads them where they ran"
_SHEETS = "sheets that raters have filled in (`phrasemt ratings`), with --ratings FOLDER"
# Of each analysis, the function that finds our figures if the study has the systems, and what they are made from.
ANALYSES: Mapping[AnalysisName, tuple[Callable[[Measured, StudiedTest], Figures], str]] = {
    "table": (_of_table, "the results table has no such score"),
    "parameters": (_of_records(lambda record: record.parameters), "records of both trainings"),
    "updates": (_of_records(lambda record: record.updates), "records of both trainings"),
    "training time": (_training_time, _TIMES),
    "contrasts": (_contrasts, "contrast_sets with such pairs, or a generator"),
    "lengths": (_lengths, "translated sentences of such lengths"),
    "length growth": (_length_growth, "sentences of different lengths"),
    "phrase mass": (_of_attention(_phrase_mass, _even_phrase_mass), "attention to n-grams"),
    "entropy": (_of_attention(_entropy), "attentions of these places"),
    "level weights": (_of_attention(_level_weights), "ta: on"),
    "overfitting": (_overfitting, "evaluations of both trainings"),
    "ratings": (_of_raters, _SHEETS),
}
