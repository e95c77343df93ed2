"""Witness: multiply-adds as sums over the products of each equation, written out by hand; the expected ratios.

The pair has 27 positions on either side: six phrases of five tokens, and 18 chunks. What is counted is what the model
multiplies as matrices; sums and element-wise products are none.
"""

from __future__ import annotations

import pytest
import torch
from small_systems import PAIRWISE, SOURCE_VOCABULARY, SYSTEMS, random_model, slow_except

from phrasemt.models.cost import POSITIONS, cost_of, pair_of, parameters_of, parts_of
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import (
    BiscaleModel,
    Dl4mtModel,
    LanguageModel,
    PhraseRepresentationModel,
    PhraseSegmentation,
    TransformerModel,
)

S = T = 27
XU, NG, LM, ZH = 42_880, 37_000, 32_000, 30_000  # the papers' vocabularies, as their parameter counts have it
BIG = {"width": 1024, "heads": 16, "ffn_width": 4096}
BASE_SIZES = {"d": 512, "f": 2048}


COUNTED: dict[tuple[str, int], int] = {}


def counted(settings, vocabulary: int) -> int:
    """Multiply-adds of the whole pair; each system is counted once."""
    key = settings.canonical_json(), vocabulary
    if key not in COUNTED:
        cost = cost_of(settings, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
        COUNTED[key] = round(cost.multiply_adds * POSITIONS)
    return COUNTED[key]


def attention(queries: int, keys: int, d: int) -> int:
    """Projections of queries and outputs, of keys and values; scores and weighted sums."""
    return queries * 2 * d * d + keys * 2 * d * d + 2 * queries * keys * d


def transformer(d: int, f: int, v: int) -> int:
    encoder = attention(S, S, d) + S * 2 * d * f
    decoder = attention(T, T, d) + attention(T, S, d) + T * 2 * d * f
    return 6 * (encoder + decoder) + T * d * v


def phrase_representation(
    d: int, f: int, v: int, h_c: int, *, h_s: int = 0, dot_product: bool = False, ta: bool = False
) -> int:
    phrases = 6

    def combination(positions: int) -> int:
        return attention(positions, phrases, d) + positions * (2 * d * h_c + h_c * d)

    # W_t x, W_g g, the phrase of each token, w2. Products of phrases are with all tokens of the source; most are masked
    scorer = S * d * h_s + phrases * d * h_s + S * phrases * h_s + S * h_s
    scores = phrases * S * d if dot_product else scorer
    pooling = 7 * (scores + phrases * S * d) if scores else 0
    mixture = 7 * 6 * phrases * d if ta else 0
    return transformer(d, f, v) + 6 * (combination(S) + combination(T)) + pooling + mixture


def to_ngrams(queries: int, keys: int, d: int, ngrams: int) -> int:
    """Attention to n-grams. Each order n has n matrices of queries and n of values."""
    blocks = sum(range(1, ngrams + 1))
    projections = queries * (blocks + 1) * d * d + keys * (1 + blocks) * d * d
    return projections + sum(queries * (keys - n + 1) * (n * d + d) for n in range(1, ngrams + 1))


def added_by_ngrams(d: int, ngrams: int) -> int:
    """What attention to n-grams in all places of six layers costs more than attention to tokens."""
    return 6 * 3 * (to_ngrams(T, S, d, ngrams) - attention(T, S, d))  # S is T


def added_by_distances(d: int) -> int:
    """Products of queries with the vectors of 2T distances, and of weights with those for values, in self-attention."""
    return 6 * 2 * 2 * T * (2 * T) * d


def language_model(d: int, f: int, v: int) -> int:
    return 6 * (attention(T, T, d) + T * 2 * d * f) + T * d * v


def gru(inputs: int, h: int) -> int:
    return 3 * h * (inputs + h)


def dl4mt(e: int, h: int, v: int, layers: int = 1) -> int:
    c = a = 2 * h
    encoder = S * (2 * gru(e, h) + c * a) + layers * c * h
    attend = h * a + S * a + S * c
    upper = gru(h + c, h) if layers == 2 else 0
    return encoder + T * (gru(e, h) + attend + gru(c, h) + upper + e * (h + e + c) + e * v)


def biscale(e: int, h: int, v: int, *, updates: int, context: bool = False) -> int:
    """updates: positions at which the chunk's cells and its attention are computed."""
    c = a = 2 * h
    p = q = 1000
    boundaries, labels = 18, 14
    encoder = S * (2 * gru(e, h) + c * a) + c * h + c * p
    update = h * q + gru(q, p) + p * a + S * a + S * c + gru(c, p)
    word = gru(e, h) + gru(c + p if context else p, h) + e * (h + e + (c if context else p)) + e * v
    heads = T * (q * (e + h) + 2 * q) + boundaries * (q * (p + q + c) + labels * q)
    return encoder + T * word + updates * update + heads


@pytest.mark.parametrize(
    ("settings", "vocabulary", "expected"),
    [
        (TransformerModel(), XU, transformer(**BASE_SIZES, v=XU)),
        (TransformerModel(tie="all"), NG, transformer(**BASE_SIZES, v=NG)),
        (TransformerModel(**BIG), XU, transformer(1024, 4096, XU)),
        (PhraseRepresentationModel(), XU, phrase_representation(**BASE_SIZES, v=XU, h_c=1536)),
        (
            PhraseRepresentationModel(pool="attn", ta="on"),
            XU,
            phrase_representation(**BASE_SIZES, v=XU, h_c=1536, h_s=512, ta=True),
        ),
        (
            PhraseRepresentationModel(pool="attn", score="dot_product"),
            XU,
            phrase_representation(**BASE_SIZES, v=XU, h_c=1536, dot_product=True),
        ),
        (LanguageModel(family="language_model"), LM, language_model(**BASE_SIZES, v=LM)),
        (TransformerModel(attention="relative"), XU, transformer(**BASE_SIZES, v=XU) + added_by_distances(512)),
        (
            PhraseRepresentationModel(attention="relative"),
            XU,
            phrase_representation(**BASE_SIZES, v=XU, h_c=1536) + added_by_distances(512),
        ),
    ],
    ids=[
        "base",
        "base, tied",
        "big",
        "+Max",
        "+Max+Attn+TA",
        "+Max+Attn, dot product",
        "language model",
        "relative",
        "+Max, relative",
    ],
)
def test_multiply_adds_equal_the_equations(settings, vocabulary, expected):
    assert counted(settings, vocabulary) == expected


@pytest.mark.parametrize(
    ("settings", "vocabulary", "expected", "tolerance"),
    [
        # The code also multiplies some keys that do not exist, and masks the products.
        *(
            (
                TransformerModel(attention="ngrams", ngrams=n, tie="all"),
                NG,
                transformer(**BASE_SIZES, v=NG) + added_by_ngrams(512, n),
                0.015,
            )
            for n in (2, 4)
        ),
        (
            PhraseRepresentationModel(attention="ngrams", ngrams=3),
            XU,
            phrase_representation(**BASE_SIZES, v=XU, h_c=1536) + added_by_ngrams(512, 3),
            0.015,
        ),
        # There the weighted sum of source states is not a matrix product: 0.1 %.
        (Dl4mtModel(family="dl4mt", decoder_layers=2), ZH, dl4mt(620, 1000, ZH, layers=2), 0.005),
        (BiscaleModel(family="biscale"), ZH, biscale(620, 1000, ZH, updates=18), 0.005),
        # If contexts change at every word, the code runs the chunk cells at all words and masks the results.
        (
            BiscaleModel(family="biscale", ctx_update="every_step", word_inputs="p+c"),
            ZH,
            biscale(620, 1000, ZH, updates=T, context=True),
            0.005,
        ),
    ],
    ids=["1-2", "1-4", "+Max, 1-3", "dl4mt-2", "bi-scale", "bi-scale, code"],
)
def test_multiply_adds_are_near_the_equations(settings, vocabulary, expected, tolerance):
    assert counted(settings, vocabulary) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("name", slow_except(PAIRWISE))
def test_parts_have_all_parameters_once(name):
    with torch.device("meta"):
        model = build_model(SYSTEMS[name], source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=SOURCE_VOCABULARY)
    parts = list(parts_of(model))
    assert sum(part.parameters for part in parts if part.depth == 0) == parameters_of(model)
    stacks = [part for part in parts if part.depth == 0 and part.layers]
    inner = [part for part in parts if part.depth == 1]
    assert sum(part.parameters for part in inner) == sum(part.parameters for part in stacks)


def test_one_table_for_both_sides_is_one_part():
    with torch.device("meta"):
        tied = build_model(TransformerModel(tie="all"), source_vocabulary=70, target_vocabulary=70)
        apart = build_model(TransformerModel(), source_vocabulary=70, target_vocabulary=70)
    names = [[part.name for part in parts_of(model) if part.name.endswith("table")] for model in (tied, apart)]
    assert names == [["embeddings.target_table"], ["embeddings.target_table", "embeddings.source_table"]]


def test_phrases_of_all_modes_are_counted_as_n_grams():
    """Other phrases need a data set, and their number changes the count little."""
    sizes = {"width": 16, "heads": 2, "ffn_width": 32}
    ngram = PhraseRepresentationModel(**sizes)
    parse = PhraseRepresentationModel(**sizes, phrase=PhraseSegmentation(mode="parse"))
    assert counted(parse, 50) == counted(ngram, 50)


def test_no_count_depends_on_the_weights(monkeypatch):
    """Weights without values may be of any size, and with large ones a loss computes some products again."""
    settings = TransformerModel(width=16, heads=2, ffn_width=32)

    def large(*args, **sizes):
        model = build_model(*args, **sizes)
        for parameter in model.parameters():
            parameter.data = torch.linspace(-1e3, 1e3, parameter.numel()).view_as(parameter)
        return model

    monkeypatch.setattr("phrasemt.models.cost.build_model", large)
    cost = cost_of(settings, source_vocabulary=50, target_vocabulary=50)
    assert round(cost.multiply_adds * POSITIONS) == transformer(16, 32, 50)


def test_the_pair():
    neutron = PhraseRepresentationModel(src_bos=True)
    batch = pair_of(neutron.model_inputs, 27)
    assert batch.source.ids_BS.shape == (1, 28)
    assert batch.source.phrases.phrase_mask_BP.sum() == 6
    assert pair_of(TransformerModel().model_inputs, 27).source.ids_BS.shape == (1, 27)
    chunks = pair_of(BiscaleModel(family="biscale").model_inputs, 27).target.chunks
    assert chunks.starts_BT.sum() == 18
    assert chunks.starts_BT[0, [0, 26]].all()


def test_what_a_system_is_compared_with():
    size = {"width": 64, "heads": 4, "encoder_layers": 2, "dropout": 0.3, "norm": "pre", "tie": "all"}
    plain = TransformerModel(**size)
    for family in (PhraseRepresentationModel, TransformerModel):
        for attention in ("tokens", "relative", "ngrams"):
            assert family(**size, attention=attention).plain_counterpart == plain
    assert plain.plain_counterpart == plain
    lm = {"family": "language_model", "layers": 3, "width": 64, "heads": 4}
    assert LanguageModel(**lm, attention="ngrams", ngrams=3).plain_counterpart == LanguageModel(**lm)
    recurrent = {"embedding": 30, "hidden": 20, "readout": "maxout"}
    dl4mt_of_size = Dl4mtModel(family="dl4mt", **recurrent)
    assert BiscaleModel(family="biscale", **recurrent, chunk_hidden=7).plain_counterpart == dl4mt_of_size
    assert Dl4mtModel(family="dl4mt", **recurrent, decoder_layers=2).plain_counterpart == dl4mt_of_size


@pytest.mark.parametrize("name", slow_except(PAIRWISE))
def test_idle_parameters_are_those_without_gradients(name: str) -> None:
    """Witness: gradients of a pair, with random weights: tensors without any, and the inputs of W3 without any."""
    settings = SYSTEMS[name]
    model = random_model(settings)
    model.loss(pair_of(settings.model_inputs, POSITIONS), label_smoothing=0.1).objective.backward()
    idle = 0
    for parameter_name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        cancels = parameter.numel() == 1 and name != "no phrases"  # a bias of scores, in the softmax
        if not gradient.any() and not cancels:
            idle += parameter.numel()
        elif parameter_name.endswith("combination.hidden.weight"):
            idle += int((gradient == 0).all(0).sum()) * len(gradient)
    assert model.unused_parameters() == idle
    assert (idle > 0) == (name == "no phrases")
