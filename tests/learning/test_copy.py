"""A whole training, with searches on dev: the Transformer learns to translate a toy language, the source in capitals.

The seed is drawn per run and printed, so that the bound cannot be fitted to one curve.
"""

from __future__ import annotations

import random

import pytest
from trainings import run, settings_of

from phrasemt.study.architectures import TransformerModel
from phrasemt.study.schema import Adam

SIZE = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "width": 64,
    "heads": 4,
    "ffn_width": 128,
    "tie": "all",
    "dropout": 0.0,
    "attn_dropout": 0.0,
    "act_dropout": 0.0,
}


@pytest.mark.slow
def test_copying_is_learned(tiny_data, tmp_path):
    model, seed = TransformerModel(**SIZE), random.randrange(2**31)
    print(f"seed {seed}")
    often = dict.fromkeys(("max_updates", "evaluate_every", "checkpoint_every"), 400)
    optimizer = Adam(warmup=60, factor=0.3)
    settings = settings_of(
        model=model, seed=seed, tokens_per_update=800, optimizer=optimizer, label_smoothing=0.0, **often
    )
    record, _, _ = run(tiny_data, tmp_path, settings)
    assert record["evaluations"][-1]["dev_bleu"] > 90
