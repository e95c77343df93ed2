"""Ensembles: the mean of probabilities, on models that are tables and on small systems."""

from __future__ import annotations

import pytest

from phrasemt.decoding.beam import Ensemble, beam_search
from phrasemt.study.schema import Decoding
from tests.helpers.table_model import TableModel, source_of

SETTINGS = Decoding(beam=3, n_best=3, max_length_factor=0, max_length_extra=6)


def test_the_ensemble_of_two_tables_is_the_table_of_mean_probabilities():
    first, second, mean = TableModel(1), TableModel(2), TableModel(1)
    mean.table = ((first.table.exp() + second.table.exp()) / 2).log()
    found = beam_search(Ensemble([first, second]), source_of(range(4, 30)), SETTINGS)
    for ours, expected in zip(found, beam_search(mean, source_of(range(4, 30)), SETTINGS), strict=True):
        assert [hypothesis.tokens for hypothesis in ours] == [hypothesis.tokens for hypothesis in expected]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in expected], abs=1e-5)


def test_a_translation_by_an_ensemble_does_not_depend_on_its_batch():
    ensemble = Ensemble([TableModel(1, end=1.0), TableModel(2, end=1.0)])
    together = beam_search(ensemble, source_of(range(4, 40)), SETTINGS)
    for word, found in zip(range(4, 40), together, strict=True):
        (alone,) = beam_search(ensemble, source_of([word]), SETTINGS)
        assert [hypothesis.tokens for hypothesis in alone] == [hypothesis.tokens for hypothesis in found]
        assert [h.log_prob for h in alone] == pytest.approx([h.log_prob for h in found], abs=1e-5)
