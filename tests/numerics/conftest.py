"""Small models and batches for the numerical tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from small_systems import SOURCE_VOCABULARY, SYSTEMS, TARGET_VOCABULARY

from phrasemt.architectures import Architecture
from phrasemt.batching.batch import Batch, collate_target
from phrasemt.batching.reader import SourceCollator
from phrasemt.models.interface import TranslationModel, build_model

MakeModel = Callable[[Architecture], TranslationModel]
MakeBatch = Callable[..., Batch]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors are so small here that threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=SYSTEMS)
def settings(request: pytest.FixtureRequest) -> Architecture:
    return SYSTEMS[request.param]


@pytest.fixture
def make_model() -> MakeModel:
    """A model with random weights everywhere, also where training starts from 0 or 1 or next to nothing."""

    def make(settings: Architecture) -> TranslationModel:
        torch.manual_seed(5)
        target = SOURCE_VOCABULARY if settings.one_vocabulary else TARGET_VOCABULARY
        model = build_model(settings, source_vocabulary=SOURCE_VOCABULARY, target_vocabulary=target)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter), alpha=0.3)
                elif parameter.std() < 0.02:
                    parameter.mul_(30)
        return model.eval()

    return make


@pytest.fixture
def make_batch() -> MakeBatch:
    """Random sentence pairs of given lengths, without special symbols; the same for the same seed."""

    def make(
        settings: Architecture,
        sources: Sequence[int],
        targets: Sequence[int],
        seed: int = 0,
        only: int | None = None,
    ) -> Batch:
        rng = np.random.default_rng(seed)
        source_ids = [rng.integers(4, TARGET_VOCABULARY, size=length).astype(np.int32) for length in sources]
        target_ids = [rng.integers(4, TARGET_VOCABULARY, size=length).astype(np.int32) for length in targets]
        if only is not None:
            source_ids, target_ids = [source_ids[only]], [target_ids[only]]
        return Batch(
            rows=tuple(range(len(source_ids))),
            source=SourceCollator(settings)(source_ids, range(len(source_ids))),
            target=collate_target(target_ids),
        )

    return make
