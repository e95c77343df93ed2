"""What jobs are likely to cost, by the benchmarks of finished jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invented_runs import job, took

from phrasemt.runs.costs import Costs, Recorded
from phrasemt.runs.start import gpus_of

pytestmark = pytest.mark.usefixtures("here")


def test_the_same_job_counts_first_then_its_rule_and_other_studies_never() -> None:
    own, other = job("train_model", "a"), job("train_model", "b", threads=4, gpus=1)
    took(own, 1800)
    recorded = Recorded("demo")
    assert recorded.seconds(own) == 1800
    assert recorded.seconds(other) == 1800
    assert Recorded("mine").seconds(job("train_model", "c")) is None
    assert recorded.seconds(job("score_system")) is None
    estimate = Costs(core_hours=7, bytes=9)
    assert recorded.of(other, estimate) == Costs(core_hours=2.0, gpu_hours=0.5, bytes=9)
    assert recorded.of(job("score_system"), estimate) == Costs(core_hours=7, bytes=9, estimated=1)


@pytest.mark.parametrize("text", ["", "s\n", "s\tx\n-\t1\n", "\x00\n"])
def test_damaged_records_are_no_records(text: str) -> None:
    planned = job("compare_systems")
    took(planned, 1)
    Path(planned.benchmark or "").write_text(text)
    assert Recorded("demo").seconds(planned) is None


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({}, 0),
        ({"gpu": 4, "gres": "gpu:2"}, 4),
        ({"gres": "gpu:a100:2", "nodes": 2}, 4),
        ({"slurm_extra": "--gpus-per-node=4"}, 4),
    ],
)
def test_gpus_are_counted_over_all_nodes(resources: dict[str, Any], gpus: int) -> None:
    assert gpus_of(SimpleNamespace(resources=resources)) == gpus
