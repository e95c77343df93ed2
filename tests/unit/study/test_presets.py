"""Witness: the papers' settings, written out by hand. What they do not name is at its default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from phrasemt.errors import StudyError
from phrasemt.study.presets import PRESETS
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study, System

Values = dict[str, Any]

# Xu et al.: "as Vaswani et al." where they say nothing else.
XU_TRAINING: Values = {
    "tokens_per_update": 25_000,
    "sentences_per_update": None,
    "max_updates": 100_000,
    "max_length": 256,
    "label_smoothing": 0.1,
    "optimizer": {"name": "adam", "factor": 1.0, "warmup": 8000},
    "clip_norm": None,
    "checkpoint_every": 1500,
    "evaluate_every": 1500,
    "average_last": 5,
}
XU_BIG_TRAINING: Values = {**XU_TRAINING, "max_updates": 300_000, "average_last": 20}
XU_DECODING: Values = {
    "beam": 4,
    "length_penalty": 0.6,
    "length_penalty_form": "wu",
    "max_length_factor": 1.0,
    "max_length_extra": 50,
}
BASE: Values = {"width": 512, "heads": 8, "ffn_width": 2048, "dropout": 0.1, "attn_dropout": 0.1, "act_dropout": 0.1}
BIG: Values = {**BASE, "width": 1024, "heads": 16, "ffn_width": 4096}
SIX: Values = {"encoder_layers": 6, "decoder_layers": 6}
XU_MODEL: Values = {
    **BASE,
    **SIX,
    "family": "transformer",
    "norm": "post",
    "embed_ln": False,
    "tie": "decoder",
    "softmax_bias": True,
    "init": "xavier",
}
BIG_DROPOUT: Values = {"dropout": 0.3, "attn_dropout": 0.3, "act_dropout": 0.3}
NTOK: Values = {"mode": "ngram", "ntok_div": 6, "ntok_min": 3, "ntok_max": 8}
PHRASES: Values = {
    "family": "phrase_representation",
    "phrase": {**NTOK, "ntok_scope": "sentence"},
    "src_bos": False,
    "glance": "max",
    "pool": "attn",
    "sigmoid": "centred",
    "score": "additive",
    "score_norm": "softmax",
    "score_dropout": 0.0,
    "combine_hidden": 3.0,
    "combine_dropout": 0.0,
    "combine_residual": "x",
    "ta": "on",
    "ta_tokens": False,
    "ta_dropout": 0.0,
}
NEUTRON: Values = {
    "embed_ln": True,
    "init": "neutron",
    "src_bos": True,
    "phrase": {**NTOK, "ntok_scope": "batch"},
    "score_norm": "sigmoid_mix",
    "sigmoid": "plain",
    "score_dropout": 0.1,
    "combine_hidden": 4.0,
    "combine_dropout": 0.1,
    "combine_residual": "x+a",
    "ta_tokens": True,
    "ta_dropout": 0.1,
}

# The ICLR 2020 submission, Table 1 (8 GPUs) and Table 3 (language models: 4 x 4,096 tokens).
NG_TRAINING: Values = {
    **XU_TRAINING,
    "tokens_per_update": 32_768,
    "optimizer": {"name": "adam", "factor": 2.0, "warmup": 16_000},
    "checkpoint_every": 5000,
    "evaluate_every": 5000,
}
NG_DECODING: Values = {**XU_DECODING, "beam": 5}
NG_MODEL: Values = {**XU_MODEL, "norm": "pre", "tie": "all", "softmax_bias": False}
LM: Values = {**BASE, "family": "language_model", "layers": 6, "norm": "pre", "attention": "tokens"}
LM_TRAINING: Values = {**NG_TRAINING, "tokens_per_update": 16_384}

# Zhou et al.: "as Bahdanau et al.", where these say nothing dl4mt.
ZH_TRAINING: Values = {
    "sentences_per_update": 80,
    "tokens_per_update": None,
    "max_length": 50,
    "label_smoothing": 0.0,
    "optimizer": {"name": "adadelta"},
    "clip_norm": 1.0,
    "average_best": 1,
    "best_by": "perplexity",
    "checkpoint_every": 1000,
    "evaluate_every": 1000,
    "max_updates": 400_000,
}
ZH_DECODING: Values = {
    "beam": 10,
    "length_penalty": 1.0,
    "length_penalty_form": "length",
    "max_length_factor": 2.0,
    "max_length_extra": 10,
}
DL4MT: Values = {
    "family": "dl4mt",
    "embedding": 620,
    "hidden": 1000,
    "attention_width": None,
    "readout": "tanh",
    "dropout": 0.0,
}
BISCALE: Values = {
    **DL4MT,
    "family": "biscale",
    "chunk_hidden": 1000,
    "chunk_embedding": 1000,
    "attention": "chunk",
    "ctx_update": "boundary",
    "word_inputs": "p",
    "chunk_query": "v",
}

EXPECTED: dict[str, tuple[Values, Values, Values]] = {  # model, training, decoding
    "xu-base": (XU_MODEL, XU_TRAINING, XU_DECODING),
    "xu-big": ({**XU_MODEL, **BIG, **BIG_DROPOUT}, XU_BIG_TRAINING, XU_DECODING),
    "xu-paper": ({**XU_MODEL, **PHRASES}, XU_TRAINING, XU_DECODING),
    "xu-paper-big": ({**XU_MODEL, **PHRASES, **BIG, **BIG_DROPOUT}, XU_BIG_TRAINING, XU_DECODING),
    "xu-code": ({**XU_MODEL, **PHRASES, **NEUTRON}, XU_TRAINING, {**XU_DECODING, "length_penalty": 0.0}),
    "nguyen2020-base": (NG_MODEL, NG_TRAINING, NG_DECODING),
    "nguyen2020-big": ({**NG_MODEL, **BIG}, NG_TRAINING, NG_DECODING),
    "nguyen2020-shaw": ({**NG_MODEL, "attention": "relative", "rel_k": 16}, NG_TRAINING, NG_DECODING),
    "nguyen2020-paper": (
        {**NG_MODEL, "attention": "ngrams", "ngrams": 2, "ngram_score": "query_kernel"},
        NG_TRAINING,
        NG_DECODING,
    ),
    "nguyen2020-lm-base": (LM, LM_TRAINING, {}),
    "nguyen2020-lm-shaw": ({**LM, "attention": "relative", "rel_k": 16}, LM_TRAINING, {}),
    "nguyen2020-lm": ({**LM, "attention": "ngrams", "ngrams": 2}, LM_TRAINING, {}),
    "zh-dl4mt": ({**DL4MT, "decoder_layers": 1}, ZH_TRAINING, ZH_DECODING),
    "zh-dl4mt-2": ({**DL4MT, "decoder_layers": 2}, ZH_TRAINING, ZH_DECODING),
    "zh-paper": (BISCALE, ZH_TRAINING, ZH_DECODING),
    "zh-word": ({**BISCALE, "attention": "word"}, ZH_TRAINING, ZH_DECODING),
    "zh-code": (
        {**BISCALE, "embedding": 600, "ctx_update": "every_step", "word_inputs": "p+c"},
        {**ZH_TRAINING, "sentences_per_update": 32},
        {**ZH_DECODING, "beam": 20, "max_length_factor": 0.0, "max_length_extra": 200},
    ),
}


def differing(section: Any, expected: Values, where: str) -> dict[str, Any]:
    """The settings that are not as expected, or that nobody expects and that are not at their default."""
    found = {}
    for key, field in type(section).model_fields.items():
        value, path = getattr(section, key), f"{where}.{key}"
        if isinstance(expected.get(key), dict):
            found |= differing(value, expected[key], path)
        elif value != expected.get(key, field.get_default(call_default_factory=True)):
            found[path] = value
    return found


def test_every_preset_is_in_the_tables() -> None:
    assert list(EXPECTED) == list(PRESETS)


@pytest.mark.parametrize("preset", EXPECTED)
def test_a_preset_is_what_the_tables_say(preset: str) -> None:
    system = System.model_validate({"preset": preset})
    model, training, decoding = EXPECTED[preset]
    assert system.model.family == model["family"]
    assert not differing(system.model, model, "model")
    assert not differing(system.training, training, "training")
    assert not differing(system.decoding, decoding, "decoding")


DATASET = {
    "source_language": "en",
    "target_language": "de",
    "generator": {"train": 9, "dev": 9, "test": 9},
    "target_chunks": {"origin": "gold"},
}


@pytest.fixture
def study(tmp_path: Path):
    """A study of one system."""

    def load(system: Values) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({"study": "s", "datasets": {"demo": DATASET}, "systems": {"mine": system}}))
        return load_study(path)

    return load


@pytest.fixture
def problems(problems_of):
    return lambda system: problems_of({"study": "s", "datasets": {"demo": DATASET}, "systems": {"mine": system}})


def test_what_stands_beside_a_preset_goes_before_it(study) -> None:
    system = study(
        {
            "preset": "xu-code",
            "model": {"width": 64, "phrase": {"ntok_max": 4}},
            "training": {"max_updates": 7, "optimizer": {"warmup": 5}},
            "decoding": {"beam": 1},
        }
    ).systems["mine"]
    untouched = System.model_validate({"preset": "xu-code"})
    assert system.model == untouched.model.model_copy(
        update={"width": 64, "phrase": untouched.model.source_phrases.model_copy(update={"ntok_max": 4})}
    )
    assert system.training == untouched.training.model_copy(
        update={"max_updates": 7, "optimizer": untouched.training.optimizer.model_copy(update={"warmup": 5})}
    )
    assert system.decoding == untouched.decoding.model_copy(update={"beam": 1})
    assert System.model_validate({"preset": "xu-code"}) == untouched, "a system has changed its preset"


def test_another_family_and_another_optimiser_take_what_they_know(study) -> None:
    system = study(
        {
            "preset": "xu-paper-big",
            "model": {"family": "dl4mt", "hidden": 30},
            "training": {"optimizer": {"name": "adadelta"}},
        }
    ).systems["mine"]
    assert system.model == System.model_validate({"model": {"family": "dl4mt", "hidden": 30, "dropout": 0.3}}).model
    assert system.training.optimizer.model_dump() == {"name": "adadelta"}
    assert system.training.max_updates == 300_000, "the rest of its training is the preset's"


@pytest.mark.parametrize("preset", ["nguyen2020-paper", "nguyen2020-shaw"])
def test_the_attention_of_a_preset_comes_with_it_to_phrase_representations(study, preset: str) -> None:
    """And the attention of a study goes over a preset: one system in two spellings."""
    phrases = {"family": "phrase_representation", "pool": "attn", "ta": "on"}
    over_attention = study({"preset": preset, "model": phrases}).systems["mine"]
    own = {key: value for key, value in PRESETS[preset]["model"].items() if key != "family"}
    over_phrases = study({"preset": "xu-paper", "model": own}).systems["mine"]
    assert over_attention.model == over_phrases.model
    assert over_attention.model.attention == PRESETS[preset]["model"]["attention"]


def test_options_of_another_attention_are_named(problems) -> None:
    assert problems({"preset": "xu-paper", "model": {"ngrams": 3, "rel_k": 2}}) == [
        "systems.mine.model: rel_k has no effect with attention: tokens, only with attention: relative",
        "systems.mine.model: ngrams has no effect with attention: tokens, only with attention: ngrams",
    ]
    assert problems({"preset": "nguyen2020-shaw", "model": {"ngram_score": "static"}}) == [
        "systems.mine.model: ngram_score has no effect with attention: relative, only with attention: ngrams"
    ]


def test_either_count_of_an_update_replaces_the_other(study) -> None:
    by_tokens = study({"preset": "zh-paper", "training": {"tokens_per_update": 4000}}).systems["mine"].training
    assert (by_tokens.tokens_per_update, by_tokens.sentences_per_update) == (4000, None)
    by_sentences = (
        study({"preset": "nguyen2020-base", "training": {"sentences_per_update": 9}}).systems["mine"].training
    )
    assert (by_sentences.tokens_per_update, by_sentences.sentences_per_update) == (None, 9)
    unchanged = (
        study({"preset": "nguyen2020-base", "training": {"sentences_per_update": None}}).systems["mine"].training
    )
    assert unchanged.tokens_per_update == 32_768


def test_the_last_checkpoints_replace_the_best_ones_of_a_preset(study) -> None:
    last = study({"preset": "zh-paper", "training": {"average_last": 3}}).systems["mine"].training
    assert (last.average_last, last.average_best) == (3, None)
    assert study({"preset": "zh-paper"}).systems["mine"].training.average_best == 1


NAMES = ", ".join(EXPECTED)


def test_former_names_are_answered_with_the_present_ones(problems, repository: Path) -> None:
    wrong = f"systems.mine.preset: found \"ng-shaw\", allowed: {NAMES}; it is called 'nguyen2020-shaw' now"
    assert problems({"preset": "ng-shaw", "model": {"attention": "relative"}}) == [wrong]
    with pytest.raises(StudyError, match=r"it is called .*nguyen2020-en-de\.yaml now"):
        load_study(repository / "studies" / "phrasal2020-en-de.yaml")


def test_a_preset_with_a_typo_is_one_mistake(problems) -> None:
    wrong = f"systems.mine.preset: found \"xu-papr\", allowed: {NAMES}; did you mean 'xu-paper'?"
    assert problems({"preset": "xu-papr"}) == [wrong]
    assert problems({"preset": "xu-papr", "model": {"pool": "attn"}, "training": {"max_updates": 5}}) == [wrong]
    also = problems({"preset": "xu-papr", "model": {"pol": "attn"}})
    assert also[0] == wrong
    assert also[1].startswith("systems.mine.model.pol: unknown key; did you mean 'pool'?; allowed: family, ")
    assert len(also) == 2


def test_settings_that_do_not_fit_the_preset_s_are_named(problems) -> None:
    assert problems({"preset": "xu-code", "model": {"pool": "glance"}}) == [
        "systems.mine.model: score_norm has no effect with pool: glance, only with pool: attn",
        "systems.mine.model: score_dropout has no effect with pool: glance, only with pool: attn",
    ]
    assert problems({"preset": "xu-code", "model": {"score": "dot_product"}}) == [
        "systems.mine.model: score_dropout has no effect with score: dot_product, only with score: additive"
    ]
    assert problems({"preset": "xu-paper", "model": {"family": "transformer", "pool": "attn"}})[0].startswith(
        "systems.mine.model.pool: unknown key; allowed: family, "
    )
    assert problems({"preset": "xu-paper", "model": "transformer"})[0].startswith("systems.mine.model: found ")
    assert problems({"preset": None}) == ["systems.mine.model: missing"]


def test_a_study_without_chunks_cannot_use_the_bi_scale_presets(problems_of) -> None:
    without = {key: value for key, value in DATASET.items() if key != "target_chunks"}
    study = {"study": "s", "datasets": {"d": without}, "systems": {"a": {"preset": "zh-code"}}}
    assert problems_of(study) == ["systems.a.model.family is 'biscale', which needs datasets.d.target_chunks"]


def test_an_update_is_counted_in_one_way(problems) -> None:
    both = {"preset": "nguyen2020-base", "training": {"tokens_per_update": 9, "sentences_per_update": 9}}
    assert problems(both) == ["systems.mine.training: give either tokens_per_update or sentences_per_update"]


@pytest.mark.parametrize(("pair", "dropout"), [("en-de", 0.3), ("en-fr", 0.1)])
def test_big_rows_of_xu_have_the_dropout_of_their_language_pair(repository: Path, pair: str, dropout: float) -> None:
    systems = load_study(repository / f"studies/xu2020-{pair}.yaml").systems
    for name in ("big", "big-pr"):
        model = systems[name].model
        assert (model.dropout, model.attn_dropout, model.act_dropout) == (dropout,) * 3
