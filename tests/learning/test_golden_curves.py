"""The first 50 losses of each family are those of golden_curves.json, so that a refactoring changes no curve unseen.

The curves are in float32, without dropout, on one thread. They hold on CPUs with different vector units to the
tolerance below, because 50 small updates let rounding errors grow little. After a change of numbers on purpose, run
the test with UPDATE_GOLDEN=1 in the environment, look at the difference, and add a line to the changelog.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from learned_pairs import LearnedPairs
from trainings import settings_of

from phrasemt.artefacts.columns import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import (
    Architecture,
    BiscaleModel,
    Dl4mtModel,
    LanguageModel,
    PhraseRepresentationModel,
    TransformerModel,
)
from phrasemt.study.schema import Adam
from phrasemt.training.trainer import Trainer

GOLDEN = Path(__file__).with_name("golden_curves.json")
UPDATES, RATE = 50, 0.002
TOLERANCE = 1e-4  # relative

NO_DROPOUT = {"dropout": 0.0, "attn_dropout": 0.0, "act_dropout": 0.0}
SIZE = {"encoder_layers": 2, "decoder_layers": 2, "width": 24, "heads": 3, "ffn_width": 40, **NO_DROPOUT}
RECURRENT = {"embedding": 20, "hidden": 24, "initial_deviation": 0.1}
FAMILIES: dict[str, Architecture] = {
    "transformer": TransformerModel(**SIZE),
    "relative_positions": TransformerModel(**SIZE, attention="relative", rel_k=3),
    "phrase_representation": PhraseRepresentationModel(**SIZE, pool="attn", ta="on"),
    "phrasal_attention": TransformerModel(**SIZE, attention="ngrams", ngrams=3),
    "language_model": LanguageModel(
        family="language_model", layers=2, width=24, heads=3, ffn_width=40, attention="ngrams", **NO_DROPOUT
    ),
    "dl4mt": Dl4mtModel(family="dl4mt", **RECURRENT),
    "biscale": BiscaleModel(family="biscale", **RECURRENT, chunk_hidden=24, chunk_embedding=20),
}


def _curve(model: Architecture, pairs: LearnedPairs) -> list[float]:
    """The objective per sentence of each update."""
    torch.manual_seed(1)
    optimizer = Adam(warmup=UPDATES, factor=RATE * (model.learning_rate_width * UPDATES) ** 0.5)
    settings = settings_of(model=model, sentences_per_update=len(pairs) // 2, optimizer=optimizer)
    reader = BatchReader(Examples.open(pairs.examples), model.model_inputs, chunks=[pairs.chunks])
    system = build_model(model, source_vocabulary=len(pairs.words), target_vocabulary=len(pairs.words))
    trainer = Trainer(system, reader, settings)
    halves = np.arange(len(pairs)).reshape(2, -1)
    return [trainer.update(number, halves[number % 2]).objective / len(pairs) * 2 for number in range(1, UPDATES + 1)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_its_golden_curve(family: str, pairs: LearnedPairs) -> None:
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    curve = _curve(FAMILIES[family], pairs)
    assert curve[-1] < 0.9 * curve[0], "the family learns"
    if os.environ.get("UPDATE_GOLDEN"):
        largest = max((abs(new / old - 1) for old, new in zip(golden.get(family, []), curve, strict=False)), default=1)
        print(f"{family}: largest relative difference to the golden curve before: {largest:.1e}")
        rounded = [float(f"{loss:.7g}") for loss in curve]
        curves = sorted({**golden, family: rounded}.items())
        GOLDEN.write_text("{\n" + ",\n".join(f' "{name}": {json.dumps(curve)}' for name, curve in curves) + "\n}\n")
        return
    assert curve == pytest.approx(golden[family], rel=TOLERANCE)
