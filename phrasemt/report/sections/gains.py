"""Gains over the baseline by length and by distance (Xu et al. 2020, Figures 3 and 4).

Tables for the report, `phrasemt compare` and `phrasemt contrast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from phrasemt.artefacts.scores import Estimate, GainByLength
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import ContrastAccuracy
from phrasemt.report.page import Analysis, TextTable
from phrasemt.report.scored import BLEU, ScoredTestSet
from phrasemt.scoring.gains import ALL, DISTANCES, MORE_THAN_10, NATS, PairedTest, gains_on_pairs, quarters, ranges_of
from phrasemt.scoring.significance import p_text
from phrasemt.stages.report import WriteReport

_SHOWN = {BLEU: ("BLEU tok", 2), NATS: (NATS, 3)}  # heading and decimals of a metric; the results have its signature
_TEXT = (
    "Differences to the baseline in quarters of the sentences by the number of words in the source, then in fixed "
    "groups, with 95 % intervals and p-values of the paired test of sentences and trainings in each group, not "
    "corrected. Slope: how much the gain grows when the source has twice as many words, over the quarters; above 0, "
    "longer sentences gain more. In nats per token of the references less is better. How much trainings differ is that "
    "of all systems with several trainings; without one, no p-value is shown, and intervals cover sentences only."
)
_TEXT_ON_PAIRS = (
    "Differences to the baseline in the percentage of contrastive pairs that are decided right, by the distance of the "
    "two words that must agree, then for more than 10 words and for all pairs, with 95 % intervals and p-values of the "
    "test of pairs and trainings, not corrected. Slope: how much the gain grows for twice the distance."
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two systems that are compared. title: of the second one."""

    baseline: str
    system: str
    title: str


def gain_analyses(settings: WriteReport, table: Table, scored: Sequence[ScoredTestSet]) -> Iterator[Analysis]:
    """Yield the part; none without systems to compare."""
    tables = length_tables(scored, _pairs(table), settings.lengths)
    if tables:
        yield Analysis(heading="Gains by length of the source", text=_TEXT, tables=tables)


def contrast_analyses(table: Table, contrasts: Sequence[ContrastAccuracy], test: PairedTest) -> Iterator[Analysis]:
    """Yield the part about contrastive pairs; none without systems to compare. contrasts: of all trainings."""
    tables = distance_tables(contrasts, _pairs(table), test)
    if tables:
        yield Analysis(heading="Gains on contrastive pairs by distance", text=_TEXT_ON_PAIRS, tables=tables)


def _pairs(table: Table) -> list[Pair]:
    """Each system with its baseline."""
    return [
        Pair(baseline=baseline, system=system, title=title)
        for system, title in table.systems
        if (baseline := table.baselines.get(system, system)) != system
    ]


def length_tables(scored: Iterable[ScoredTestSet], pairs: Sequence[Pair], lengths: Sequence[int]) -> list[TextTable]:
    """A table of gains by length for each test set and metric that has a pair of systems.

    lengths: the largest number of words of each group but the last; quarters of the sentences come before these groups.
    """
    tables = []
    for one in scored:
        ranges, joint = quarters(one.words), ranges_of(lengths)
        found = {pair.title: one.gain(pair.baseline, pair.system, ranges=ranges, joint=joint) for pair in pairs}
        gains = {title: gain for title, gain in found.items() if gain}
        if gains:
            heading, decimals = _SHOWN[one.metric]
            tables.append(_table(f"{one.name}; difference in {heading}", gains, decimals=decimals))
    return tables


def distance_tables(files: Iterable[ContrastAccuracy], pairs: Sequence[Pair], test: PairedTest) -> list[TextTable]:
    """A table of gains by distance for each kind of mistake of each set of pairs that has a pair of systems.

    files: of all trainings. Raises MismatchError for systems that decided about other pairs.
    """
    of_sets: dict[tuple[str, str], dict[str, list[ContrastAccuracy]]] = {}
    for file in files:
        of_sets.setdefault((file.dataset, file.contrast_set), {}).setdefault(file.system, []).append(file)
    tables = []
    for place, of_systems in of_sets.items():
        there = [pair for pair in pairs if {pair.baseline, pair.system} <= of_systems.keys()]
        for number, kind in enumerate(next(iter(of_systems.values()))[0].kinds if there else ()):
            gains = gains_on_pairs(of_systems, kind=number, test=test)
            of_pairs = {
                pair.title: gains.of(pair.baseline, pair.system, ranges=DISTANCES, joint=(MORE_THAN_10, ALL))
                for pair in there
            }
            tables.append(_table(f"{', '.join(place)}, {kind.kind}; difference in percent", of_pairs, decimals=1))
    return tables


def _table(caption: str, gains: Mapping[str, GainByLength], *, decimals: int) -> TextTable:
    """The table of the gains of systems, by title."""
    first = next(iter(gains.values()))
    groups = [f"{one.name} ({one.sentences:,})" for one in (*first.groups, *first.joint)]
    rows = [[title, *_cells(gain, decimals)] for title, gain in gains.items()]
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _cells(gain: GainByLength, decimals: int) -> Iterator[str]:
    for group in (*gain.groups, *gain.joint):
        found = group.comparison
        yield _cell((found.over_seeds or found).difference, found.p_values.over_seeds, decimals)
    yield "–" if gain.slope is None else _cell(gain.slope, gain.slope_p, decimals)


def _cell(found: Estimate, p_value: float | None, decimals: int) -> str:
    low, high = f"{found.low:+.{decimals}f}", f"{found.high:+.{decimals}f}"
    p = "" if p_value is None else f", p {p_text(p_value)}"
    return f"{found.value:+.{decimals}f} [{low}, {high}]{p}"
