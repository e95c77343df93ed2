"""The section "Analyses": what was measured beyond scores, each part from the artefact of one stage.

BLEU and gains over the baseline by length of the source, gains by distance of words that must agree (Xu et al. 2020,
Figures 3 and 4), what models attend to, and the perplexity without phrases. Attention on single sentences is in the
section "Sentences".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.files.attention import AttentionPlace
from phrasemt.report.figures import Series, draw_categories
from phrasemt.report.page import Analysis, Section, TextTable, fill
from phrasemt.scoring.gains import (
    ALL,
    BLEU,
    DISTANCES,
    LENGTHS,
    MORE_THAN_10,
    NATS,
    DecidedPairs,
    GainByLength,
    Gains,
    groups_up_to,
    quarters,
)
from phrasemt.scoring.significance import decimals_of, mark_of, p_text, undecided


def analyses_section(parts: Sequence[Analysis]) -> Section | None:
    """Make the section; None without parts."""
    if not parts:
        return None
    return Section(anchor="analyses", heading="Analyses", content=fill("sections/analyses.html", parts=parts))


def length_analyses(scored: Iterable[Gains], titles: Mapping[str, str]) -> Iterator[Analysis]:
    """Yield the part; none without scores. titles: of systems, in their order."""
    drawings, tables = [], []
    for one in (one for one in scored if one.metric == BLEU):
        # The comparison of a system with itself has its score and interval.
        systems = {
            title: one.of(system, system, joint=groups_up_to(LENGTHS)).joint
            for system, title in titles.items()
            if system in one.of_systems
        }
        groups = next(iter(systems.values()))
        series, rows = [], []
        for title, of_system in systems.items():
            scores = [comparison.system for comparison in of_system.values()]
            y, low, high = ([getattr(bleu, end) for bleu in scores] for end in ("value", "low", "high"))
            series.append(Series(group=title, x=range(len(groups)), y=y, low=low, high=high))
            rows.append([title, *(f"{bleu.value:.2f} [{bleu.low:.1f}, {bleu.high:.1f}]" for bleu in scores)])
        headings = ["System", *(f"{group.name} ({group.sentences:,})" for group in groups)]
        tables.append(TextTable(caption=f"{one.name}; BLEU tok", headings=headings, rows=rows))
        drawings.append(
            draw_categories(
                [group.name for group in groups],
                series,
                title=f"{one.name}: BLEU by length",
                x_label="words in the source",
                y_label="BLEU tok",
            )
        )
    text = (
        "BLEU tok, whose signature stands below the results, on groups of sentences by the number of words in the "
        "source, with 95 % intervals from bootstrap samples of the sentences of each group. Intervals of two systems "
        "may overlap although their difference is significant, because both translate the same sentences."
    )
    if drawings:
        yield Analysis(heading="BLEU by length of the source", text=text, drawings=drawings, tables=tables)


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

_TEXT_ON_CONTROLS = (
    "What a gain comes from: the system minus each of its controls, with 95 % intervals and p-values of the test of "
    "sentences and trainings, not corrected. In nats per token of the references less is better." + _POWER
)


Controls = Mapping[str, Sequence[str]]  # of systems


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two systems that are compared. title: of the second one."""

    baseline: str
    system: str
    title: str


def gain_analyses(table: Table, controls: Controls, scored: Sequence[Gains]) -> Iterator[Analysis]:
    """Yield the part; none without systems to compare."""
    if tables := length_tables(scored, _pairs(table, controls)):
        yield Analysis(heading="Gains by length of the source", text=_TEXT, tables=tables)


def control_analyses(table: Table, controls: Controls, scored: Sequence[Gains]) -> Iterator[Analysis]:
    """Yield the part about systems beside their controls; none without any."""
    tables, titles = [], dict(table.systems)
    for one in scored:
        heading, decimals = _SHOWN[one.metric]
        rows = [
            [titles[system], titles[control], _gain(tested, decimals, undecided(len(one.words)))]
            for system, of_system in controls.items()
            for control in of_system
            if {system, control} <= one.of_systems.keys()
            for tested in one.of(control, system, joint=[ALL]).joint.values()
        ]
        if rows:
            headings = ["System", "Control", f"Difference in {heading}"]
            tables.append(TextTable(caption=one.name, headings=headings, rows=rows))
    if tables:
        yield Analysis(heading="Systems beside their controls", text=_TEXT_ON_CONTROLS, tables=tables)


def contrast_analyses(table: Table, controls: Controls, decided: Iterable[DecidedPairs]) -> Iterator[Analysis]:
    """Yield the part about contrastive pairs; none without systems to compare."""
    if tables := distance_tables(decided, _pairs(table, controls)):
        yield Analysis(heading="Gains on contrastive pairs by distance", text=_TEXT_ON_PAIRS, tables=tables)


def _pairs(table: Table, controls: Controls) -> list[Pair]:
    """Each system with its baseline, and then with its controls."""
    titles, found = dict(table.systems), []
    for system, title in table.systems:
        if (baseline := table.baselines.get(system, system)) != system:
            found.append(Pair(baseline=baseline, system=system, title=title))
        for control in controls.get(system, ()):
            found.append(Pair(baseline=control, system=system, title=f"{title}, beside {titles[control]}"))
    return found


def length_tables(scored: Iterable[Gains], pairs: Sequence[Pair]) -> list[TextTable]:
    """A table of gains by length for each test set and metric that has a pair of systems.

    Quarters of the sentences come before the groups of `LENGTHS`.
    """
    tables = []
    for one in scored:
        groups, joint = quarters(one.words), groups_up_to(LENGTHS)
        gains = {
            pair.title: one.of(pair.baseline, pair.system, groups=groups, joint=joint)
            for pair in pairs
            if {pair.baseline, pair.system} <= one.of_systems.keys()
        }
        if gains:
            heading, decimals = _SHOWN[one.metric]
            caption = f"{one.name}; difference in {heading}"
            tables.append(_table_of_gains(caption, gains, unit="sentences", decimals=decimals))
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
            caption = f"{one.name}, {kind}; difference in percent"
            tables.append(_table_of_gains(caption, gains, unit="pairs", decimals=1))
    return tables


def _table_of_gains(caption: str, gains: Mapping[str, GainByLength], *, unit: str, decimals: int) -> TextTable:
    """The table of the gains of systems, by title. unit: of what groups consist of."""
    first = next(iter(gains.values()))
    groups = [f"{one.name} ({one.sentences:,})" for one in (*first.groups, *first.joint)]
    rows = []
    for title, gain in gains.items():
        of_groups = ((group.sentences, tested) for group, tested in (*gain.groups.items(), *gain.joint.items()))
        tested = [*of_groups, (sum(group.sentences for group in gain.groups), gain.slope)]
        rows.append([title, *(_gain(found, decimals, undecided(items, unit)) for items, found in tested)])
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _gain(found: MetricComparison | None, decimals: int, too_few: str) -> str:
    if found is None:
        return "–"
    shown, p_value, power = found.difference, found.p_value, found.power
    decimals = decimals_of(shown.value, p_value, decimals)
    text = f"{shown.value:+.{decimals}f} [{shown.low:+.{decimals}f}, {shown.high:+.{decimals}f}]"
    if too_few:
        return f"{text}, {too_few}"
    if p_value is not None:
        text += f", p {p_text(p_value)}"
    if power is not None and power.deviation and not mark_of(p_value):
        needed = "" if power.seeds_needed is None else f", or with {power.seeds_needed:,} trainings"
        text += f" ({power.detectable:.{decimals}f} would show{needed})"
    return text


PLACE_NAMES: dict[AttentionPlace, str] = {
    "enc_self": "encoder, itself",
    "enc_phrases": "encoder, phrases",
    "dec_self": "decoder, itself",
    "dec_phrases": "decoder, phrases",
    "cross": "decoder, source",
}
# Headings of the perplexities of a model without some of its attentions, by the name of the measurement.
WITHOUT = {
    "perplexity_without_phrases": "Without phrases",
    "perplexity_without_encoder_phrases": "Without phrases in the encoder",
    "perplexity_without_decoder_phrases": "Without phrases in the decoder",
    "perplexity_without_source_attention": "Without source tokens in the decoder",
}
Label = Callable[[AttentionAnalysis], str]  # the name of a training


def attention_analyses(analyses: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Iterator[Analysis]:
    """Yield the parts. titles: of systems, in their order."""
    order = list(titles)
    files = sorted(analyses, key=lambda file: order.index(file.system))
    several = len({file.seed for file in files}) > 1

    def label(file: AttentionAnalysis) -> str:
        return f"{titles[file.system]}, seed {file.seed}" if several else titles[file.system]

    if files:
        yield _perplexities(files, label)
    if with_phrases := [file for file in files if any(len(one.mass) > 1 for one in file.attentions)]:
        yield _masses(with_phrases, label)


def _by_test_set(files: Iterable[AttentionAnalysis]) -> dict[str, list[AttentionAnalysis]]:
    found: dict[str, list[AttentionAnalysis]] = {}
    for file in files:
        found.setdefault(f"{file.dataset}, {file.test_set}", []).append(file)
    return found


def _perplexities(files: Sequence[AttentionAnalysis], label: Label) -> Analysis:
    """Perplexities; beside them those without phrases, if a model measures them."""
    columns = {key: name for key, name in WITHOUT.items() if any(key in file.diagnostics for file in files)}
    headings = ["System", "Perplexity", *columns.values()]
    tables = []
    for caption, of_test_set in _by_test_set(files).items():
        rows = [
            [label(file), f"{file.perplexity:.3f}", *(_without(file, file.diagnostics.get(key)) for key in columns)]
            for file in of_test_set
        ]
        tables.append(TextTable(caption=caption, headings=headings, rows=rows))
    text = "Perplexity per token of the references by forced decoding."
    if not columns:
        return Analysis(heading="Perplexity of the references", text=text, tables=tables)
    text += (
        " Without phrases: what every position attends to among the phrases is replaced by its mean over all positions "
        "of the test set, in all layers, or in the encoder or the decoder only; without source tokens: likewise what "
        "the decoder attends to among the tokens of the source. A model whose perplexity hardly rises makes no use of "
        "them."
    )
    return Analysis(heading="Do the models use their phrases?", text=text, tables=tables)


def _without(file: AttentionAnalysis, perplexity: float | None) -> str:
    if perplexity is None:
        return "–"
    return f"{perplexity:.3f} ({100 * (perplexity / file.perplexity - 1):+.1f} %)"


def _masses(files: Sequence[AttentionAnalysis], label: Label) -> Analysis:
    drawings = []
    for file in files:
        found = [one for one in file.attentions if len(one.mass) > 1]
        layers = sorted({one.layer for one in found})
        series = []
        for place in dict.fromkeys(one.place for one in found):
            of_place = [one for one in found if one.place == place]
            on_phrases = [[100 * sum(head[1:]) for head in one.heads] for one in of_place]
            series.append(
                Series(
                    group=PLACE_NAMES[place],
                    x=[layers.index(one.layer) for one in of_place],
                    y=[one.phrase_mass for one in of_place],
                    low=list(map(min, on_phrases)),
                    high=list(map(max, on_phrases)),
                )
            )
        mean = round(fmean(one.phrase_mass for one in found), 1)
        chances = [one.even_phrase_mass for one in found]
        even_mean = "" if None in chances else f" (even: {fmean(one for one in chances if one is not None):.1f} %)"
        name = f"{label(file)}, {file.dataset} {file.test_set}"
        drawings.append(
            draw_categories(
                list(map(str, layers)),
                series,
                title=f"{name}: {mean:.1f} % on n-grams{even_mean}",
                x_label="layer",
                y_label="attention on n-grams, %",
            )
        )
    text = (
        "Share of attention that n-grams of two or more tokens have, mean over the positions of the test set and the "
        "heads; bars reach from the head with the smallest share to the one with the largest. Even: the share if all "
        "tokens and n-grams that a position may use had the same weight, as in a model that has learned nothing."
    )
    return Analysis(heading="Attention on n-grams by layer", text=text, drawings=drawings)
