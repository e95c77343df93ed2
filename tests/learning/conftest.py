"""Fixtures of the tests that train."""

from __future__ import annotations

import pytest
from learned_pairs import LearnedPairs, learned_pairs


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> LearnedPairs:
    return learned_pairs(tmp_path_factory.mktemp("pairs"))
