"""Processes that share the batches of a translation."""

from __future__ import annotations

import pytest
import torch

from phrasemt.artefacts.columns import Examples, Vocabulary
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding import beam
from phrasemt.decoding.beam import translate_split
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import TransformerModel
from phrasemt.study.schema import Decoding

SETTINGS = TransformerModel(encoder_layers=1, decoder_layers=1, width=32, heads=4, ffn_width=48)


@pytest.fixture
def reader(tiny_data):
    return BatchReader(Examples.open(tiny_data.dev), SETTINGS.model_inputs)


@pytest.fixture
def model(tiny_data):
    words = Vocabulary.read(tiny_data.target_vocabulary)
    torch.manual_seed(11)
    return build_model(SETTINGS, source_vocabulary=len(words), target_vocabulary=len(words)).eval()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setitem(beam._BATCH_POSITIONS, "cpu", 200)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_number_of_processes_changes_no_bit(model, reader):
    decoding = Decoding(beam=3, n_best=3, max_length_extra=10)
    alone, seen = translate_split(model, reader, decoding), []
    shared = translate_split(model, reader, decoding, processes=3, on_progress=seen.append)
    assert shared == alone
    assert sum(seen) == len(alone)
    assert len(seen) > 3


def test_processes_follow_work_on_several_threads(model, reader):
    """A forked process has no threads of the pool that its parent made; waiting for them would take forever."""
    decoding = Decoding(beam=2, max_length_extra=5)
    alone = translate_split(model, reader, decoding)
    torch.set_num_threads(2)
    for _ in range(3):
        torch.randn(800, 800) @ torch.randn(800, 800)
        torch.randn(2_000_000).exp()
    shared = translate_split(model, reader, decoding, processes=2)
    assert shared == alone
