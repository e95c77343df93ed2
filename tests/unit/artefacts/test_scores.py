"""Files of scores: their tables are checked whole, in place of number by number."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from phrasemt.artefacts.scores import Scores


def scores(rows: Any) -> Scores:
    ter = {"score": 50.0, "metric": "TER", "better": "lower", "signature": ""}
    references = {"tokens": ["0" * 64], "text": ["0" * 64]}
    of_test_set = {"sentences": 2, "references": references, "metrics": {"ter": ter}, "statistics": {"ter": rows}}
    return Scores.model_validate(of_test_set)


def test_a_table_keeps_its_numbers() -> None:
    assert scores([[1, 4], [0.5, 3]]).statistics["ter"] == [[1, 4], [0.5, 3]]


@pytest.mark.parametrize(
    "rows",
    [
        None, "12", [[1, 4]], [[1, 4], [1]], [[1, 4], [1, 2, 3]], [[1, 4], "12"], [[1, 4], ["1", 2]],
        [[1, 4], [True, 2]], [[1, 4], [None, 2]], [[1, 4], [math.nan, 2]], [[1, math.inf], [-math.inf, 2]],
        [[1, 4], [10**400, 2]], [[1.7e308, 1.7e308], [-1.7e308, math.inf]],
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_table_of_finite_numbers_is_refused(rows: Any) -> None:
    with pytest.raises(ValidationError, match=r"statistics\.ter is not a table of 2 rows of 2 numbers"):
        scores(rows)
