"""Costs relative to the baseline, worked out by hand."""

from __future__ import annotations

import pytest

from phrasemt.report.sections.cost import SystemCost, beside_papers, relative_costs
from phrasemt.study.claims import CostClaim, cost_claims
from phrasemt.study.schema import Study


def _cost(
    system: str, parameters: int, training: float | None, decoding: float | None, host: str = "one"
) -> SystemCost:
    return SystemCost(
        dataset="d",
        system=system,
        parameters=parameters,
        training=training,
        decoding=decoding,
        hosts=frozenset([host]),
        devices=frozenset(["CPU"]),
    )


TITLES = {"base": "Transformer", "pr": "+PR", "far": "elsewhere", "new": "not run"}


def test_ratios() -> None:
    found = [
        _cost("base", 100, 0.002, 20.0),
        _cost("pr", 150, 0.003, None),
        _cost("far", 200, 0.004, 40.0, host="two"),
    ]
    relative = relative_costs(TITLES, {"pr": "base", "far": "base"}, found)
    assert {one.title: (one.parameters, *one.ratios.values()) for one in relative} == {
        "Transformer": (100, 1.0, 1.0, 1.0),
        "+PR": (150, 1.5, 1.5, None),
        "elsewhere": (200, 2.0, None, None),
    }
    claims = [
        CostClaim(system=system, place="", cost=cost, printed=printed, notes=[])
        for system, cost, printed in (
            ("pr", "parameters", 1.4),
            ("pr", "training", 1.3),
            ("pr", "decoding", 1.3),
            ("far", "parameters", 2.3),
            ("far", "training", 2.0),
        )
    ]
    assert [verdict for *_, verdict in beside_papers(claims, relative)] == [
        "as printed",
        "higher than printed",
        "not measured",
        "lower than printed",
        "not measured on one device",
    ]


def test_printed_costs_are_relative_to_the_row_of_the_baseline() -> None:
    """Table 2 of Xu et al.: 129.0 and 173.0 of 88.1 million parameters, 1.60 and 1.75 of the time of training."""
    systems = {
        "base": {"model": {"family": "transformer"}, "stands_for": ["xu2020/table-2/base"]},
        "max": {"model": {"family": "phrase_representation"}, "stands_for": ["xu2020/table-2/max"]},
        "alone": {"model": {"family": "dl4mt"}, "stands_for": ["zhou2017/table-5/dl4mt"]},
    }
    dataset = {"source_language": "en", "target_language": "de", "generator": {"train": 9, "dev": 9, "test": 9}}
    study = Study.model_validate({"study": "costs", "datasets": {"d": dataset}, "systems": systems})
    found = {(claim.system, claim.cost): claim.printed for claim in cost_claims(study)}
    assert found == {
        ("max", "parameters"): pytest.approx(129.0 / 88.1),
        ("max", "training"): 1.60,
        ("max", "decoding"): 1.40,
    }


def test_without_a_baseline_there_are_no_ratios() -> None:
    assert relative_costs(TITLES, {"pr": "base"}, [_cost("pr", 1, 1.0, 1.0)]) == []
