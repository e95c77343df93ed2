"""A whole training, with searches on dev: the Transformer learns to translate a toy language, the source in capitals.

The seed is drawn per run and printed, so that the bound cannot be fitted to one curve.
"""

from __future__ import annotations

import json
import random

import pytest
from stage_settings import of_model

from phrasemt.stages.training import TrainModel
from phrasemt.study.architectures import TransformerModel
from phrasemt.study.schema import Adam, Training
from phrasemt.training.loop import train_model

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
    settings = TrainModel(
        **of_model(model),
        rate_width=model.learning_rate_width,
        training=Training(
            tokens_per_update=800,
            max_updates=400,
            optimizer=Adam(warmup=60, factor=0.3),
            evaluate_every=400,
            checkpoint_every=400,
            label_smoothing=0.0,
        ),
        seed=seed,
        dev_bleu="13a",
    )
    train_model(
        settings=settings, cores=1, **tiny_data.inputs, record=tmp_path / "training.json", state=tmp_path / "state"
    )
    last = json.loads((tmp_path / "training.json").read_text())["evaluations"][-1]
    assert last["dev_bleu"] > 90, last
