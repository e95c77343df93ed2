"""The sentences that a page begins with, from tables made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import made_table
import pytest
from made_table import cell

from phrasemt.artefacts.scores import Power
from phrasemt.artefacts.table import Table
from phrasemt.report.sections.results import caveats
from phrasemt.report.summary import answer

POWER = Power(deviation=0.3, freedom=4, detectable=1.04)


def _table(gains: Mapping[str, tuple[float, float | None]], **others: Any) -> Table:
    """A Transformer of 20 BLEU, and the gains and corrected p-values of other systems, by title."""
    cells = {"Transformer": {"bleu_tok": cell(20)}}
    for name, (gain, p_value) in gains.items():
        mark = "" if p_value is None or p_value >= 0.05 else "†"
        difference = cell(gain, width=1, p_value=p_value, mark=mark, power=None if p_value is None else POWER)
        cells[name] = {"bleu_tok": cell(20 + gain), "bleu_tok_difference": difference}
    titles = {name: name for name in cells}
    return made_table.table(titles, dict.fromkeys(gains, "Transformer"), made_table.block(cells), **others)


ON = "over Transformer on 3,003 test sentences"


@pytest.mark.parametrize(
    ("gains", "seeds", "sentence"),
    [
        ({}, [1], "Transformer scores 20.00 BLEU on 3,003 test sentences."),
        (
            {"A": (1, None)},
            [1],
            f"A gains 1.00 BLEU (0.00 to 2.00) {ON}; each system was trained once, so the difference is not tested.",
        ),
        (
            {"A": (4, None), "B": (3, None), "C": (1, None), "D": (2, None)},
            [1],
            f"A gains 4.00 BLEU (3.00 to 5.00) and C gains 1.00 BLEU (0.00 to 2.00) {ON}, and 2 others lie between; "
            "each system was trained once, so no difference is tested.",
        ),
        (
            {"A": (-2, None)},
            [1, 2, 3],
            f"A loses 2.00 BLEU (1.00 to 3.00) {ON}; the difference is not tested: too few systems were trained "
            "several times.",
        ),
        (
            {"A": (4, 0.01), "B": (2, 0.03), "C": (1, 0.2), "D": (1, None)},
            [1, 2, 3],
            f"A gains 4.00 BLEU (3.00 to 5.00) {ON}, significant after correction; of 3 other differences, 1 is.",
        ),
        (
            {"A": (-2, 0.03), "B": (-4, 0.01)},
            [1, 2, 3],
            f"B loses 4.00 BLEU (3.00 to 5.00) {ON}, significant after correction; of 1 other difference, 1 is.",
        ),
        (
            {"A": (4, 0.01), "B": (-3, 0.02)},
            [1, 2, 3],
            f"A gains 4.00 BLEU (3.00 to 5.00) and B loses 3.00 BLEU (2.00 to 4.00) {ON}, significant after "
            "correction.",
        ),
        (
            {"A": (0.5, 0.3), "B": (9, None)},
            [1, 2, 3],
            f"No tested difference is significant: A gains 0.50 BLEU (-0.50 to 1.50) {ON}; a difference of 1.0 BLEU "
            "would have been detected.",
        ),
    ],
)
def test_the_answer(gains: dict[str, tuple[float, float | None]], seeds: list[int], sentence: str) -> None:
    assert answer(_table(gains, seeds=seeds)) == sentence


def test_sizes_are_those_of_the_data_set_of_the_answer() -> None:
    """On another data set the vocabularies have other sizes, and the system is no larger than its baseline there."""
    sizes = {("wmt", "Transformer"): 100, ("wmt", "A"): 150, ("other", "Transformer"): 900, ("other", "A"): 910}
    trainings: list[Any] = [
        SimpleNamespace(dataset=dataset, system=system, record=SimpleNamespace(parameters=size, evaluations=[]))
        for (dataset, system), size in sizes.items()
    ]
    text = caveats(_table({"A": (1, None)}), {}, trainings)
    assert text.startswith("A has 1.50 times the parameters of the baseline, and no control of its size")
