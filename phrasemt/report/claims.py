"""The claims of papers beside what a study measures of them, and the section "Claims" of the report.

A claim names analyses (phrasemt/printed/results.py); `ANALYSES` has a function for each. It yields a figure for each
data set and test set: of one system, a difference of two systems, or of costs their ratio. Where the whole interval of
a figure lies in the interval that the claim expects, the study agrees; where all of it lies outside, the study is
against the claim; otherwise, and on fewer than 30 sentences or pairs, nothing is decided. Intervals:

* of scores, the 95 % interval in the results table; of two systems that are not compared there, none, so nothing is
  decided;
* of differences by length of the source and of contrastive accuracy, that of the paired test, for any two systems and
  any group of lengths or distances (phrasemt/scoring/gains.py);
* of shares (contrastive pairs, ratings), that of Wilson (1927), and of the difference of two shares of ratings that of
  Newcombe (1998, method 10), which takes them as independent, so it is too wide for two systems on the same sentences;
* of other figures, from the lowest to the highest over the trainings, or the figure itself for one training, which is
  then said.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, LayerAttention
from phrasemt.printed.results import HEDGES, AnalysisName, Interval
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.this_run import RelativeCost
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import ALL, BLEU, NATS, Bounds, DecidedPairs, Gains, quarters
from phrasemt.scoring.ratings import SystemRating
from phrasemt.scoring.significance import undecided
from phrasemt.scoring.statistics import wilson_interval
from phrasemt.study.compared import AnalysedFigure, StudiedClaim, StudiedTest

_TIMES_VARY = 0.1  # relative times of one device


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
    """

    on: str
    value: float
    low: float | None
    high: float | None
    trainings: int | None
    too_few: str = ""

    @property
    def text(self) -> str:
        """The figure with its interval."""
        if self.low is None or self.high is None or self.low == self.high:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    def direction(self, expected: Interval) -> str:
        """Whether the study agrees with a claim."""
        if self.too_few:
            return self.too_few
        does_not_differ = self.low == self.high == 0 and 0 in (expected.low, expected.high)  # no gain, no loss
        found = "not decided"
        if self.low is not None and self.high is not None and not does_not_differ:
            if expected.covers(self.low, self.high):
                found = "agrees"
            elif expected.misses(self.low, self.high):
                found = "against"
        return found + self._of_one_training

    def verdict(self, printed: AnalysedFigure) -> str:
        """Where a printed figure lies."""
        if self.too_few:
            return self.too_few
        if self.low is None or self.high is None:
            found = "no interval"
        elif not printed.same_data:
            same = (self.value > 0) == ((printed.expected.low or 0) > 0)
            found = f"other data: {'same' if same else 'opposite'} direction"
        else:
            lies = "outside of" if printed.expected.misses(self.low, self.high) else "in"
            found = f"the printed figure lies {lies} our interval"
        return found + self._of_one_training

    @property
    def _of_one_training(self) -> str:
        return " (one training)" if self.trainings == 1 else ""


class ClaimRow(NamedTuple):
    """A test of a claim. measured: what. ours: figure and interval, or empty. direction: or what is missing."""

    claim: StudiedClaim
    measured: str
    on: str
    ours: str
    direction: str


def claims_section(
    claims: Sequence[StudiedClaim], figures: Sequence[AnalysedFigure], evidence: Measured
) -> Section | None:
    """Make the section; None for a study in which no system stands for a row of a paper with claims.

    figures: the printed figures that analyses find, for the second table.
    """
    rows = list(claim_rows(claims, evidence))
    if not rows:
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
        for one in claim.measured:
            found = [(ours.on, ours.text, ours.direction(one.expected)) for ours in our_figures(one, evidence)]
            missing = " and ".join(missing_rows(one))
            needed = f"no system stands for {missing}" if missing else ANALYSES[one.analysis][1]
            for row in found or ([] if one.control else [("", "", f"not measured: {needed}")]):
                yield ClaimRow(claim, _described(one, titles), *row)


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
        one.measure if one.analysis == "table" else one.analysis,
        one.mistake,
        f"{one.words.text} words" if one.words else None,
        f"{one.layer} layer" if one.layer else None,
        ", ".join(one.places) + (f" minus {', '.join(one.than_places)}" if one.than_places else ""),
    ]
    systems = "its control " * one.control + titles.get(one.system or "", one.system or one.row)
    if one.than is not None:
        sign = "over" if one.is_ratio else "minus"
        systems += f" {sign} {titles.get(one.than_system or '', one.than)}"
    return f"{', '.join(filter(None, options))}: {systems}; expected {one.expected.text}"


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
        if than is not None:
            tested = evidence.table.baselines.get(one.system or "") == one.than_system
            difference = cells[one.system or ""].get(f"{key}_difference") if tested else None
            value = system.value - than.value if difference is None else difference.value
            low, high = (None, None) if difference is None else (difference.low, difference.high)
            yield OurFigure(on, value, low, high, min(trainings, len(than.by_seed or {})), too_few)
        elif system.low is None:
            yield from _over_trainings(on, one, {one.system: list((system.by_seed or {0: system.value}).values())})
        else:
            yield OurFigure(on, system.value, system.low, system.high, trainings, too_few)


def _ratios(
    evidence: Measured, one: StudiedTest, of: Mapping[tuple[str, str], float | None]
) -> Iterator[tuple[str, float]]:
    """On each data set, the ratio of a value of both systems. of: by data set and system."""
    for dataset in evidence.table.datasets:
        system, than = (of.get((dataset, name or "")) for name in (one.system, one.than_system))
        if system and than:
            yield dataset, system / than


def _parameters(evidence: Measured, one: StudiedTest) -> Figures:
    numbers = {(training.dataset, training.system): training.record.parameters for training in evidence.trainings}
    for dataset, ratio in _ratios(evidence, one, numbers):
        yield OurFigure(dataset, ratio, ratio, ratio, None)


def _training_time(evidence: Measured, one: StudiedTest) -> Figures:
    """The ratio of the two ratios to their baseline, which must be the same."""
    if len({evidence.table.baselines.get(name or "", name) for name in (one.system, one.than_system)}) == 1:
        times = {(cost.dataset, cost.system): ratios["training"] for _, cost, ratios, _ in evidence.costs}
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
                yield OurFigure(on, *figure, _trainings(evidence, one), too_few)
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
    shown = comparison.shown
    return OurFigure(on, shown.value, shown.low, shown.high, _trainings(evidence, one), too_few)


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


def _over_translation(evidence: Measured, one: StudiedTest) -> Figures:
    """The difference in percent of translations that raters mark, mean over the raters."""
    system, than = (evidence.ratings.get(name or "") for name in (one.system, one.than_system))
    if system and than:
        share, than_share = ((one.means["over_translation"], one.items) for one in (system, than))
        figure = share_or_difference(*share, than_share)
        yield OurFigure(f"{system.items:,} rated sentences", *figure, 1, undecided(system.items))


def _of_attention(figure: Callable[[AttentionAnalysis, StudiedTest], float | None]) -> Callable[..., Figures]:
    """The analysis of a figure that each analysed training has."""

    def find(evidence: Measured, one: StudiedTest) -> Figures:
        values: dict[str, dict[str | None, list[float]]] = defaultdict(lambda: defaultdict(list))
        for file in evidence.attention:
            if (value := figure(file, one)) is not None:
                values[f"{file.dataset}, {file.test_set}"][file.system].append(value)
        for on, of_systems in values.items():
            yield from _over_trainings(on, one, of_systems)

    return find


def _phrase_mass(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The share of the weights on n-grams of two or more tokens, in percent, mean over the attentions."""
    chosen = [attention for attention in file.attentions if len(attention.mass) > 1]
    top = max((attention.layer for attention in chosen), default=0)
    layer = {"top": top, "middle": (top + 1) // 2, None: None}[one.layer]
    masses = [attention.phrase_mass for attention in chosen if layer in (None, attention.layer)]
    return math.fsum(masses) / len(masses) if masses else None


def _entropy(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The entropy of attentions as a share of the largest one, minus that of others of the system, if there are any."""
    share, than = (_relative_entropy(file.attentions, places) for places in (one.places, one.than_places))
    if share is None or (one.than_places and than is None):
        return None
    return share - (than or 0.0)


def _relative_entropy(attentions: Sequence[LayerAttention], places: Sequence[str]) -> float | None:
    shares = [one.entropy / math.log(one.keys) for one in attentions if one.place in places and one.keys > 1]
    return math.fsum(shares) / len(shares) if shares else None


def _level_weights(file: AttentionAnalysis, one: StudiedTest) -> float | None:
    """The mean total variation distance of the layers' mixtures of encoder levels to the mean of all layers."""
    if "phrases" not in file.mixtures:
        return None
    weights_JL = np.array(file.mixtures["phrases"])  # of each level in each layer
    return float(np.abs(weights_JL - weights_JL.mean(1, keepdims=True)).sum(0).mean() / 2)


_TIMES = "times of trainings on one device; `phrasemt papers --claims` reads them where they ran"
_SHEETS = "sheets that raters have filled in (`phrasemt ratings`), with --ratings FOLDER"
# Of each analysis, the function that finds our figures if the study has the systems, and what they are made from.
ANALYSES: Mapping[AnalysisName, tuple[Callable[[Measured, StudiedTest], Figures], str]] = {
    "table": (_of_table, "the results table has no such score"),
    "parameters": (_parameters, "records of both trainings"),
    "training time": (_training_time, _TIMES),
    "contrasts": (_contrasts, "contrast_sets with such pairs, or a generator"),
    "lengths": (_lengths, "translated sentences of such lengths"),
    "length growth": (_length_growth, "sentences of different lengths"),
    "phrase mass": (_of_attention(_phrase_mass), "attention to n-grams"),
    "entropy": (_of_attention(_entropy), "attentions of these places"),
    "level weights": (_of_attention(_level_weights), "ta: on"),
    "overfitting": (_overfitting, "evaluations of both trainings"),
    "over-translation": (_over_translation, _SHEETS),
}
