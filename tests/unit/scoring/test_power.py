"""What would be detected (witness: the noncentral t distribution of SciPy), and corrections (by hand)."""

from __future__ import annotations

import pytest
from scipy import stats as distributions

from phrasemt.artefacts.scores import Power
from phrasemt.scoring.significance import decimals_of, detectable, holm, power_among, seeds_needed


@pytest.mark.parametrize(("freedom", "tests"), [(2, 1), (4, 1), (6, 1), (20, 1), (6, 8), (20, 8)])
def test_a_detectable_difference_is_found_in_four_of_five_tests(freedom: int, tests: int) -> None:
    """Witness: the noncentral t distribution of SciPy; the sum of two quantiles is its usual approximation."""
    limit = distributions.t.ppf(1 - 0.025 / tests, freedom)
    shown = detectable(0.4, freedom, tests)
    assert 1 - distributions.nct.cdf(limit, freedom, shown / 0.4) == pytest.approx(0.8, abs=0.06)


def test_the_power_of_a_mark_is_that_of_the_corrected_test() -> None:
    shown = detectable(0.4, 6)
    power = power_among(Power(deviation=0.4, freedom=6, detectable=shown), 1.0, tests=8)
    assert power.detectable == pytest.approx(detectable(0.4, 6, 8))
    assert power.detectable > 1.3 * shown
    assert power.seeds_needed == seeds_needed(1.0, 0.4, 0.4, tests=8) != seeds_needed(1.0, 0.4, 0.4)


@pytest.mark.parametrize(("difference", "deviations"), [(0.5, (0.3, 0.3)), (0.3, (0.3, 0.2)), (1.0, (0.3, 0.6))])
def test_seeds_needed_have_the_power_in_a_t_test(difference: float, deviations: tuple[float, float]) -> None:
    """Witness: the noncentral t distribution of SciPy, with the pooled variance of two equal groups."""

    def power(runs: int) -> float:
        freedom = 2 * runs - 2
        center = difference / (sum(d**2 for d in deviations) / runs) ** 0.5
        limit = distributions.t.ppf(0.975, freedom)
        return 1 - distributions.nct.cdf(limit, freedom, center)

    runs = seeds_needed(difference, *deviations)
    assert power(runs) > 0.78
    assert power(runs - 1) < 0.82


def test_seeds_needed_at_the_edges() -> None:
    assert seeds_needed(0.0, 0.3, 0.3) is None
    assert seeds_needed(-0.5, 0.3, 0.3) == seeds_needed(0.5, 0.3, 0.3)
    assert seeds_needed(9.0, 0.3, 0.3) == seeds_needed(0.1, 0.0, 0.0) == 2


def test_a_significant_difference_is_never_printed_as_0() -> None:
    found = [decimals_of(difference, p, 2) for difference in (0.0021, 0.31, 0.0) for p in (0.0004, 0.3)]
    assert found == [3, 2, 2, 2, 6, 2]


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 not below 0.06
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected)
