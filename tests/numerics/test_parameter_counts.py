"""Witness: closed forms written out by hand, and the counts of the papers.

The figures in millions of Xu et al. are those of their code base. It leaves out the biases just before a layer
normalisation (b2 of the feed-forward network, b4 of the combination) and normalises the embeddings. We keep those
biases, as the equations do; here they are subtracted before figures are compared, with the rounding the figures have.
docs/parameters.md has the same numbers in a table, which is computed again here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from phrasemt.models.interface import build_model
from phrasemt.study.architectures import (
    Architecture,
    Dl4mtModel,
    LanguageModel,
    PhraseRepresentationModel,
    TransformerModel,
)
from phrasemt.study.presets import PRESETS
from phrasemt.study.reading import load_study
from phrasemt.study.schema import System

BASE = {"embed_ln": True}
BIG = {"embed_ln": True, "width": 1024, "ffn_width": 4096, "heads": 16}


def count(settings: Architecture, vocabulary: int = 42_880) -> int:
    with torch.device("meta"):
        model = build_model(settings, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    return sum(parameter.numel() for parameter in model.parameters())


def body(d: int, f: int, encoder: int, decoder: int) -> int:
    attention = 4 * d * d
    ffn = (d * f + f) + (f * d + d)
    norm = 2 * d
    encoder_layer = attention + norm + ffn + norm
    decoder_layer = attention + norm + attention + norm + ffn + norm
    return encoder * encoder_layer + decoder * decoder_layer


def combinations(d: int, h_c: int, layers: int) -> int:
    return layers * (4 * d * d + (2 * d * h_c + h_c) + (h_c * d + d) + 2 * d)


def scorers(d: int, h_s: int, levels: int) -> int:
    return levels * ((2 * d * h_s + h_s) + (h_s + 1))


def test_transformer_closed_form():
    d, f, v = 512, 2048, 1000
    assert count(TransformerModel(), v) == body(d, f, 6, 6) + 2 * v * d + v
    assert count(TransformerModel(tie="all", softmax_bias=False), v) == body(d, f, 6, 6) + v * d
    assert count(TransformerModel(norm="pre"), v) == body(d, f, 6, 6) + 2 * (2 * d) + 2 * v * d + v
    assert count(TransformerModel(encoder_layers=2, decoder_layers=5), v) == body(d, f, 2, 5) + 2 * v * d + v


def without_biases_before_norms(settings: TransformerModel, vocabulary: int) -> float:
    """In millions, as the code base of Xu et al. counts."""
    d, layers = settings.width, settings.encoder_layers + settings.decoder_layers
    before_norms = 2 if isinstance(settings, PhraseRepresentationModel) else 1
    return (count(settings, vocabulary) - before_norms * layers * d) / 1e6


@pytest.mark.parametrize(
    ("settings", "vocabulary", "millions"),
    [
        (TransformerModel(**BASE), 32_000, "76.9"),
        (TransformerModel(**BASE), 42_880, "88.05"),
        (TransformerModel(**BIG), 32_000, "241.8"),
        (TransformerModel(**BIG), 42_880, "264.14"),
        (PhraseRepresentationModel(**BASE, glance="mean"), 42_880, "128.97"),
        (PhraseRepresentationModel(**BASE), 42_880, "128.97"),
        (PhraseRepresentationModel(**BASE, combine_hidden=4), 42_880, "138.4"),
        (PhraseRepresentationModel(**BASE, pool="attn"), 42_880, "132.7"),
        (PhraseRepresentationModel(**BASE, pool="attn", ta="on"), 42_880, "132.7"),
        (PhraseRepresentationModel(**BIG, pool="attn", ta="on"), 42_880, "442.5"),
    ],
)
def test_figures_of_the_paper(settings, vocabulary, millions):
    decimals = len(millions.split(".")[1])
    assert f"{without_biases_before_norms(settings, vocabulary):.{decimals}f}" == millions


def phrasal(d: int, ngrams: int, modules: int) -> int:
    """What n-grams add: for each n, n matrices for queries and n for values, in each attention."""
    return modules * sum(2 * n * d * d for n in range(2, ngrams + 1))


def relative(k: int, head_width: int, modules: int) -> int:
    """Vectors for keys and for values at the distances -k .. k, shared by the heads."""
    return modules * 2 * (2 * k + 1) * head_width


def pre_norms(d: int) -> int:
    """One more layer normalisation after each stack."""
    return 2 * (2 * d)


def language_model(d: int, f: int, layers: int) -> int:
    """A decoder's layers without attention to a source, and the layer normalisation after them."""
    return layers * (4 * d * d + 2 * d + (d * f + f) + (f * d + d) + 2 * d) + 2 * d


def gru(inputs: int, h: int) -> int:
    return 3 * (h * inputs + h * h + h)


def attention_energies(query: int, c: int, a: int) -> int:
    """Parameters of v . tanh(Wa u + Ua h + b) + c."""
    return query * a + c * a + a + a + 1


def dl4mt(e: int, h: int, v: int, layers: int = 1) -> int:
    c = 2 * h
    words = 2 * v * e + (v * e + v)
    initial = c * h + h
    upper = initial + gru(h + c, h) if layers == 2 else 0
    readout = e * (h + e + c) + e
    decoder = initial + gru(e, h) + attention_energies(h, c, 2 * h) + gru(c, h) + upper + readout
    return words + 2 * gru(e, h) + decoder


def biscale(e: int, h: int, v: int, *, context: bool = False, by_word: bool = False) -> int:
    """context: the word's cell reads [c ; p] and the readout c in place of p."""
    c, p, q, labels = 2 * h, 1000, 1000, 14
    words = 2 * v * e + (v * e + v)
    initial = (c * h + h) + (c * p + p)
    word = gru(e, h) + gru(c + p if context else p, h)
    chunk = q * h + gru(q, p) + attention_energies(h if by_word else p, c, 2 * h) + gru(c, p)
    readout = e * (h + e + (c if context else p)) + e
    boundary = (q * e + q * h + q) + (2 * q + 2)
    label = (q * p + q * q + q * c + q) + (labels * q + labels)
    return words + 2 * gru(e, h) + initial + word + chunk + readout + boundary + label


D, F, BIG_D, BIG_F = 512, 2048, 1024, 4096
XU, NG, LM, ZH = 42_880, 37_000, 32_000, 30_000


def xu(d: int, f: int, v: int = XU) -> int:
    return body(d, f, 6, 6) + 2 * v * d + v


def ng(d: int, f: int, v: int = NG) -> int:
    return body(d, f, 6, 6) + pre_norms(d) + v * d


CLOSED_FORMS = {
    "xu-base": (XU, xu(D, F)),
    "xu-big": (XU, xu(BIG_D, BIG_F)),
    "xu-paper": (XU, xu(D, F) + combinations(D, 3 * D, 12) + scorers(D, D, 7) + 7 * 6),
    "xu-paper-big": (XU, xu(BIG_D, BIG_F) + combinations(BIG_D, 3 * BIG_D, 12) + scorers(BIG_D, BIG_D, 7) + 7 * 6),
    # Two layer normalisations of embeddings, a wider combination, a second mixture.
    "xu-code": (XU, xu(D, F) + 2 * 2 * D + combinations(D, 4 * D, 12) + scorers(D, D, 7) + 2 * 7 * 6),
    "nguyen2020-base": (NG, ng(D, F)),
    "nguyen2020-big": (NG, ng(BIG_D, BIG_F)),
    "nguyen2020-shaw": (NG, ng(D, F) + relative(16, 64, 12)),
    "nguyen2020-paper": (NG, ng(D, F) + phrasal(D, 2, 18)),
    "nguyen2020-lm-base": (LM, language_model(D, F, 6) + LM * D),
    "nguyen2020-lm-shaw": (LM, language_model(D, F, 6) + LM * D + relative(16, 64, 6)),
    "nguyen2020-lm": (LM, language_model(D, F, 6) + LM * D + phrasal(D, 2, 6)),
    "zh-dl4mt": (ZH, dl4mt(620, 1000, ZH)),
    "zh-dl4mt-2": (ZH, dl4mt(620, 1000, ZH, layers=2)),
    "zh-paper": (ZH, biscale(620, 1000, ZH)),
    "zh-word": (ZH, biscale(620, 1000, ZH, context=True, by_word=True)),
    "zh-code": (ZH, biscale(600, 1000, ZH, context=True)),
}


def test_every_preset_has_a_closed_form():
    assert list(CLOSED_FORMS) == list(PRESETS)


@pytest.mark.parametrize("preset", CLOSED_FORMS)
def test_count_of_a_preset(preset):
    vocabulary, expected = CLOSED_FORMS[preset]
    assert count(System.model_validate({"preset": preset}).model, vocabulary) == expected


@pytest.mark.parametrize(
    ("attention", "in_encoder_and_decoder", "to_source"),
    [
        ({"attention": "relative", "rel_k": 3}, relative(3, 64, 12), 0),
        ({"attention": "ngrams", "ngrams": 3}, phrasal(D, 3, 12), phrasal(D, 3, 6)),
    ],
)
def test_attention_adds_as_much_to_every_family(attention, in_encoder_and_decoder, to_source):
    """Of phrase representations, attention to phrases stays as it is."""
    for family in (TransformerModel, PhraseRepresentationModel):
        assert count(family(**attention)) == count(family()) + in_encoder_and_decoder + to_source
    lm = {"family": "language_model", "layers": 12}
    assert count(LanguageModel(**lm, **attention)) == count(LanguageModel(**lm)) + in_encoder_and_decoder


@pytest.mark.parametrize(
    ("settings", "vocabulary", "millions"),
    [
        (TransformerModel(attention="relative", norm="pre", tie="all", softmax_bias=False, rel_k=20), NG, "63.11"),
        (Dl4mtModel(family="dl4mt", embedding=512, hidden=1024), ZH, "79.9"),
        (Dl4mtModel(family="dl4mt", readout="maxout"), ZH, "91.9"),
        (Dl4mtModel(family="dl4mt", attention_width=1000, readout="maxout", readout_width=500), ZH, "84.45"),
    ],
)
def test_variants_of_presets(settings, vocabulary, millions):
    assert f"{count(settings, vocabulary) / 1e6:.{len(millions.split('.')[1])}f}" == millions


ROW = re.compile(r"^\| (?P<system>[^|]+) \| `(?P<study>[^|]+)` \| (?P<sides>2 x )?(?P<vocabulary>[\d,]+) \| ")
PRINTED = {  # by the papers, in millions
    "Transformer base (Xu)": 88.1,
    "Transformer big (Xu)": 264.1,
    "+Mean": 129.0,
    "+Max": 129.0,
    "+Max +Attn": 173.0,
    "+Max +Attn +TA": 173.0,
    "+Max +Attn +TA, parsed phrases": 173.0,
    "Transformer base (NG)": 63,
    "relative positions": 63,
    "Transformer big (NG)": 214,
    "phrasal attention 1-2": 81,
    "phrasal attention 1-2-3": 110,
}


@pytest.fixture(scope="module")
def text(request: pytest.FixtureRequest) -> str:
    return (Path(request.config.rootpath) / "docs" / "parameters.md").read_text(encoding="utf-8")


STUDY = """\
study: rows
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {{train: 9, dev: 9, test: 9}}
    source_parser: english
    target_chunks: {{origin: gold}}
parsers:
  english: {{language: en, published: ptb3-revised_charlm}}
systems:
{systems}
"""


def test_the_table_of_the_docs_is_that_of_the_models(text, tmp_path):
    """Each row is read as a study says it, and counted."""
    rows = [(row, line[row.end() :]) for line in text.splitlines() if (row := ROW.match(line))]
    systems = "\n".join(f"  row{number}: {{{row['study']}}}" for number, (row, _) in enumerate(rows))
    (tmp_path / "study.yaml").write_text(STUDY.format(systems=systems))
    printed, presets = {}, set()
    for (row, cells), system in zip(rows, load_study(tmp_path / "study.yaml").systems.values(), strict=True):
        parameters, millions, paper = (cell.strip() for cell in cells.strip("|").split("|"))
        found = count(system.model, int(row["vocabulary"].replace(",", "")))
        assert (parameters, millions) == (f"{found:,}", f"{found / 1e6:.2f}"), row["system"]
        assert bool(row["sides"]) == (system.model.translates and not system.model.one_vocabulary), row["system"]
        presets.add(system.preset)
        if paper:
            printed[row["system"]] = float(paper)
    assert printed == PRINTED
    assert presets == set(PRESETS)
