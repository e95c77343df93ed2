"""The section "Analyses": what was measured beyond scores, each part from the artefact of one stage.

BLEU and gains over the baseline by length of the source, gains by distance of words that must agree (Xu et al. 2020,
Figures 3 and 4), and what models attend to: n-grams by layer and maps of one sentence (phrasal attention, Figures 2
and 3), chunks and their alignments (Zhou et al. 2017, Figure 2), and the perplexity without phrases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from phrasemt.artefacts.scores import GainByLength, LengthGroup, LengthScores, LengthsOnTestSet, MetricComparison
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import AttentionAnalysis, AttentionWeights
from phrasemt.files.attention import AttentionPlace, ForcedSentence, read_forced
from phrasemt.files.lines import sentence_name
from phrasemt.report.figures import Drawing, Panel, Series, draw_categories, draw_heat_map
from phrasemt.report.page import Analysis, Section, TextTable, fill
from phrasemt.scoring.gains import ALL, BLEU, DISTANCES, MORE_THAN_10, NATS, DecidedPairs, Gains, groups_up_to, quarters
from phrasemt.scoring.significance import decimals_of, mark_of, p_text, undecided
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
        y, low, high = ([getattr(bleu, end) for bleu in estimates] for end in ("value", "low", "high"))
        series.append(Series(group=title, x=range(len(shown)), y=y, low=low, high=high))
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
    if tables := length_tables(scored, _pairs(table), settings.lengths):
        yield Analysis(heading="Gains by length of the source", text=_TEXT, tables=tables)


def contrast_analyses(table: Table, decided: Iterable[DecidedPairs]) -> Iterator[Analysis]:
    """Yield the part about contrastive pairs; none without systems to compare."""
    if tables := distance_tables(decided, _pairs(table)):
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
        of_groups = ((group.comparison, group.sentences) for group in (*gain.groups, *gain.joint))
        tested = [*of_groups, (gain.slope, sum(group.sentences for group in gain.groups))]
        rows.append([title, *(_gain(found, decimals, undecided(items, unit)) for found, items in tested)])
    return TextTable(caption=caption, headings=["System", *groups, "Slope"], rows=rows)


def _gain(found: MetricComparison | None, decimals: int, too_few: str) -> str:
    if found is None:
        return "–"
    shown, p_value, power = found.shown, found.p_values.over_seeds, found.over_seeds
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
_READABLE = 25  # subwords of a sentence whose map can be read
Label = Callable[[AttentionAnalysis], str]  # the name of a training


def attention_analyses(
    analyses: Sequence[Path], attention: Sequence[Path], titles: Mapping[str, str]
) -> Iterator[Analysis]:
    """Yield the parts. analyses, attention: files of `analyse_attention`. titles: of systems, in their order."""
    order = list(titles)
    files = sorted(map(AttentionAnalysis.read, analyses), key=lambda file: order.index(file.system))
    several = len({file.seed for file in files}) > 1

    def label(file: AttentionAnalysis) -> str:
        return f"{titles[file.system]}, seed {file.seed}" if several else titles[file.system]

    if files:
        yield _perplexities(files, label)
    if with_phrases := [file for file in files if any(len(one.mass) > 1 for one in file.attentions)]:
        yield _masses(with_phrases, label)
    if with_attention := [file for file in files if file.attentions]:
        yield _entropies(with_attention, label)
    if mixtures := list(_mixtures(files, label)):
        text = (
            "The weights with which each decoder layer mixes the levels of the encoder (Xu et al. 2020, Eq. 6). Level "
            "0 is the embedding, the others are the outputs of the encoder layers. The strength of a cell is the "
            "square root of its weight."
        )
        yield Analysis(heading="Levels of the encoder by decoder layer", text=text, drawings=mixtures)
    if maps := list(_maps(attention, titles)):
        text = (
            "The decoder's attention to the source while it predicts the reference, mean over the heads. Each row is a "
            "token of the target; the strength of a cell is the square root of its weight. Of attention to n-grams, "
            "the right half shows n-grams of two or more tokens at their last token. Of chunk-based decoders, lines "
            "separate the chunks of the reference, and each chunk attends once. All heads, layers and places stand in "
            "the files of analyse_attention."
        )
        yield Analysis(heading="Attention on one sentence", text=text, drawings=maps)


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
    drawings, tables = [], []
    for file in files:
        found = [one for one in file.attentions if len(one.mass) > 1]
        layers = sorted({one.layer for one in found})
        series, rows = [], []
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
            for one in of_place:
                rows.append([f"{PLACE_NAMES[place]}, layer {one.layer}", *(f"{100 * part:.1f}" for part in one.mass)])
        mean = round(sum(one.phrase_mass for one in found) / len(found), 1)
        name = f"{label(file)}, {file.dataset} {file.test_set}"
        drawings.append(
            draw_categories(
                f"mass-{file.system}-{file.seed}-{file.dataset}-{file.test_set}",
                list(map(str, layers)),
                series,
                title=f"{name}: {mean:.1f} % on n-grams",
                x_label="layer",
                y_label="attention on n-grams, %",
            )
        )
        orders = max(len(one.mass) for one in found)
        headings = [name, "tokens", *(f"{order}-grams" for order in range(2, orders + 1))]
        tables.append(TextTable(caption="Share of attention by order, percent", headings=headings, rows=rows))
    text = (
        "Share of attention that n-grams of two or more tokens have, mean over the positions of the test set and the "
        "heads; bars reach from the head with the smallest share to the one with the largest."
    )
    return Analysis(heading="Attention on n-grams by layer", text=text, drawings=drawings, tables=tables)


def _entropies(files: Sequence[AttentionAnalysis], label: Label) -> Analysis:
    tables = []
    for caption, of_test_set in _by_test_set(files).items():
        known = {one.place for file in of_test_set for one in file.attentions}
        places = [place for place in PLACE_NAMES if place in known]
        rows = [[label(file), *(_keys_attended(file, place) for place in places)] for file in of_test_set]
        headings = ["System", *(PLACE_NAMES[place] for place in places)]
        tables.append(TextTable(caption=caption, headings=headings, rows=rows))
    text = (
        "How many keys a position attends to: e to the mean entropy of its weights, of the keys that it may use (mean "
        "over positions, heads and layers). A smaller number means a more decided attention."
    )
    return Analysis(heading="How decided attention is", text=text, tables=tables)


def _keys_attended(file: AttentionAnalysis, place: AttentionPlace) -> str:
    of_place = [one for one in file.attentions if one.place == place]
    if not of_place:
        return "–"
    return f"{math.exp(fmean(one.entropy for one in of_place)):.1f} of {fmean(one.keys for one in of_place):.1f}"


def _mixtures(files: Sequence[AttentionAnalysis], label: Label) -> Iterator[Drawing]:
    """Draw the mixtures of each training once: those of all its test sets are the same weights."""
    trainings = {(file.dataset, file.system, file.seed): file for file in files if file.mixtures}
    for file in trainings.values():
        panels = [
            Panel(
                title=name,
                weights_QK=np.array(weights_LJ, np.float32).T,
                columns=[f"level {level}" for level in range(len(weights_LJ))],
            )
            for name, weights_LJ in file.mixtures.items()
        ]
        rows = [f"layer {layer}" for layer, _ in enumerate(panels[0].weights_QK, start=1)]
        yield draw_heat_map(title=f"{label(file)}, {file.dataset}", rows=rows, panels=panels)


def _maps(paths: Sequence[Path], titles: Mapping[str, str]) -> Iterator[Drawing]:
    """Draw the attention to the source of each system, with its first seed, on a sentence of each test set."""
    first: dict[tuple[str, str, int], Path] = {}  # by data set, test set and place of the system
    for path in paths:
        names = AttentionWeights.pattern.names(path)
        first.setdefault((names["dataset"], names["split"], list(titles).index(names["system"])), path)
    for (dataset, test_set, place), path in sorted(first.items()):
        if sentences := read_forced(path):
            # The first pair that is not too long, or else the shortest one.
            by_length = sorted(sentences, key=lambda one: len(one.source) + len(one.target))
            short = (one for one in sentences if max(len(one.source), len(one.target)) <= _READABLE)
            sentence = next(short, by_length[0])
            where = f"{list(titles.values())[place]}, {dataset} {sentence_name(test_set, sentence.row)}"
            yield from _maps_of(sentence, where)


def _maps_of(sentence: ForcedSentence, where: str) -> Iterator[Drawing]:
    starts = [place for place, start in enumerate(sentence.chunk_starts) if start and place]
    rows = sentence.target
    if sentence.chunk_labels:
        chunks = zip(sentence.chunk_labels, sentence.chunk_starts, rows, strict=True)
        rows = [f"{label} {token}" if start else token for label, start, token in chunks]
    for one in (one for one in sentence.attentions if one.place == "cross"):
        weights_TNS = one.weights_hTNS.mean(0)
        panels = [Panel(title="tokens", weights_QK=weights_TNS[:, 0], columns=sentence.source)]
        if weights_TNS.shape[1] > 1:
            panels.append(Panel(title="n-grams", weights_QK=weights_TNS[:, 1:].sum(1), columns=sentence.source))
        yield draw_heat_map(title=f"{where}, layer {one.layer}", rows=rows, panels=panels, groups=starts)
