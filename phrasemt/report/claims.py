"""The claims of papers beside what a study measures of them.

A claim names analyses (phrasemt/printed/claims.py); `_ANALYSES` has a function for each. It yields a finding for each
data set and test set: a figure of one system, a difference of two systems, or of costs their ratio. Where the whole
interval of a finding lies in the range that the claim expects, the study agrees; where all of it lies outside, the
study is against the claim; otherwise nothing is decided. Intervals:

* of scores, the 95 % interval in the results table; of two systems that are not compared there, none, so nothing is
  decided;
* of differences of contrastive accuracy over a distance, that of the paired test (phrasemt/scoring/contrasts.py);
* of shares (contrastive pairs, ratings), that of Wilson (1927), and of their other differences that of Newcombe (1998,
  method 10), which takes the shares as independent, so it is too wide for two systems on the same items;
* of differences in a group of lengths, from the two intervals of the group, also as if they were independent;
* of other figures, the range over the trainings, or the figure itself for one training, which is then said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phrasemt.artefacts.scores import Estimate, LengthGroup, LengthScores, LengthsOnTestSet
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy, Counts, LayerAttention
from phrasemt.printed.claims import AnalysisName, Range
from phrasemt.report.blocks.contrasts import wilson_interval
from phrasemt.report.sections.cost import RelativeCost
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import gain_by_distance
from phrasemt.scoring.ratings import SystemRating
from phrasemt.study.claims import AnalysedFigure, Measurement, StudiedClaim

# Of paired tests, as in studies.
_SAMPLES, _SEED = 1000, 12345
# Relative times of one device vary by so much.
_TIMES_VARY = 0.1


@dataclass(frozen=True, kw_only=True)
class Artefacts:
    """What a study has measured. costs: empty where nobody may read times. ratings: of filled sheets, by system."""

    table: Table
    trainings: Sequence[TrainingCurve]
    lengths: Sequence[LengthScores]
    attention: Sequence[AttentionAnalysis]
    contrasts: Sequence[ContrastAccuracy]
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
        if self.low is None or self.high is None:
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
    """The accuracy on contrastive pairs, mean over the trainings."""
    for dataset, contrast_set in dict.fromkeys((file.dataset, file.contrast_set) for file in found.contrasts):
        files = [file for file in found.contrasts if (file.dataset, file.contrast_set) == (dataset, contrast_set)]
        system, than = (_accuracy(files, name, one) for name in (one.system, one.than_system))
        if system is None or (one.than is not None and than is None):
            continue
        value, low, high = _share_or_difference(system, than)
        if than is not None and one.words is not None:
            value, low, high = _paired(files, one, one.words)
        on = f"{dataset}, {contrast_set} ({system.items:,} pairs)"
        yield Finding(on=on, value=value, low=low, high=high, trainings=_trainings(found, one))


def _paired(files: Sequence[ContrastAccuracy], one: Measurement, words: Range) -> tuple[float, float, float]:
    """The difference on pairs in a range of distances, with the interval of its paired test."""
    baseline, system = ([file for file in files if file.system == name] for name in (one.than_system, one.system))
    kind = next(place for place, kind in enumerate(system[0].kinds) if one.mistake in (None, kind.kind))
    group = (int(words.low or 0), None if words.high is None else int(words.high))
    tested = gain_by_distance(baseline, system, kind=kind, ranges=[], joint=[group], samples=_SAMPLES, seed=_SEED)
    comparison = tested.joint[0].comparison
    difference = (comparison.over_seeds or comparison).difference
    return difference.value, difference.low, difference.high


def _accuracy(files: Sequence[ContrastAccuracy], system: str | None, one: Measurement) -> _Share | None:
    shares, pairs = [], 0
    for file in (file for file in files if file.system == system):
        kinds = [kind for kind in file.kinds if one.mistake in (None, kind.kind)]
        groups: Sequence[Counts] = kinds
        if one.words is not None:
            by_distance = [group for kind in kinds for group in kind.by_distance]
            groups = [group for group in by_distance if one.words.holds(group.low, _end(group.high))]
        pairs = sum(group.pairs for group in groups)
        if pairs:
            shares.append(sum(group.right for group in groups) / pairs)
    return _Share(math.fsum(shares) / len(shares), pairs) if shares else None


def _end(high: int | None) -> float:
    """The end of a group of words."""
    return math.inf if high is None else high


def _lengths(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The difference in BLEU on the group of a test set that lies in the range."""
    assert one.words is not None
    for on, pairs in _pairs_of_groups(found, one):
        for system, than in pairs:
            if one.words.holds(system.low, _end(system.high)):
                yield _difference(f"{on} ({system.sentences:,} sentences)", found, one, _gain(system, than))


def _length_growth(found: Artefacts, one: Measurement) -> Iterator[Finding]:
    """The gain of the group of the longest sources minus that of the shortest ones."""
    for on, pairs in _pairs_of_groups(found, one):
        if len(pairs) > 1:
            yield _difference(on, found, one, _minus(_gain(*pairs[-1]), _gain(*pairs[0])))


def _pairs_of_groups(found: Artefacts, one: Measurement) -> Iterator[tuple[str, list[tuple[LengthGroup, LengthGroup]]]]:
    """For each test set the groups of both systems that have sentences."""
    files = {(file.dataset, file.system): file for file in found.lengths}
    for dataset in dict.fromkeys(file.dataset for file in found.lengths):
        system, than = (files.get((dataset, name or "")) for name in (one.system, one.than_system))
        if system and than:
            for test_set in system.test_sets:
                groups = zip(_groups(system, test_set), _groups(than, test_set), strict=True)
                yield f"{dataset}, {test_set}", [pair for pair in groups if pair[0].bleu and pair[1].bleu]


def _groups(file: LengthScores, test_set: str) -> Sequence[LengthGroup]:
    first: LengthsOnTestSet = next(iter(file.test_sets[test_set].values()))  # the convention of the papers
    return first.groups


def _gain(system: LengthGroup, than: LengthGroup) -> Estimate:
    assert system.bleu is not None
    assert than.bleu is not None
    return _minus(system.bleu, than.bleu)


def _minus(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two estimates, as if they were independent."""
    value = one.value - other.value
    below = math.hypot(one.value - one.low, other.high - other.value)
    above = math.hypot(one.high - one.value, other.value - other.low)
    return Estimate(value=value, mean=one.mean - other.mean, low=value - below, high=value + above)


def _difference(on: str, found: Artefacts, one: Measurement, difference: Estimate) -> Finding:
    trainings = _trainings(found, one)
    return Finding(on=on, value=difference.value, low=difference.low, high=difference.high, trainings=trainings)


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
    "lengths": Analysis(find=_lengths, needs="sentences in this group, and its limits in analyses.lengths"),
    "length growth": Analysis(find=_length_growth, needs="sentences in two groups of lengths"),
    "phrase mass": Analysis(find=_of_attention(_phrase_mass), needs="attention to n-grams"),
    "entropy": Analysis(find=_of_attention(_entropy), needs="attentions of these places"),
    "level weights": Analysis(find=_of_attention(_level_weights), needs="ta: on"),
    "overfitting": Analysis(find=_overfitting, needs="evaluations of both trainings"),
    "over-translation": Analysis(
        find=_over_translation, needs="sheets that raters have filled in (`phrasemt ratings`), with --ratings FOLDER"
    ),
}
