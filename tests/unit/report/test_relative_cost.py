"""Costs relative to the baseline, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import GoldenStudy

from phrasemt.artefacts.training import Metrics
from phrasemt.printed.results import load_papers
from phrasemt.report.costs import SystemCost, beside_papers, costs, relative_costs
from phrasemt.report.sections.trainings import read_training
from phrasemt.study.compared import ComparedCost, compared_costs
from phrasemt.study.reading import load_study

XU = Path(__file__).parents[3] / "studies" / "xu2020-en-de.yaml"


def _cost(
    system: str, parameters: int, training: float | None, decoding: float | None, host: str = "one"
) -> SystemCost:
    return SystemCost(
        dataset="d",
        system=system,
        parameters=parameters,
        training=training,
        token=None if training is None else training / 1000,
        decoding=decoding,
        hosts=frozenset([host]),
        devices=frozenset(["CPU"]),
    )


TITLES = {"base": "Transformer", "pr": "+PR", "far": "elsewhere", "new": "not run"}


def test_ratios() -> None:
    found = [_cost("base", 100, 2.0, 20.0), _cost("pr", 150, 3.0, None), _cost("far", 200, 4.0, 40.0, host="two")]
    relative = relative_costs(TITLES, {"pr": "base", "far": "base"}, found)
    assert {one.title: (one.cost.parameters, *one.ratios.values()) for one in relative} == {
        "Transformer": (100, 1.0, 1.0, 1.0, 1.0),
        "+PR": (150, 1.5, 1.5, 1.5, None),
        "elsewhere": (200, 2.0, None, None, None),
    }
    printed = [
        ComparedCost(system=system, row="", heading="", unit="", cost=cost, printed=printed, comparable=["d"])
        for system, cost, printed in (
            ("pr", "parameters", 1.4),
            ("pr", "training", 1.3),
            ("pr", "decoding", 1.3),
            ("far", "parameters", 2.3),
            ("far", "training", 2.0),
        )
    ]
    assert [one.verdict for one in beside_papers(printed, relative)] == [
        "as printed",
        "higher than printed",
        "not measured",
        "lower than printed",
        "not measured on one device",
    ]
    elsewhere = [one.model_copy(update={"comparable": []}) for one in printed[:1]]
    assert [one.verdict for one in beside_papers(elsewhere, relative)] == ["other data or another size"]


def test_times_of_other_numbers_of_updates_are_compared_for_one_update() -> None:
    """Transformer Big, 7.73 times the time for three times the updates; ours 2.6 times with as many as base."""
    found = [replace(_cost("base", 100, 1.0, None), updates=20), replace(_cost("pr", 300, 2.6, None), updates=20)]
    about: dict[str, Any] = {"row": "", "heading": "", "unit": "", "comparable": ["d"]}
    printed = ComparedCost(system="pr", cost="training", printed=7.73, updates=3, **about)
    (one,) = beside_papers([printed], relative_costs(TITLES, {"pr": "base"}, found))
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
    found = []
    for name, row in rows.items():
        size, hours, decoding = (
            printed[row].cells[column].value or 0.0 for column in ("parameters", "train", "decode")
        )
        found.append(_cost(name, round(size * 1e6), 3600 * hours, 60 * decoding))
    titles = {name: study.systems[name].title or name for name in rows}
    found = [replace(one, dataset="wmt14") for one in found]
    compared = list(beside_papers(list(compared_costs(study)), relative_costs(titles, study.baselines, found)))
    assert len(compared) == 3 * (len(rows) - 1) == 18
    assert {one.verdict for one in compared} == {"as printed"}
    assert [one.ours for one in compared] == pytest.approx([one.compared.printed for one in compared], rel=1e-6)
    assert {one.compared.unit for one in compared} == {"Transformer Base"}


def test_without_a_baseline_there_are_no_ratios() -> None:
    assert relative_costs(TITLES, {"pr": "base"}, [_cost("pr", 1, 1.0, 1.0)]) == []


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
    _, longer = relative_costs({"base": "", "max": ""}, {"max": "base"}, costs(study.study.study, found))
    assert (longer.ratios["training"], longer.ratios["token"]) == (3, 1)
