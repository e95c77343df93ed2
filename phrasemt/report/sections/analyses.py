"""What was measured beyond scores, a section for each: from the artefacts of one stage.

Gains over the baseline by length of the source and by distance of words that must agree (Xu et al. 2020, Figures 3 and
4), what models attend to, and the perplexity without phrases. Attention on single sentences is in the section
"Sentences". Groups of fewer than `FEWEST` sentences or pairs are left out: their intervals are too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.artefacts.table import Block, Table
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.files.attention import AttentionPlace
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Section, TextTable, fill
from phrasemt.report.summary import pairs_of, system_order
from phrasemt.scoring.gains import (
    ALL,
    BLEU,
    DISTANCES,
    LENGTHS,
    MORE_THAN_10,
    Bounds,
    GainByLength,
    Gains,
    groups_up_to,
    quarters,
)
from phrasemt.scoring.scores import NATS
from phrasemt.scoring.significance import FEWEST, decimals_of, p_text


def _section(
    anchor: str, heading: str, finding: str, text: str, tables: Sequence[TextTable], drawings: Sequence[Drawing] = ()
) -> Section:
    content = fill("sections/analyses.html", anchor=anchor, text=text, tables=tables, drawings=drawings)
    return Section(anchor=anchor, heading=heading, finding=finding, content=content)


# heading and decimals of a metric; the results have its signature
_SHOWN = {BLEU: ("BLEU tok", 2), NATS: ("nats per token", 3)}
_TEXT = (
    "Differences to the baseline in quarters of the sentences by the number of words in the source, then in fixed "
    "groups, with 95 % intervals. Slope: how much the gain grows when the source has twice as many words, over the "
    "quarters; above 0, longer sentences gain more. In nats per token of the references less is better."
)
_TEXT_ON_PAIRS = (
    "Percentage of contrastive pairs that are decided right (95 % intervals of Wilson 1927, as if each pair stood "
    "alone; chance is 50 %), and differences to the baseline, whose tests draw whole clusters of pairs, by the "
    "distance of the two words that must agree. Slope: how much the gain grows for twice the distance."
)
_TEXT_ON_CONTROLS = (
    "What a gain comes from: the system minus each of its controls, with 95 % intervals. In nats per token of the "
    "references less is better."
)
_TESTED = " p: of the paired test of sentences and trainings, not corrected."
_FEW = f" Groups of fewer than {FEWEST} are left out."


Controls = Mapping[str, Sequence[str]]  # of systems
Pair = tuple[str, str]  # a baseline or control, and the system that is compared with it


def lengths_section(table: Table, controls: Controls, scored: Sequence[Gains]) -> Section | None:
    """Make the section; None without systems to compare on enough sentences."""
    pairs = _pairs(table, controls)
    drawings, tables, slopes = [], [], []
    for one in scored:
        groups, joint = one.large(quarters(one.words)), one.large(groups_up_to(LENGTHS))
        gains = _gains(one, pairs, groups, joint) if groups else {}
        if gains:
            heading, decimals = _SHOWN[one.metric]
            tables.append(_table_of_gains(f"{one.name}; difference in {heading}", gains, decimals=decimals))
            if one.metric == BLEU:
                drawings.append(_gains_by_length(one.name, gains, table))
                slopes += [(title, gain.slope) for title, gain in gains.items() if gain.slope]
    if not tables:
        return None
    text = _TEXT + (_TESTED if _tested(tables) else "") + _FEW
    finding = _trends(slopes, "BLEU per doubling of the length")
    return _section("lengths", "Gain by sentence length", finding, text, tables, drawings)


def _gains(
    of: Gains, pairs: Mapping[str, Pair], groups: Sequence[Bounds], joint: Sequence[Bounds]
) -> dict[str, GainByLength]:
    """The gains by the titles of pairs, of those that have scores."""
    return {
        title: of.of(*pair, groups=groups, joint=joint)
        for title, pair in pairs.items()
        if set(pair) <= of.of_systems.keys()
    }


def _gains_by_length(name: str, gains: Mapping[str, GainByLength], table: Table) -> Drawing:
    titles = system_order(table)
    series = []
    for title in (title for title in titles if title in gains):
        shown = list(gains[title].groups.values())
        y, low, high = ([getattr(one.difference, end) for one in shown] for end in ("value", "low", "high"))
        hollow = any(one.p_value is None for one in shown)
        series.append(Series(group=title, x=range(len(shown)), y=y, low=low, high=high, hollow=hollow))
    groups = next(iter(gains.values())).groups
    return draw_categories(
        [f"{group.name} ({group.sentences:,})" for group in groups],
        series,
        title=f"{name}: gain by length",
        x_label="words in the source (sentences)",
        y_label="gain in BLEU tok",
        systems=titles,
    )


def _trends(slopes: Sequence[tuple[str, MetricComparison]], unit: str) -> str:
    """What the slopes show: no trend where 0 lies in the interval. Slopes of one training are not tested."""
    if not slopes:
        return "too few groups for a trend"
    texts = []
    for title, slope in slopes:
        shown, tested = slope.difference, slope.p_value is not None
        interval = shown.text(1, f" {unit}")
        trend = "no trend" if shown.low <= 0 <= shown.high else "grows" if shown.value > 0 else "falls"
        texts.append(f"{title}: {trend}, {interval}" if tested else f"{title}: {interval}, not tested")
    return "; ".join(texts[:2]) + (f"; and {len(texts) - 2} more" if len(texts) > 2 else "")


def controls_section(table: Table, controls: Controls, scored: Sequence[Gains]) -> Section | None:
    """Make the section about systems beside their controls; None without any."""
    tables, titles = [], dict(table.systems)
    for one in (one for one in scored if len(one.words) >= FEWEST):
        heading, decimals = _SHOWN[one.metric]
        rows = [
            [titles[system], titles[control], _gain(tested, decimals)]
            for system, of_system in controls.items()
            for control in of_system
            if {system, control} <= one.of_systems.keys()
            for tested in one.of(control, system, joint=[ALL]).joint.values()
        ]
        if rows:
            headings = ["System", "Control", f"Difference in {heading}"]
            tables.append(TextTable(caption=one.name, headings=headings, rows=rows))
    if not tables:
        return None
    (system, control, gain), *others = tables[0].rows
    finding = f"{system} minus {control}: {gain}" + (f"; and {len(others)} more" if others else "")
    text = _TEXT_ON_CONTROLS + (_TESTED if _tested(tables) else "")
    return _section("controls", "Systems beside their controls", finding, text, tables)


def _tested(tables: Iterable[TextTable]) -> bool:
    return any(", p " in cell for table in tables for row in table.rows for cell in row)


def pairs_section(table: Table, controls: Controls, decided: Iterable[Gains]) -> Section | None:
    """Make the section about contrastive pairs; None without any. decided: of each set and each kind of mistake."""
    blocks = [block for block in table.blocks if block.contrast_set is not None]
    if not blocks:
        return None
    tables, compared = [], _pairs(table, controls)
    for one in decided:
        groups, joint = one.large(DISTANCES), one.large((MORE_THAN_10, ALL))
        if joint and (gains := _gains(one, compared, groups, joint)):
            tables.append(_table_of_gains(f"{one.name}; difference in percent", gains, decimals=1))
    drawings = [drawing for block in blocks for drawing in _accuracies(block, table)]
    right = [row.cells["all"].value for row in blocks[0].rows]
    shares = " to ".join(dict.fromkeys(f"{share:.1f}" for share in (min(right), max(right))))
    finding = f"{shares} % of {blocks[0].size:,} pairs right; chance is 50 %"
    text = _TEXT_ON_PAIRS + (_TESTED if _tested(tables) else "") + _FEW
    return _section("pairs", "Agreement by distance", finding, text, tables, drawings)


def _accuracies(block: Block, table: Table) -> Iterator[Drawing]:
    """Draw the accuracies of a block of contrastive pairs by distance or by kind of mistake, in large groups."""
    of_one = f"{block.mistake} " if block.mistake else ""
    pairs = {group: pairs_of(block, group) for group in block.rows[0].cells}
    groups = [key for key, size in pairs.items() if key != f"{of_one}all" and size >= FEWEST]
    if not groups:
        return
    order = system_order(table)
    series = []
    for row in sorted(block.rows, key=lambda row: order.index(row.title)):
        cells = [row.cells[group] for group in groups]
        low, high = ([getattr(cell, end) or 0.0 for cell in cells] for end in ("low", "high"))
        hollow = len(cells[0].by_seed or {}) == 1
        y = [cell.value for cell in cells]
        series.append(Series(group=row.title, x=range(len(groups)), y=y, low=low, high=high, hollow=hollow))
    place = ", ".join(filter(None, (block.dataset, block.contrast_set, block.mistake)))
    yield draw_categories(
        [f"{group.removeprefix(of_one)} ({pairs[group]:,})" for group in groups],
        series,
        title=f"{place}: accuracy on contrastive pairs",
        x_label="kind of mistake (pairs)" if block.kind == "mistakes" else "distance in words (pairs)",
        y_label="accuracy, %",
        ordered=block.kind == "contrasts",
        systems=order,
    )


def _pairs(table: Table, controls: Controls) -> dict[str, Pair]:
    """Each system with its baseline, and then with its controls, by the title of its row."""
    titles, compared = dict(table.systems), {}
    for system, title in table.systems:
        if (baseline := table.baselines.get(system, system)) != system:
            compared[title] = baseline, system
        for control in controls.get(system, ()):
            compared[f"{title}, beside {titles[control]}"] = control, system
    return compared


def _table_of_gains(caption: str, gains: Mapping[str, GainByLength], *, decimals: int) -> TextTable:
    """The table of the gains of systems, by title."""
    first = next(iter(gains.values()))
    groups = [f"{one.name} ({one.sentences:,})" for one in (*first.groups, *first.joint)]
    rows = []
    for title, gain in gains.items():
        tested = [*gain.groups.values(), *gain.joint.values(), gain.slope]
        rows.append([title, *(_gain(found, decimals) for found in tested)])
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _gain(found: MetricComparison | None, decimals: int) -> str:
    if found is None:
        return "–"
    shown, p_value = found.difference, found.p_value
    text = shown.text(decimals_of(shown.value, p_value, decimals))
    return text if p_value is None else f"{text}, p {p_text(p_value)}"


PLACE_NAMES: dict[AttentionPlace, str] = {
    "enc_self": "encoder, itself",
    "enc_phrases": "encoder, phrases",
    "dec_self": "decoder, itself",
    "dec_phrases": "decoder, phrases",
    "cross": "decoder, source",
}
WHOLE = "perplexity_without_phrases"
# Headings of the perplexities of a model without some of its attentions, by the name of the measurement.
WITHOUT = {
    WHOLE: "Without phrases",
    "perplexity_without_encoder_phrases": "Without phrases in the encoder",
    "perplexity_without_decoder_phrases": "Without phrases in the decoder",
    "perplexity_without_source_attention": "Without source tokens in the decoder",
}
Label = Callable[[AttentionAnalysis], str]  # the name of a training


def attention_sections(analyses: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Iterator[Section]:
    """Yield the sections. titles: of systems, in their order."""
    order = list(titles)
    files = sorted(analyses, key=lambda file: order.index(file.system))
    several = len({file.seed for file in files}) > 1

    def label(file: AttentionAnalysis) -> str:
        return f"{titles[file.system]}, seed {file.seed}" if several else titles[file.system]

    if files:
        yield _perplexities(files, label)
    if with_phrases := [file for file in files if any(len(one.mass) > 1 for one in file.attentions)]:
        yield _masses(with_phrases, label)


def _perplexities(files: Sequence[AttentionAnalysis], label: Label) -> Section:
    """Perplexities; beside them those without phrases, if a model measures them."""
    columns = {key: name for key, name in WITHOUT.items() if any(key in file.diagnostics for file in files)}
    headings = ["System", "Perplexity", *columns.values()]
    tables, by_test_set = [], dict[str, list[AttentionAnalysis]]()
    for file in files:
        by_test_set.setdefault(f"{file.dataset}, {file.test_set}", []).append(file)
    for caption, of_test_set in by_test_set.items():
        rows = [
            [label(file), f"{file.perplexity:.3f}", *(_without(file, file.diagnostics.get(key)) for key in columns)]
            for file in of_test_set
        ]
        tables.append(TextTable(caption=caption, headings=headings, rows=rows))
    text = "Perplexity per token of the references by forced decoding."
    if not columns:
        caption, of_test_set = next(iter(by_test_set.items()))
        lowest = min(of_test_set, key=lambda file: file.perplexity)
        finding = f"lowest on {caption}: {lowest.perplexity:.2f}, {label(lowest)}"
        return _section("phrases", "Perplexity of the references", finding, text, tables)
    text += (
        " Without phrases: what every position attends to among the phrases is replaced by its mean over all positions "
        "of the test set, in all layers, or in the encoder or the decoder only; without source tokens: likewise what "
        "the decoder attends to among the tokens of the source. A model whose perplexity hardly rises makes no use of "
        "them."
    )
    rises = [
        100 * (file.diagnostics[key] / file.perplexity - 1) for file in files if (key := WHOLE) in file.diagnostics
    ]
    shown = " to ".join(dict.fromkeys(f"{rise:.0f}" for rise in (min(rises), max(rises)))) if rises else ""
    finding = f"without them, test perplexity rises by {shown} %" if rises else "perplexity without parts of the models"
    return _section("phrases", "Do the models use their phrases?", finding, text, tables)


def _without(file: AttentionAnalysis, perplexity: float | None) -> str:
    if perplexity is None:
        return "–"
    return f"{perplexity:.3f} ({100 * (perplexity / file.perplexity - 1):+.1f} %)"


def _masses(files: Sequence[AttentionAnalysis], label: Label) -> Section:
    drawings, means = [], []
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
        means.append(mean)
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
    shares = " to ".join(dict.fromkeys(f"{mean:.0f}" for mean in (min(means), max(means))))
    finding = f"{shares} % of attention is on n-grams"
    return _section("attention", "Attention on n-grams by layer", finding, text, [], drawings)
