"""Costs relative to the baseline, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import GoldenStudy

from phrasemt.artefacts.training import Metrics
from phrasemt.printed.results import load_papers
from phrasemt.report.costs import SystemCost, beside_papers, costs
from phrasemt.report.sections.trainings import read_training
from phrasemt.study.compared import ComparedCost, compared_costs
from phrasemt.study.reading import load_study

XU = Path(__file__).parents[3] / "studies" / "xu2020-en-de.yaml"


def _cost(system: str, training: float | None, decoding: float | None, host: str = "one") -> SystemCost:
    return SystemCost(
        dataset="d",
        system=system,
        training=training,
        updates=20,
        decoding=decoding,
        hosts=frozenset([host]),
        devices=frozenset(["CPU"]),
    )


BASELINES = {"pr": "base", "far": "base"}
ABOUT: dict[str, Any] = {"row": "", "heading": "", "unit": "", "comparable": ["d"]}


def test_ratios() -> None:
    found = [_cost("base", 2.0, 20.0), _cost("pr", 3.0, None), _cost("far", 4.0, 40.0, host="two")]
    printed = [
        ComparedCost(system=system, cost=cost, printed=printed, **ABOUT)
        for system, cost, printed in (
            ("pr", "training", 1.3),
            ("pr", "training", 1.6),
            ("pr", "training", 1.7),
            ("pr", "decoding", 1.3),
            ("far", "training", 2.0),
        )
    ]
    assert [(one.ours, one.verdict) for one in beside_papers(printed, BASELINES, found)] == [
        (1.5, "higher than printed"),
        (1.5, "as printed"),
        (1.5, "lower than printed"),
        (None, "not measured"),
        (None, "not measured on one device"),
    ]
    elsewhere = [one.model_copy(update={"comparable": []}) for one in printed[:1]]
    assert [one.verdict for one in beside_papers(elsewhere, BASELINES, found)] == ["other data or another size"]


def test_times_of_other_numbers_of_updates_are_compared_for_one_update() -> None:
    """Transformer Big, 7.73 times the time for three times the updates; ours 2.6 times with as many as base."""
    found = [_cost("base", 1.0, None), _cost("pr", 2.6, None)]
    printed = ComparedCost(system="pr", cost="training", printed=7.73, updates=3, **ABOUT)
    (one,) = beside_papers([printed], BASELINES, found)
    assert (one.verdict, one.printed) == ("as printed, for one update", pytest.approx(7.73 / 3))


def test_a_study_with_the_printed_costs_is_as_printed() -> None:
    """Table 2 of Xu et al.: its costs but those of the baseline, given back as ours, are all as printed."""
    study = load_study(XU)
    rows = {
        name: place.rpartition("/")[2]
        for name, one in study.systems.items()
        for place in one.stands_for
        if "/table-2/" in place
    }
    printed = load_papers()["xu2020"].tables["table-2"].rows
    found, updates = [], {cost.system: 20 * cost.updates for cost in compared_costs(study)}
    for name, row in rows.items():
        hours, decoding = (printed[row].cells[column].value or 0.0 for column in ("train", "decode"))
        cost = _cost(name, 3600 * hours, 60 * decoding)
        found.append(replace(cost, dataset="wmt14", updates=updates.get(name, 20)))
    compared = list(beside_papers(list(compared_costs(study)), study.baselines, found))
    assert len(compared) == 2 * (len(rows) - 1) == 12
    assert {one.verdict for one in compared} == {"as printed"}
    assert [one.ours for one in compared] == pytest.approx([one.compared.printed for one in compared], rel=1e-6)
    assert {one.compared.unit for one in compared} == {"Transformer Base"}


def test_without_a_baseline_there_are_no_ratios() -> None:
    printed = ComparedCost(system="pr", cost="training", printed=2, **ABOUT)
    assert list(beside_papers([printed], BASELINES, [_cost("pr", 1.0, 1.0)])) == []


def test_three_times_the_updates_take_three_times_as_long(study: GoldenStudy) -> None:
    """Transformer Big: each token costs as much here, and a training as printed three times as much."""
    dataset, seed = next(iter(study.study.datasets)), 1
    found = []
    for system, times in (("base", 1), ("max", 3)):
        path = study.path("training_record", dataset, system=system, seed=seed)
        training = read_training(path)
        metrics = path.parent / training.record.metrics
        reports = Metrics.read(metrics)
        Metrics.of(
            [report.model_copy(update={"seconds": times * 2.0 * report.update}) for report in reports.updates]
        ).write(metrics)
        found.append(read_training(path))
    base, longer = costs(study.study.study, found)
    assert longer.training == pytest.approx(3 * (base.training or 0))
