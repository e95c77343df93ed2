"""Gains over the baseline by length and by distance (Xu et al. 2020, Figures 3 and 4): parts of "Analyses"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import GainByLength, GainOfGroup
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import ContrastAccuracy
from phrasemt.report.page import Analysis, TextTable
from phrasemt.report.scored import BLEU, ScoredTestSet
from phrasemt.scoring.gains import NATS, gain_by_distance, quarters, ranges_of
from phrasemt.scoring.significance import p_text
from phrasemt.stages.report import WriteReport

_DECIMALS = {BLEU: 2, NATS: 3}
_TEXT = (
    "Differences to the baseline in quarters of the sentences by the number of words in the source, then in fixed "
    "groups, with p-values of the paired test in each group, not corrected. Slope: how much the gain grows when the "
    "source has twice as many words, over the quarters, with its 95 % interval from samples of sentences and "
    "trainings; above 0, longer sentences gain more. In nats per token of the references less is better. How much "
    "trainings differ is that of all systems with several trainings; without one, no p-value is shown."
)
_TEXT_ON_PAIRS = (
    "Differences to the baseline in the percentage of contrastive pairs that are decided right, by the distance of the "
    "two words that must agree, then for more than 10 words and for all pairs, with p-values of the test of pairs and "
    "trainings, not corrected. Slope: how much the gain grows for twice the distance."
)


def gain_analyses(settings: WriteReport, table: Table, scored: Sequence[ScoredTestSet]) -> Iterator[Analysis]:
    """Yield the part; none without systems to compare."""
    tables = [one for test_set in scored for one in _tables(settings, table, test_set)]
    if tables:
        yield Analysis(heading="Gains by length of the source", text=_TEXT, tables=tables)


def contrast_analyses(settings: WriteReport, table: Table, contrasts: Sequence[Path]) -> Iterator[Analysis]:
    """Yield the part about contrastive pairs; none without systems to compare. contrasts: of all trainings."""
    of_sets: dict[tuple[str, str], dict[str, list[ContrastAccuracy]]] = {}
    for path in contrasts:
        file = ContrastAccuracy.read(path)
        of_sets.setdefault((file.dataset, file.contrast_set), {}).setdefault(file.system, []).append(file)
    tables = []
    for place, of_systems in of_sets.items():
        kinds = next(iter(of_systems.values()))[0].kinds
        for number, kind in enumerate(kinds):
            gains = {
                title: gain_by_distance(
                    of_systems[baseline],
                    of_systems[system],
                    kind=number,
                    repeated=list(of_systems.values()),
                    samples=settings.samples,
                    seed=settings.seed,
                )
                for system, title in table.systems
                if (baseline := table.baselines.get(system, system)) != system
                and {system, baseline} <= of_systems.keys()
            }
            if gains:
                tables.append(_table(f"{', '.join(place)}, {kind.kind}; difference in percent", gains, decimals=1))
    if tables:
        yield Analysis(heading="Gains on contrastive pairs by distance", text=_TEXT_ON_PAIRS, tables=tables)


def _tables(settings: WriteReport, table: Table, scored: ScoredTestSet) -> Iterator[TextTable]:
    """Yield the table of a test set in a metric; none where no system has its baseline there."""
    gains = {
        title: gain
        for system, title in table.systems
        if (baseline := table.baselines.get(system, system)) != system
        and (
            gain := scored.gain(
                baseline,
                system,
                ranges=quarters(scored.words),
                joint=ranges_of(settings.lengths),
                samples=settings.samples,
                seed=settings.seed,
            )
        )
    }
    if gains:
        convention = scored.metric if scored.metric == NATS else next(iter(gains.values())).signature
        yield _table(f"{scored.name}; difference in {convention}", gains, decimals=_DECIMALS[scored.metric])


def _table(caption: str, gains: Mapping[str, GainByLength], *, decimals: int) -> TextTable:
    """The table of the gains of systems, by title."""
    first = next(iter(gains.values()))
    groups = [f"{one.name} ({one.sentences:,})" for one in (*first.groups, *first.joint)]
    rows = [[title, *_cells(gain, decimals)] for title, gain in gains.items()]
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _cells(gain: GainByLength, decimals: int) -> Iterator[str]:
    for group in (*gain.groups, *gain.joint):
        yield _difference(group, decimals)
    slope = gain.slope
    if slope is None:
        yield "–"
    else:
        low, high = f"{slope.low:+.{decimals}f}", f"{slope.high:+.{decimals}f}"
        yield f"{slope.value:+.{decimals}f} [{low}, {high}]{_with_p(gain.slope_p)}"


def _difference(group: GainOfGroup, decimals: int) -> str:
    found = group.comparison
    return f"{found.difference.value:+.{decimals}f}{_with_p(found.p_values.over_seeds)}"


def _with_p(p_value: float | None) -> str:
    return "" if p_value is None else f", p {p_text(p_value)}"
