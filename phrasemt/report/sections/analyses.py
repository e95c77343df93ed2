"""The section "Analyses": what was measured beyond scores, each part from the artefact of one stage.

Here: BLEU and gains over the baseline by length of the source, and gains by distance of words that must agree (Xu et
al. 2020, Figures 3 and 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.scores import GainByLength, LengthGroup, LengthScores, LengthsOnTestSet, MetricComparison
from phrasemt.artefacts.table import Table
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Analysis, Section, TextTable, fill
from phrasemt.scoring.gains import ALL, BLEU, DISTANCES, MORE_THAN_10, NATS, DecidedPairs, Gains, groups_up_to, quarters
from phrasemt.scoring.significance import decimals_of, mark_of, p_text
from phrasemt.stages.report import WriteReport


def analyses_section(parts: Sequence[Analysis]) -> Section | None:
    """Make the section; None without parts."""
    if not parts:
        return None
    return Section(anchor="analyses", heading="Analyses", content=fill("sections/analyses.html", parts=parts))


def length_analyses(paths: Sequence[Path], titles: Mapping[str, str]) -> Iterator[Analysis]:
    """Yield the part; none without files. paths: files of `score_by_length`. titles: of systems, in their order."""
    if not paths:
        return
    files = [LengthScores.read(path) for path in paths]
    drawings, tables = [], []
    for dataset in dict.fromkeys(file.dataset for file in files):
        of_dataset = [file for file in files if file.dataset == dataset]
        for test_set in of_dataset[0].test_sets:
            # The first convention is that of the papers.
            systems = {
                titles[file.system]: next(iter(file.test_sets[test_set].values()))
                for file in sorted(of_dataset, key=lambda file: list(titles).index(file.system))
            }
            drawings.append(_drawing(dataset, test_set, systems))
            tables.append(_table(dataset, test_set, systems))
    samples = files[0].samples
    text = (
        "BLEU tok, whose signature stands below the results, on groups of sentences by the number of words in the "
        f"source, with 95 % intervals from {samples:,} bootstrap samples of the sentences of each group. Intervals of "
        "two systems may overlap although their difference is significant, because both translate the same sentences."
    )
    yield Analysis(heading="BLEU by length of the source", text=text, drawings=drawings, tables=tables)


def _drawing(dataset: str, test_set: str, systems: Mapping[str, LengthsOnTestSet]) -> Drawing:
    groups = next(iter(systems.values())).groups
    shown = [number for number, group in enumerate(groups) if group.sentences]
    series = []
    for title, lengths in systems.items():
        estimates = [bleu for number in shown if (bleu := lengths.groups[number].bleu) is not None]
        series.append(
            Series(
                group=title,
                x=range(len(shown)),
                y=[bleu.value for bleu in estimates],
                low=[bleu.low for bleu in estimates],
                high=[bleu.high for bleu in estimates],
            )
        )
    return draw_categories(
        f"lengths-{dataset}-{test_set}",
        [groups[number].name for number in shown],
        series,
        title=f"{dataset}, {test_set}: BLEU by length",
        x_label="words in the source",
        y_label="BLEU tok",
    )


def _table(dataset: str, test_set: str, systems: Mapping[str, LengthsOnTestSet]) -> TextTable:
    groups = next(iter(systems.values())).groups
    return TextTable(
        caption=f"{dataset}, {test_set}; BLEU tok",
        headings=["System", *(f"{group.name} ({group.sentences:,})" for group in groups)],
        rows=[[title, *map(_cell, lengths.groups)] for title, lengths in systems.items()],
    )


def _cell(group: LengthGroup) -> str:
    bleu = group.bleu
    return "–" if bleu is None else f"{bleu.value:.2f} [{bleu.low:.1f}, {bleu.high:.1f}]"


_SHOWN = {BLEU: ("BLEU tok", 2), NATS: (NATS, 3)}  # heading and decimals of a metric; the results have its signature
_POWER = (
    " In brackets after a p of 0.05 or more: the smallest difference that these trainings would show in 80 % of all "
    "repetitions, and with how many trainings of each system the one found would show."
)
_TEXT = (
    "Differences to the baseline in quarters of the sentences by the number of words in the source, then in fixed "
    "groups, with 95 % intervals and p-values of the paired test of sentences and trainings in each group, not "
    "corrected. Slope: how much the gain grows when the source has twice as many words, over the quarters; above 0, "
    "longer sentences gain more. In nats per token of the references less is better. How much trainings differ is that "
    "of all systems with several trainings; without one, no p-value is shown, and intervals cover sentences only."
    + _POWER
)
_TEXT_ON_PAIRS = (
    "Differences to the baseline in the percentage of contrastive pairs that are decided right, by the distance of the "
    "two words that must agree, then for more than 10 words and for all pairs, with 95 % intervals and p-values of the "
    "test of pairs and trainings, not corrected. Slope: how much the gain grows for twice the distance." + _POWER
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two systems that are compared. title: of the second one."""

    baseline: str
    system: str
    title: str


def gain_analyses(settings: WriteReport, table: Table, scored: Sequence[Gains]) -> Iterator[Analysis]:
    """Yield the part; none without systems to compare."""
    tables = length_tables(scored, _pairs(table), settings.lengths)
    if tables:
        yield Analysis(heading="Gains by length of the source", text=_TEXT, tables=tables)


def contrast_analyses(table: Table, decided: Iterable[DecidedPairs]) -> Iterator[Analysis]:
    """Yield the part about contrastive pairs; none without systems to compare."""
    tables = distance_tables(decided, _pairs(table))
    if tables:
        yield Analysis(heading="Gains on contrastive pairs by distance", text=_TEXT_ON_PAIRS, tables=tables)


def _pairs(table: Table) -> list[Pair]:
    """Each system with its baseline."""
    return [
        Pair(baseline=baseline, system=system, title=title)
        for system, title in table.systems
        if (baseline := table.baselines.get(system, system)) != system
    ]


def length_tables(scored: Iterable[Gains], pairs: Sequence[Pair], lengths: Sequence[int]) -> list[TextTable]:
    """A table of gains by length for each test set and metric that has a pair of systems.

    lengths: the largest number of words of each group but the last; quarters of the sentences come before these groups.
    """
    tables = []
    for one in scored:
        groups, joint = quarters(one.words), groups_up_to(lengths)
        gains = {
            pair.title: one.of(pair.baseline, pair.system, groups=groups, joint=joint)
            for pair in pairs
            if {pair.baseline, pair.system} <= one.of_systems.keys()
        }
        if gains:
            heading, decimals = _SHOWN[one.metric]
            tables.append(_table_of_gains(f"{one.name}; difference in {heading}", gains, decimals=decimals))
    return tables


def distance_tables(decided: Iterable[DecidedPairs], pairs: Sequence[Pair]) -> list[TextTable]:
    """A table of gains by distance for each kind of mistake of each set of pairs that has a pair of systems.

    Raises MismatchError for systems that decided about other pairs.
    """
    tables = []
    for one in decided:
        there = [pair for pair in pairs if {pair.baseline, pair.system} <= one.of_systems.keys()]
        for number, kind in enumerate(one.kinds if there else ()):
            joint = (MORE_THAN_10, ALL)
            gains = {
                pair.title: one.gains(number).of(pair.baseline, pair.system, groups=DISTANCES, joint=joint)
                for pair in there
            }
            tables.append(_table_of_gains(f"{one.name}, {kind}; difference in percent", gains, decimals=1))
    return tables


def _table_of_gains(caption: str, gains: Mapping[str, GainByLength], *, decimals: int) -> TextTable:
    """The table of the gains of systems, by title."""
    first = next(iter(gains.values()))
    groups = [f"{one.name} ({one.sentences:,})" for one in (*first.groups, *first.joint)]
    rows = [[title, *_cells(gain, decimals)] for title, gain in gains.items()]
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _cells(gain: GainByLength, decimals: int) -> Iterator[str]:
    for group in (*gain.groups, *gain.joint):
        yield _gain(group.comparison, decimals)
    yield "–" if gain.slope is None else _gain(gain.slope, decimals)


def _gain(found: MetricComparison, decimals: int) -> str:
    shown, p_value, power = found.shown, found.p_values.over_seeds, found.over_seeds
    decimals = decimals_of(shown.value, p_value, decimals)
    text = f"{shown.value:+.{decimals}f} [{shown.low:+.{decimals}f}, {shown.high:+.{decimals}f}]"
    if p_value is not None:
        text += f", p {p_text(p_value)}"
    if power is not None and power.deviation and not mark_of(p_value):
        needed = "" if power.seeds_needed is None else f", or with {power.seeds_needed:,} trainings"
        text += f" ({power.detectable:.{decimals}f} would show{needed})"
    return text
