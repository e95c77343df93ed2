"""Tables and sizes as commands show them."""

from __future__ import annotations

import pytest

from phrasemt.runs.display import size, table


def test_columns_are_as_wide_as_their_widest_cell_and_empty_ones_are_left_out() -> None:
    rows = [("name", "nothing", "jobs"), ("a", "", "1,000"), ("longer", "", "")]
    assert list(table(rows, right_aligned=["jobs"])) == ["name     jobs", "a       1,000", "longer"]
    assert list(table(rows)) == ["name    jobs", "a       1,000", "longer"]
    assert list(table(rows[:1])) == []


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0.0 kB"), (999_999, "1000.0 kB"), (1e6, "1.0 MB"), (2.5e9, "2.5 GB")]
)
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text
