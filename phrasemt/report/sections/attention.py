"""What models attend to, and whether they use their phrases: parts of the section "Analyses".

Shares of n-grams by layer and maps of one sentence (phrasal attention, Figures 2 and 3), chunks and their alignments
(Zhou et al. 2017, Figure 2), and the perplexity without phrases.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from phrasemt.artefacts.translations import AttentionAnalysis, AttentionWeights
from phrasemt.files.attention import AttentionPlace, ForcedSentence, read_forced
from phrasemt.files.lines import sentence_name
from phrasemt.report.figures import Drawing, Panel, Series, draw_categories, draw_heat_map
from phrasemt.report.page import Analysis, TextTable

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
# A sentence with more subwords makes an unreadable map.
_READABLE = 25


def attention_analyses(
    analyses: Sequence[Path], attention: Sequence[Path], titles: Mapping[str, str]
) -> Iterator[Analysis]:
    """Yield the parts. analyses, attention: files of `analyse_attention`. titles: of systems, in their order."""
    order = list(titles)
    files = sorted((AttentionAnalysis.read(path) for path in analyses), key=lambda f: order.index(f.system))
    if files:
        yield _perplexities(files, titles)
    if any(len(one.mass) > 1 for file in files for one in file.attentions):
        yield _masses(files, titles)
    if with_attention := [file for file in files if file.attentions]:
        yield _entropies(with_attention, titles)
    if mixtures := list(_mixtures(files, titles)):
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


def _places(files: Iterable[AttentionAnalysis]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((file.dataset, file.test_set) for file in files))


def _label(file: AttentionAnalysis, titles: Mapping[str, str], seeds: bool) -> str:
    return f"{titles[file.system]}, seed {file.seed}" if seeds else titles[file.system]


def _perplexities(files: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Analysis:
    """Perplexities; beside them those without phrases, if a model measures them."""
    seeds = len({file.seed for file in files}) > 1
    columns = {key: name for key, name in WITHOUT.items() if any(key in file.diagnostics for file in files)}
    tables = []
    for dataset, test_set in _places(files):
        rows = []
        for file in files:
            if (file.dataset, file.test_set) == (dataset, test_set):
                without = [_without(file, file.diagnostics.get(key)) for key in columns]
                rows.append([_label(file, titles, seeds), f"{file.perplexity:.3f}", *without])
        headings = ["System", "Perplexity", *columns.values()]
        tables.append(TextTable(caption=f"{dataset}, {test_set}", headings=headings, rows=rows))
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


def _masses(files: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Analysis:
    seeds = len({file.seed for file in files}) > 1
    drawings, tables = [], []
    for file in files:
        found = [one for one in file.attentions if len(one.mass) > 1]
        if not found:
            continue
        layers = sorted({one.layer for one in found})
        label = f"{_label(file, titles, seeds)}, {file.dataset} {file.test_set}"
        series = []
        rows = []
        for place in dict.fromkeys(one.place for one in found):
            of_place = {one.layer: one for one in found if one.place == place}
            series.append(
                Series(
                    group=PLACE_NAMES[place],
                    x=[layers.index(layer) for layer in of_place],
                    y=[one.phrase_mass for one in of_place.values()],
                    low=[100 * min(sum(head[1:]) for head in one.heads) for one in of_place.values()],
                    high=[100 * max(sum(head[1:]) for head in one.heads) for one in of_place.values()],
                )
            )
            rows += [
                [f"{PLACE_NAMES[place]}, layer {one.layer}", *(f"{100 * share:.1f}" for share in one.mass)]
                for one in of_place.values()
            ]
        mean = round(sum(one.phrase_mass for one in found) / len(found), 1)
        name = f"mass-{file.system}-{file.seed}-{file.dataset}-{file.test_set}"
        drawings.append(
            draw_categories(
                name,
                [str(layer) for layer in layers],
                series,
                title=f"{label}: {mean:.1f} % on n-grams",
                x_label="layer",
                y_label="attention on n-grams, %",
            )
        )
        orders = max(len(one.mass) for one in found)
        headings = [label, "tokens", *(f"{order}-grams" for order in range(2, orders + 1))]
        tables.append(TextTable(caption="Share of attention by order, percent", headings=headings, rows=rows))
    text = (
        "Share of attention that n-grams of two or more tokens have, mean over the positions of the test set and the "
        "heads; bars reach from the head with the smallest share to the one with the largest."
    )
    return Analysis(heading="Attention on n-grams by layer", text=text, drawings=drawings, tables=tables)


def _entropies(files: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Analysis:
    seeds = len({file.seed for file in files}) > 1
    tables = []
    for dataset, test_set in _places(files):
        chosen = [file for file in files if (file.dataset, file.test_set) == (dataset, test_set)]
        places = [
            place for place in PLACE_NAMES if any(one.place == place for file in chosen for one in file.attentions)
        ]
        rows = []
        for file in chosen:
            cells = []
            for place in places:
                of_place = [one for one in file.attentions if one.place == place]
                entropy, keys = (
                    sum(getattr(one, key) for one in of_place) / max(len(of_place), 1) for key in ("entropy", "keys")
                )
                cells.append(f"{np.exp(entropy):.1f} of {keys:.1f}" if of_place else "–")
            rows.append([_label(file, titles, seeds), *cells])
        headings = ["System", *(PLACE_NAMES[place] for place in places)]
        tables.append(TextTable(caption=f"{dataset}, {test_set}", headings=headings, rows=rows))
    text = (
        "How many keys a position attends to: e to the mean entropy of its weights, of the keys that it may use (mean "
        "over positions, heads and layers). A smaller number means a more decided attention."
    )
    return Analysis(heading="How decided attention is", text=text, tables=tables)


def _mixtures(files: Sequence[AttentionAnalysis], titles: Mapping[str, str]) -> Iterator[Drawing]:
    """Draw the mixtures of each training once: those of all its test sets are the same weights."""
    seeds = len({file.seed for file in files}) > 1
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
        layers = len(panels[0].weights_QK)
        yield draw_heat_map(
            title=f"{_label(file, titles, seeds)}, {file.dataset}",
            rows=[f"layer {layer}" for layer in range(1, layers + 1)],
            panels=panels,
        )


def _maps(paths: Sequence[Path], titles: Mapping[str, str]) -> Iterator[Drawing]:
    """Draw the attention to the source of each system, with its first seed, on a sentence of each test set."""
    places = [(AttentionWeights.pattern.names(path), path) for path in paths]
    order = list(titles)
    places.sort(key=lambda place: (place[0]["dataset"], place[0]["split"], order.index(place[0]["system"])))
    for _, group in itertools.groupby(places, key=lambda place: (place[0]["dataset"], place[0]["split"])):
        shown: set[str] = set()
        for names, path in group:
            if names["system"] in shown:
                continue
            shown.add(names["system"])
            if (sentence := _readable(read_forced(path))) is not None:
                where = f"{titles[names['system']]}, {names['dataset']} {sentence_name(names['split'], sentence.row)}"
                yield from _maps_of(sentence, where)


def _readable(sentences: Sequence[ForcedSentence]) -> ForcedSentence | None:
    """The first sentence pair that is not too long, or else the shortest one."""
    by_length = sorted(sentences, key=lambda one: len(one.source) + len(one.target))
    short = [one for one in sentences if max(len(one.source), len(one.target)) <= _READABLE]
    return next(iter([*short, *by_length]), None)


def _maps_of(sentence: ForcedSentence, where: str) -> Iterator[Drawing]:
    starts = [place for place, start in enumerate(sentence.chunk_starts) if start and place]
    for one in sentence.attentions:
        if one.place != "cross":
            continue
        weights_TNS = one.weights_hTNS.mean(0)
        panels = [Panel(title="tokens", weights_QK=weights_TNS[:, 0], columns=sentence.source)]
        if weights_TNS.shape[1] > 1:
            phrases_TS = weights_TNS[:, 1:].sum(1)
            panels.append(Panel(title="n-grams", weights_QK=phrases_TS, columns=sentence.source))
        title = f"{where}, layer {one.layer}"
        rows = sentence.target
        if sentence.chunk_labels:
            rows = [
                f"{label} {token}" if start else token
                for label, start, token in zip(
                    sentence.chunk_labels, sentence.chunk_starts, sentence.target, strict=True
                )
            ]
        yield draw_heat_map(title=title, rows=rows, panels=panels, groups=starts)
