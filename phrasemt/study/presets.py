"""Presets: the systems of the papers by name, for `preset: xu-paper` in a system of a study.

A preset gives values for `model`, `training` and `decoding`; values of the study replace them. The values come from the
papers and from docs/decisions.md. A preset `-code` follows the authors' program where it differs from their paper.
Vocabulary sizes and corpora belong to the data sets of a study.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Values = dict[str, Any]


def _over(base: Values, **sections: Values) -> Values:
    """A copy of a preset with other values in some sections."""
    return {**base, **{name: {**base.get(name, {}), **values} for name, values in sections.items()}}


# Xu et al. (2020), Tables 1 and 2. Batches, learning rate and search follow Vaswani et al., as the paper says.
_XU_BASE: Values = {
    "model": {"family": "transformer"},
    "training": {
        "tokens_per_update": 25_000,
        "max_updates": 100_000,
        "optimizer": {"name": "adam", "warmup": 8000},
        "checkpoint_every": 1500,
        "evaluate_every": 1500,
        "average_last": 5,
    },
    "decoding": {"beam": 4, "length_penalty": 0.6},
}
_BIG: Values = {"width": 1024, "heads": 16, "ffn_width": 4096}
_XU_BIG = _over(
    _XU_BASE,
    # One rate for all dropouts (Neutron), for English-German. A study of English-French sets all three to 0.1.
    model={**_BIG, "dropout": 0.3, "attn_dropout": 0.3, "act_dropout": 0.3},
    training={"max_updates": 300_000, "average_last": 20},
)
_PHRASES: Values = {"family": "phrase_representation", "pool": "attn", "ta": "on"}

# Nguyen et al., Table 1. Details of the model follow tensor2tensor (N7).
_NG_BASE: Values = {
    "model": {"family": "transformer", "norm": "pre", "tie": "all", "softmax_bias": False},
    "training": {
        "tokens_per_update": 32_768,
        "max_updates": 100_000,
        "optimizer": {"name": "adam", "warmup": 16_000, "factor": 2.0},
        "checkpoint_every": 5000,
        "evaluate_every": 5000,
        "average_last": 5,
    },
    "decoding": {"beam": 5, "length_penalty": 0.6},
}
_NG_LM: Values = {
    "model": {"family": "language_model", "norm": "pre"},
    "training": {**_NG_BASE["training"], "tokens_per_update": 16_384},
}

# Zhou et al. (2017) follow Bahdanau et al.; settings that neither paper gives come from dl4mt. The paper does not give
# the number of updates; a script of the authors names model 398,000.
_DL4MT: Values = {
    "model": {"family": "dl4mt"},
    "training": {
        "sentences_per_update": 80,
        "max_updates": 400_000,
        "max_length": 50,
        "label_smoothing": 0.0,
        "optimizer": {"name": "adadelta"},
        "clip_norm": 1.0,
        "checkpoint_every": 1000,
        "evaluate_every": 1000,
        "average_best": 1,  # C16
        "best_by": "perplexity",
    },
    "decoding": {
        "beam": 10,
        "length_penalty": 1.0,
        "length_penalty_form": "length",
        "max_length_factor": 2.0,
        "max_length_extra": 10,
    },
}

PRESETS: dict[str, Values] = {
    "xu-base": _XU_BASE,
    "xu-big": _XU_BIG,
    "xu-paper": _over(_XU_BASE, model=_PHRASES),
    "xu-paper-big": _over(_XU_BIG, model=_PHRASES),
    "xu-code": _over(
        _XU_BASE,
        model={
            **_PHRASES,
            "init": "neutron",
            "embed_ln": True,
            "src_bos": True,
            "phrase": {"ntok_scope": "batch"},
            "score_norm": "sigmoid_mix",
            "sigmoid": "plain",
            "score_dropout": 0.1,
            "combine_dropout": 0.1,
            "ta_dropout": 0.1,
            "combine_hidden": 4.0,
            "combine_residual": "x+a",
            "ta_tokens": True,
        },
        decoding={"length_penalty": 0.0},
    ),
    "nguyen2020-base": _NG_BASE,
    "nguyen2020-big": _over(_NG_BASE, model=_BIG),
    "nguyen2020-shaw": _over(_NG_BASE, model={"attention": "relative"}),
    "nguyen2020-paper": _over(_NG_BASE, model={"attention": "ngrams"}),
    "nguyen2020-lm-base": _NG_LM,
    "nguyen2020-lm-shaw": _over(_NG_LM, model={"attention": "relative"}),
    "nguyen2020-lm": _over(_NG_LM, model={"attention": "ngrams"}),
    "zh-dl4mt": _DL4MT,
    "zh-dl4mt-2": _over(_DL4MT, model={"decoder_layers": 2}),
    "zh-paper": _over(_DL4MT, model={"family": "biscale"}),
    "zh-word": _over(_DL4MT, model={"family": "biscale", "attention": "word"}),
    "zh-code": _over(
        _DL4MT,
        model={"family": "biscale", "embedding": 600, "ctx_update": "every_step", "word_inputs": "p+c"},
        training={"sentences_per_update": 32},
        decoding={"beam": 20, "max_length_factor": 0.0, "max_length_extra": 200},
    ),
}

# Former names, which messages answer with the present one.
RENAMED = {
    "ng": "nguyen2020-paper",
    **{f"ng-{name}": f"nguyen2020-{name}" for name in ("base", "big", "shaw", "lm-base", "lm-shaw", "lm")},
}

# Pairs of keys that exclude each other: a key of the study removes the other key of the preset.
_EXCLUDED_BY = {
    "tokens_per_update": "sentences_per_update",
    "sentences_per_update": "tokens_per_update",
    "average_last": "average_best",
    "average_best": "average_last",
}


def fill_in(system: Values, preset: Values, keys: Mapping[str, Collection[str]]) -> Values:
    """The values of a system, completed by the values of a preset, key by key in all nested sections.

    keys: the keys of a model family or an optimiser, by its name. If the study names another family or optimiser than
    the preset, keys that this one does not have are left out.
    """
    merged = {key: value for key, value in preset.items() if system.get(_EXCLUDED_BY.get(key, "")) is None}
    for key, value in system.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            kind = str(value.get("family", value.get("name", "")))
            known = {name: of_preset for name, of_preset in below.items() if name in keys.get(kind, below)}
            merged[key] = fill_in(value, known, keys)
        else:
            merged[key] = value
    return merged
