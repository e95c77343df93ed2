"""The claims of papers beside what a study measures of them.

A claim names analyses (phrasemt/printed/claims.py); `_ANALYSES` has a function for each. It yields a finding for each
data set and test set: a figure of one system, a difference of two systems, or of costs their ratio. Where the whole
interval of a finding lies in the range that the claim expects, the study agrees; where all of it lies outside, the
study is against the claim; otherwise nothing is decided. Intervals:

* of scores, the 95 % interval in the results table; of two systems that are not compared there, none, so nothing is
  decided;
* of differences by length of the source and of contrastive accuracy, that of the paired test, for any two systems and
  any range of lengths or distances (phrasemt/scoring/gains.py);
* of shares (contrastive pairs, ratings), that of Wilson (1927), and of the difference of two shares of ratings that of
  Newcombe (1998, method 10), which takes them as independent, so it is too wide for two systems on the same sentences;
* of other figures, the range over the trainings, or the figure itself for one training, which is then said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phrasemt.artefacts.scores import GainByLength, MetricComparison
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy, LayerAttention
from phrasemt.printed.claims import AnalysisName, Range
from phrasemt.report.blocks.contrasts import wilson_interval
from phrasemt.report.scored import BLEU, DecidedPairs, ScoredTestSet
from phrasemt.report.sections.cost import RelativeCost
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import ALL, NATS, quarters
from phrasemt.scoring.gains import Range as Words
from phrasemt.scoring.ratings import SystemRating
from phrasemt.study.claims import AnalysedFigure, Measurement, StudiedClaim

# Relative times of one device vary by so much.
_TIMES_VARY = 0.1


@dataclass(frozen=True, kw_only=True)
class Artefacts:
    """What a study has measured. costs: empty where nobody may read times. ratings: of filled sheets, by system."""

    table: Table
    trainings: Sequence[TrainingCurve]
    scored: Sequence[ScoredTestSet]
    attention: Sequence[AttentionAnalysis]
    contrasts: Sequence[DecidedPairs]
    costs: Sequence[RelativeCost] = ()
    ratings: Mapping[str, SystemRating] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A measured figure. on: data set and test set. low, high: None where nothing tells how sure the figure is.

    trainings: of the system with the fewest; None for a figure that no training changes.
    """

    on: str
    value: float
    low: float | None
    high: float | None
    trainings: int | None

    @property
    def text(self) -> str:
        """The figure with its interval."""
        if self.low is None or self.high is None or self.low == self.high:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    def direction(self, expected: Range) -> str:
        """Whether the study agrees with a claim."""
        does_not_differ = self.low == self.high == 0 and 0 in (expected.low, expected.high)  # no gain, no loss
        if self.low is None or self.high is None or does_not_differ:
            found = "not decided"
        elif expected.holds(self.low, self.high):
            found = "agrees"
        else:
            found = "against" if expected.misses(self.low, self.high) else "not decided"
        return f"{found} (one training)" if self.trainings == 1 else found


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """A measurement for a claim. measured: what. ours: figure and interval, or empty. direction: or what lacks."""

    claim: StudiedClaim
    measured: str
    on: str
    ours: str
    direction: str


def claim_rows(claims: Iterable[StudiedClaim], found: Artefacts) -> Iterator[ClaimRow]:
    """Yield a row for each finding, or one that says what the study lacks."""
    titles = dict(found.table.systems)
    for claim in claims:
        for one in claim.measurements:
            measured, findings = told(one, titles), findings_of(one, found)
            for finding in findings:
                yield ClaimRow(
                    claim=claim,
                    measured=measured,
                    on=finding.on,
                    ours=finding.text,
                    direction=finding.direction(one.expected),
                )
            if not findings:
                yield ClaimRow(claim=claim, measured=measured, on="", ours="", direction=f"not measured: {lack(one)}")


def findings_of(one: Measurement, found: Artefacts) -> list[Finding]:
    """The findings of a measurement; none if the study lacks a system or what the analysis is made from."""
    return [] if missing_rows(one) else list(_ANALYSES[one.analysis].find(found, one))


@dataclass(frozen=True, kw_only=True)
class FigureBesideFinding:
    """A printed figure beside a finding. verdict: where the printed figure lies."""

    figure: AnalysedFigure
    finding: Finding
    verdict: str


def beside_findings(figures: Iterable[AnalysedFigure], found: Artefacts) -> Iterator[FigureBesideFinding]:
    """Yield the printed figures that analyses find beside ours."""
    for figure in figures:
        for finding in findings_of(figure.measurement, found):
            printed = figure.measurement.expected
            if finding.low is None or finding.high is None:
                verdict = "no interval"
            elif not figure.same_data:
                same = (finding.value > 0) == ((printed.low or 0) > 0)
                verdict = f"other data: {'same' if same else 'opposite'} direction"
            elif printed.misses(finding.low, finding.high):
                verdict = "the printed figure lies outside of our interval"
            else:
                verdict = "the printed figure lies in our interval"
            if finding.trainings == 1:
                verdict += " (one training)"
            yield FigureBesideFinding(figure=figure, finding=finding, verdict=verdict)


def told(one: Measurement, titles: Mapping[str, str]) -> str:
    """What is measured, in words. titles: of systems; rows of the paper stand for systems that the study lacks."""
    options = [
        one.measure if one.analysis == "table" else one.analysis,
        one.mistake,
        f"{one.words.told} words" if one.words else None,
        f"{one.layer} layer" if one.layer else None,
        ", ".join(one.places) + (f" minus {', '.join(one.than_places)}" if one.than_places else ""),
    ]
    systems = titles.get(one.system or "", one.row)
    if one.than is not None:
        sign = "over" if _ANALYSES[one.analysis].is_ratio else "minus"
        systems += f" {sign} {titles.get(one.than_system or '', one.than)}"
    return f"{', '.join(filter(None, options))}: {systems}; expected {one.expected.told}"


def missing_rows(one: Measurement) -> list[str]:
    """The rows that no system of the study stands for."""
    rows = [(one.row, one.system), (one.than, one.than_system)]
    return [f"{one.paper}/{row}" for row, system in rows if row is not None and system is None]


def lack(one: Measurement) -> str:
    """What a study needs for a measurement."""
    if missing := missing_rows(one):
        return f"no system stands for {' and '.join(missing)}"
    return _ANALYSES[one.analysis].needs


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """An analysis. find: its findings for a measurement whose systems the study has. needs: what it is made from."""

    find: Callable[[Artefacts, Measurement], Iterator[Finding]]
    needs: str
    is_ratio: bool = False


def _of_table(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """A figure of the results table, or the difference to the baseline of the system."""
    assert one.counterpart is not None
    for block in found.table.blocks:
        rows = {row.system: row.cells for row in block.rows}
        key = one.counterpart.column
        cell = rows.get(one.system or "", {}).get(key)
        if block.kind != one.counterpart.kind or cell is None:
            continue
        on, trainings = f"{block.dataset}, {block.test_set}", len(cell.by_seed or {})
        if one.than is None:
            values = (cell.by_seed or {0: cell.value}).values()
            low, high = (min(values), max(values)) if cell.low is None else (cell.low, cell.high)
            yield Finding(on=on, value=cell.value, low=low, high=high, trainings=trainings)
            continue
        than = rows.get(one.than_system or "", {}).get(key)
        if than is None:
            continue
        trainings = min(trainings, len(than.by_seed or {}))
        tested = found.table.baselines.get(one.system or "") == one.than_system
        difference = rows[one.system or ""].get(f"{key}_difference") if tested else None
        yield Finding(
            on=on,
            value=cell.value - than.value if difference is None else difference.value,
            low=None if difference is None else difference.low,
            high=None if difference is None else difference.high,
            trainings=trainings,
        )


def _parameters(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    numbers = {(training.dataset, training.system): training.record.parameters for training in found.trainings}
    for dataset in found.table.datasets:
        system, than = (numbers.get((dataset, name or "")) for name in (one.system, one.than_system))
        if system and than:
            yield Finding(on=dataset, value=system / than, low=system / than, high=system / than, trainings=None)


def _training_time(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The ratio of the two ratios to their baseline, which must be the same."""
    baselines = found.table.baselines
    by_system = {(cost.dataset, cost.system): cost.ratios["training"] for cost in found.costs}
    for dataset in found.table.datasets:
        ratios = [by_system.get((dataset, name or "")) for name in (one.system, one.than_system)]
        bases = {baselines.get(name or "", name) for name in (one.system, one.than_system)}
        if ratios[0] and ratios[1] and len(bases) == 1:
            value = ratios[0] / ratios[1]
            yield Finding(
                on=dataset,
                value=value,
                low=value * (1 - _TIMES_VARY),
                high=value * (1 + _TIMES_VARY),
                trainings=_trainings(found, one),
            )


def _trainings(found: Artefacts, one: Measurement) -> int:
    return min(len(found.table.trained.get(name, ())) for name in (one.system, one.than_system) if name is not None)


@dataclass(frozen=True)
class _Share:
    """A share, 0 to 1, of so many items."""

    share: float
    items: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.share, self.items)


def _share_or_difference(one: _Share, than: _Share | None) -> tuple[float, float, float]:
    """The share in percent with its interval, or the difference of two shares (Newcombe 1998, method 10)."""
    low, high = one.interval
    if than is None:
        return 100 * one.share, 100 * low, 100 * high
    than_low, than_high = than.interval
    difference = one.share - than.share
    below = math.hypot(one.share - low, than_high - than.share)
    above = math.hypot(high - one.share, than.share - than_low)
    return 100 * difference, 100 * (difference - below), 100 * (difference + above)


def _contrasts(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The accuracy on contrastive pairs, mean over the trainings, or its difference."""
    group = ALL if one.words is None else _group(one.words, least=1)
    for decided in found.contrasts:
        on, files = decided.name, decided.of_systems.get(one.system or "", [])
        kind = next((place for place, kind in enumerate(decided.kinds) if kind == one.mistake), None)
        if not files or (one.mistake is not None and kind is None):
            continue
        if one.than is None:
            shares = list(filter(None, (_share(file, kind, group) for file in files)))
            if shares:
                share = _Share(math.fsum(one.share for one in shares) / len(shares), shares[0].items)
                value, low, high = _share_or_difference(share, None)
                on_pairs = f"{on} ({share.items:,} pairs)"
                yield Finding(on=on_pairs, value=value, low=low, high=high, trainings=_trainings(found, one))
        elif one.than_system in decided.of_systems:
            gain = decided.gains(kind).of(one.than_system or "", one.system or "", ranges=[], joint=[group])
            for pairs in gain.joint:
                yield _tested(f"{on} ({pairs.sentences:,} pairs)", found, one, pairs.comparison)


def _share(file: ContrastAccuracy, kind: int | None, group: Words) -> _Share | None:
    """The share of right decisions about a kind of mistake, or all, at distances in a group; None without any."""
    made = zip(file.decisions.kinds, file.decisions.distances, file.decisions.right, strict=True)
    low, high = group
    right = [
        wins
        for of, distance, wins in made
        if kind in (None, of) and low <= (distance or 0) <= (math.inf if high is None else high)
    ]
    return _Share(sum(right) / len(right), len(right)) if right else None


def _group(words: Range, *, least: int = 0) -> Words:
    """A range of whole numbers. least: of all that are known."""
    return max(least, math.ceil(words.low or 0)), None if words.high is None else math.floor(words.high)


def _lengths(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The difference in BLEU on the sentences of a test set whose sources have so many words."""
    assert one.words is not None
    for scored in (scored for scored in found.scored if scored.metric == BLEU):
        if gain := _gain(scored, one, joint=[_group(one.words)]):
            for group in gain.joint:
                yield _tested(f"{scored.name} ({group.sentences:,} sentences)", found, one, group.comparison)


def _length_growth(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """How much the gain grows for twice as many words, over quarters of the sentences, in BLEU and in nats a token."""
    for scored in found.scored:
        gain = _gain(scored, one, ranges=quarters(scored.words))
        if gain and gain.slope:
            yield _tested(f"{scored.name}, {'BLEU' if scored.metric == BLEU else NATS}", found, one, gain.slope)


def _gain(
    scored: ScoredTestSet, one: Measurement, *, ranges: Sequence[Words] = (), joint: Sequence[Words] = ()
) -> GainByLength | None:
    return scored.gain(one.than_system or "", one.system or "", ranges=ranges, joint=joint)


def _tested(on: str, found: Artefacts, one: Measurement, comparison: MetricComparison) -> Finding:
    shown = comparison.shown
    return Finding(on=on, value=shown.value, low=shown.low, high=shown.high, trainings=_trainings(found, one))


def _of_attention(figure: Callable[[AttentionAnalysis, Measurement], float | None]) -> Callable[..., Iterator[Finding]]:
    """The analysis of a figure that each analysed training has."""

    def find(found: Artefacts, one: Measurement) -> Iterator[Finding]:
        values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for file in found.attention:
            if (value := figure(file, one)) is not None:
                values[f"{file.dataset}, {file.test_set}"][file.system].append(value)
        for on, of_systems in values.items():
            yield from _over_trainings(on, one, of_systems)

    return find


def _over_trainings(on: str, one: Measurement, values: Mapping[str, Sequence[float]]) -> Iterator[Finding]:
    """The mean over trainings, with their range. values: of the trainings of each system."""
    system = values.get(one.system or "")
    than = [0.0] if one.than is None else values.get(one.than_system or "")
    if system and than:
        yield Finding(
            on=on,
            value=math.fsum(system) / len(system) - math.fsum(than) / len(than),
            low=min(system) - max(than),
            high=max(system) - min(than),
            trainings=len(system) if one.than is None else min(len(system), len(than)),
        )


def _phrase_mass(file: AttentionAnalysis, one: Measurement) -> float | None:
    """The share of the weights on n-grams of two or more tokens, in percent, mean over the attentions."""
    chosen = [attention for attention in file.attentions if len(attention.mass) > 1]
    top = max((attention.layer for attention in chosen), default=0)
    layer = {"top": top, "middle": (top + 1) // 2, None: None}[one.layer]
    masses = [attention.phrase_mass for attention in chosen if layer in (None, attention.layer)]
    return math.fsum(masses) / len(masses) if masses else None


def _entropy(file: AttentionAnalysis, one: Measurement) -> float | None:
    """The entropy of attentions as a share of the largest one, minus that of others of the system, if there are any."""
    shares = [_relative_entropy(file.attentions, places) for places in (one.places, one.than_places)]
    if shares[0] is None or (one.than_places and shares[1] is None):
        return None
    return shares[0] - (shares[1] or 0.0)


def _relative_entropy(attentions: Sequence[LayerAttention], places: Sequence[str]) -> float | None:
    shares = [one.entropy / math.log(one.keys) for one in attentions if one.place in places and one.keys > 1]
    return math.fsum(shares) / len(shares) if shares else None


def _level_weights(file: AttentionAnalysis, one: Measurement) -> float | None:
    """The mean total variation distance of the layers' mixtures of encoder levels to the mean of all layers."""
    weights_LJ = file.mixtures.get("phrases")
    if weights_LJ is None:
        return None
    layers = list(zip(*weights_LJ, strict=True))
    mean = [math.fsum(level) / len(level) for level in weights_LJ]
    return math.fsum(abs(a - b) for layer in layers for a, b in zip(layer, mean, strict=True)) / 2 / len(layers)


def _overfitting(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The last perplexity on dev over the best one of the training."""
    for dataset in found.table.datasets:
        values: dict[str, list[float]] = defaultdict(list)
        for training in (training for training in found.trainings if training.dataset == dataset):
            perplexities = [evaluation.dev_perplexity for evaluation in training.evaluations]
            if perplexities:
                values[training.system].append(perplexities[-1] / min(perplexities))
        yield from _over_trainings(dataset, one, values)


def _over_translation(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The difference in percent of translations that raters mark, mean over the raters."""
    system, than = (found.ratings.get(name or "") for name in (one.system, one.than_system))
    if system and than:
        shares = [_Share(rating.means["over_translation"], rating.items) for rating in (system, than)]
        value, low, high = _share_or_difference(*shares)
        on = f"{system.items:,} rated sentences"
        yield Finding(on=on, value=value, low=low, high=high, trainings=1)


_ANALYSES: Mapping[AnalysisName, Analysis] = {
    "table": Analysis(find=_of_table, needs="the results table has no such score"),
    "parameters": Analysis(find=_parameters, needs="records of both trainings", is_ratio=True),
    "training time": Analysis(
        find=_training_time,
        needs="times of trainings on one device; `phrasemt papers --claims` reads them where they ran",
        is_ratio=True,
    ),
    "contrasts": Analysis(find=_contrasts, needs="contrast_sets with such pairs, or a generator"),
    "lengths": Analysis(find=_lengths, needs="translated sentences of such lengths"),
    "length growth": Analysis(find=_length_growth, needs="sentences of different lengths"),
    "phrase mass": Analysis(find=_of_attention(_phrase_mass), needs="attention to n-grams"),
    "entropy": Analysis(find=_of_attention(_entropy), needs="attentions of these places"),
    "level weights": Analysis(find=_of_attention(_level_weights), needs="ta: on"),
    "overfitting": Analysis(find=_overfitting, needs="evaluations of both trainings"),
    "over-translation": Analysis(
        find=_over_translation, needs="sheets that raters have filled in (`phrasemt ratings`), with --ratings FOLDER"
    ),
}
