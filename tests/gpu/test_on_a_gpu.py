"""Every family on a real GPU. Witness: the same on a CPU in float64 (differences.py)."""

from __future__ import annotations

import pytest
import torch
from differences import TOLERANCES, differences, differences_of_loss, too_large
from small_systems import SYSTEMS

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
PRECISIONS = pytest.mark.parametrize("precision", TOLERANCES)


@PRECISIONS
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system(system, precision):
    found = differences(system, GPU, precision)
    assert not too_large(found, precision), found


@PRECISIONS
def test_the_loss_at_the_size_of_a_paper(precision):
    found = differences_of_loss(GPU, precision)
    assert not too_large(found, precision), found
