"""Small models and batches for the numerical tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from small_systems import PAIRWISE, SYSTEMS, TARGET_VOCABULARY, random_model, slow_except

from phrasemt.batching.batch import Batch, collate_chunks, collate_target
from phrasemt.batching.reader import SourceCollator
from phrasemt.models.interface import TranslationModel
from phrasemt.study.architectures import Architecture
from phrasemt.symbols import CHUNK_LABELS, EOS_LABEL, NULL_LABEL

MakeModel = Callable[[Architecture], TranslationModel]
MakeBatch = Callable[..., Batch]


@pytest.fixture(params=slow_except(PAIRWISE))
def settings(request: pytest.FixtureRequest) -> Architecture:
    return SYSTEMS[request.param]


@pytest.fixture
def make_model() -> MakeModel:
    return random_model


def random_chunks(
    rng: np.random.Generator, targets: Sequence[int]
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    """Random starts and labels of chunks; the first word and `</s>` always start one."""
    starts, labels = [], []
    for length in targets:
        inside = np.flatnonzero(rng.random(length) < 0.5)
        starts.append(np.unique([0, *inside, length]).astype(np.int32))
        types = rng.integers(NULL_LABEL + 1, len(CHUNK_LABELS), size=len(starts[-1]) - 1)
        labels.append(np.append(types, EOS_LABEL).astype(np.int32))
    return starts, labels


@pytest.fixture
def make_batch() -> MakeBatch:
    """Random sentence pairs of given lengths without special symbols; equal seeds give equal pairs."""

    def make(
        settings: Architecture, sources: Sequence[int], targets: Sequence[int], seed: int = 0, only: int | None = None
    ) -> Batch:
        rng = np.random.default_rng(seed)
        source_ids = [rng.integers(4, TARGET_VOCABULARY, size=length).astype(np.int32) for length in sources]
        target_ids = [rng.integers(4, TARGET_VOCABULARY, size=length).astype(np.int32) for length in targets]
        starts, labels = random_chunks(rng, targets)
        if only is not None:
            source_ids, target_ids, starts, labels = ([of[only]] for of in (source_ids, target_ids, starts, labels))
        return Batch(
            rows=tuple(range(len(source_ids))),
            source=SourceCollator(settings.model_inputs)(source_ids, range(len(source_ids))),
            target=collate_target(target_ids, collate_chunks(starts, labels) if settings.reads_chunks else None),
        )

    return make
