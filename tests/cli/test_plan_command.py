"""The wording of `phrasemt plan`. tests/workflow tests the plan itself in a real study."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import invented_runs
import pytest
from invented_runs import took

from phrasemt.commands.plan import describe
from phrasemt.runs.costs import Costs
from phrasemt.runs.plan import FOLLOWS, NEVER, SETTINGS, Job, Plan, Reason

pytestmark = pytest.mark.usefixtures("here")


def job(rule: str, dataset: str | None, system: str | None, *reasons: Reason) -> Job:
    wildcards = {key: name for key, name in (("dataset", dataset), ("system", system)) if name}
    return Job(planned=invented_runs.job(rule, f"{dataset}/{system}", wildcards=wildcards), reasons=list(reasons))


def said(*jobs: Job, datasets: tuple[str, ...] = ("demo", "mine")) -> list[str]:
    plan = Plan(study="demo", datasets=list(datasets), cores=2, jobs=list(jobs))
    prices: Any = SimpleNamespace(of=lambda job: Costs(core_hours=0.5), assumed="figures", unknown=())
    return [line.strip() for line in describe(plan, prices)]


def test_a_change_names_the_systems_and_data_sets_that_it_affects() -> None:
    beam, merges = Reason(why=SETTINGS, what="beam: 2 -> 3"), Reason(why=SETTINGS, what="merges: 9 -> 8")
    jobs = (
        job("translate_examples", "demo", "max", beam),
        job("translate_examples", "mine", "max", beam),
        job("learn_subwords", "mine", None, merges),
        job("make_table", None, None, Reason(why=SETTINGS, what="title: a -> b")),
    )
    lines = said(*jobs)
    assert "settings beam: 2 -> 3: translate_examples of max on demo, mine" in lines
    assert "settings merges: 9 -> 8: learn_subwords on mine" in lines
    assert "settings title: a -> b: make_table" in lines
    assert "settings merges: 9 -> 8: learn_subwords" in said(*jobs[2:], datasets=("mine",))


def test_costs_come_with_what_they_rest_on() -> None:
    known, other, unknown = (
        job("train_model", "demo", "a"),
        job("train_model", "demo", "b"),
        job("make_table", None, None),
    )
    took(known.planned, 1800)
    lines = said(known, other, unknown)
    assert ["train_model", "2", "1.00"] in [line.split()[:3] for line in lines]
    assert ["make_table", "1", "~0.50"] in [line.split()[:3] for line in lines]
    assert "GPU h" not in lines[1], "no job uses a GPU"
    assert "time: about 0:45:00 on 2 cores" in lines
    assert "~: no such job has finished here yet; assumed: figures" in lines


def test_the_reasons_of_a_rule_add_up_to_its_jobs() -> None:
    never, follows = Reason(why=NEVER), Reason(why=FOLLOWS)
    lines = said(
        job("score_system", "demo", "a", never, follows),
        job("score_system", "demo", "b", follows),
        job("score_system", "demo", "c", follows),
        job("translate_examples", "demo", "a", never),
    )
    why = {line.split()[0]: line for line in lines}
    assert why["score_system"].endswith("  1 never run, 2 what it reads is made again")
    assert why["translate_examples"].endswith("  never run")
