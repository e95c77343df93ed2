"""Costs relative to the baseline, worked out by hand."""

from __future__ import annotations

from phrasemt.paper.sections.cost import Cost, relative_costs


def _cost(system: str, parameters: int, training: float | None, decoding: float | None, host: str = "one") -> Cost:
    return Cost(
        dataset="d",
        system=system,
        parameters=parameters,
        training=training,
        decoding=decoding,
        hosts=frozenset([host]),
    )


TITLES = {"base": "Transformer", "pr": "+PR", "far": "elsewhere", "new": "not run"}


def test_ratios() -> None:
    found = [
        _cost("base", 100, 0.002, 20.0),
        _cost("pr", 150, 0.003, None),
        _cost("far", 200, 0.004, 40.0, host="two"),
    ]
    rows = {one.title: (one.parameters, one.ratios) for one in relative_costs(TITLES, "base", found)}
    assert rows == {
        "Transformer": ("100", ("1.00", "1.00", "1.00")),
        "+PR": ("150", ("1.50", "1.50", "")),
        "elsewhere": ("200", ("2.00", "", "")),
    }


def test_without_a_baseline_there_are_no_ratios() -> None:
    assert relative_costs(TITLES, "base", [_cost("pr", 1, 1.0, 1.0)]) == []
