"""The wording of `phrasemt plan`. tests/workflow tests the plan itself in a real study."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import invented_runs
import numpy as np
import pytest
from invented_runs import took
from made_table import block, table
from scipy import stats

from phrasemt.commands.plan import PUBLISHED, describe, describe_power, known_deviation
from phrasemt.errors import PhrasemtError
from phrasemt.report.blocks import mean_cell
from phrasemt.runs.costs import Costs
from phrasemt.runs.plan import Job, Plan, Reason
from phrasemt.scoring.significance import holm
from phrasemt.study.reading import load_study

pytestmark = pytest.mark.usefixtures("here")


def job(rule: str, dataset: str | None, system: str | None, *reasons: Reason) -> Job:
    wildcards = {key: name for key, name in (("dataset", dataset), ("system", system)) if name}
    return Job(planned=invented_runs.job(rule, f"{dataset}/{system}", wildcards=wildcards), reasons=list(reasons))


def said(*jobs: Job, datasets: tuple[str, ...] = ("demo", "mine"), cores: int | None = 2) -> list[str]:
    plan = Plan(study="demo", datasets=list(datasets), cores=cores, jobs=list(jobs))
    of_job = {"of": lambda job: Costs(core_hours=0.5), "share_to_annotate": lambda job: 1}
    prices: Any = SimpleNamespace(**of_job, basis=lambda: ["assumed: figures"])
    return [line.strip() for line in describe(plan, prices)]


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
    assert "time: about 45 minutes on 2 cores" in lines
    assert "time: about 30 minutes on 1 core" in said(known, cores=1)
    assert "~: no such job has finished here yet; assumed: figures" in lines


def test_the_time_on_a_cluster_counts_the_start_of_jobs_as_measured() -> None:
    """In the last run a job began after ten minutes; the same job took half an hour before."""
    known = job("train_model", "demo", "a")
    took(known.planned, 1800)
    assert "time: about 30 minutes or more, the longest chain, without the time that jobs wait for Slurm" in said(
        known, cores=None
    )
    invented_runs.begun(known.planned, cores=None, started=invented_runs.ago(seconds=700))
    invented_runs.stage(known.planned, state="finished", started=invented_runs.ago(seconds=100))
    assert (
        "time: about 40 minutes or more, the longest chain, with about 10 minutes for Slurm to start a job, as in the "
        "last run"
    ) in said(known, cores=None)


def power_of(study: Path, gain: float, pair: list[str] | None = None) -> dict[str, list[str]]:
    """The words of each line of `plan --detect`. A training takes two hours."""
    rate = SimpleNamespace(on_gpu=True)
    prices: Any = SimpleNamespace(
        study=load_study(study),
        rate=rate,
        hours_of_training=lambda _: 2.0,
        basis=lambda: ["left out, because their number of lines is not known: a corpus"],
    )
    lines = list(describe_power(prices, gain, pair))
    assert lines[-1] == "left out, because their number of lines is not known: a corpus"
    return {line.split()[0]: line.split()[1:] for line in lines}


def test_so_many_trainings_mark_a_gain_in_four_of_five_repetitions(repository: Path) -> None:
    """Witness: t-tests with the pooled variance of simulated trainings, corrected by Holm."""
    found = power_of(repository / "studies" / "xu2020-en-de.yaml", 0.5)
    needed, systems, times, generator = int(found["pr"][-2]), 8, 3000, np.random.default_rng(1)
    assert found["pr"] == ["1", "not", "tested", "2.00", str(needed), f"{2 * needed:.2f}"]
    assert found["all"] == ["16.00", f"{16 * needed:.2f}"]
    scores = generator.normal(0, PUBLISHED, (times, systems, needed))
    scores[:, 1] += 0.5
    freedom = systems * (needed - 1)
    deviation = np.sqrt(scores.var(2, ddof=1).mean(1) * 2 / needed)
    differences = scores.mean(2)[:, 1:] - scores.mean(2)[:, :1]
    p_values = 2 * stats.t.sf(np.abs(differences) / deviation[:, None], freedom)
    marked = np.mean([holm(row)[0] < 0.05 for row in p_values])
    assert 0.78 < marked < 0.85  # one training fewer would show a little less


def test_a_pair_alone_needs_the_trainings_of_one_t_test(repository: Path) -> None:
    """Witness: the power of SciPy's noncentral t for two systems of n trainings each, not corrected."""
    found = power_of(repository / "studies" / "xu2020-en-de.yaml", 0.5, pair=["base", "pr"])
    assert {"base", "pr", "all"} <= found.keys()
    assert "max" not in found
    needed = int(found["pr"][-2])
    assert found["base"][-2:] == [str(needed), f"{2 * needed:.2f}"]
    assert found["all"][-1] == f"{4 * needed:.2f}"

    def power(trainings: int) -> float:
        freedom, centre = 2 * trainings - 2, 0.5 / (PUBLISHED * (2 / trainings) ** 0.5)
        return float(1 - stats.nct.cdf(stats.t.ppf(0.975, freedom), freedom, centre))

    assert power(needed - 1) < 0.81
    assert power(needed) > 0.79
    with pytest.raises(PhrasemtError, match="no such system"):
        power_of(repository / "studies" / "xu2020-en-de.yaml", 0.5, pair=["base", "prr"])


def test_what_a_study_shows_as_it_stands(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemt.commands.plan.known_deviation", lambda study, kind: (0.42, "given"))
    few, many = (power_of(repository / "studies" / "multi30k-systems.yaml", gain) for gain in (0.001, 1.8))
    assert few["ngrams-3"][-2:] == ["too", "many"]
    assert many["ngrams"][-2] == "3"  # systems with three trainings show 1.79, as the study has them
    assert float(many["ngrams"][1]) < float(many["max"][1])
    with pytest.raises(PhrasemtError, match="nothing to detect"):
        power_of(repository / "studies" / "tatoeba-lm.yaml", 0.5)


def test_trainings_of_this_machine_say_how_much_those_of_a_kind_differ() -> None:
    assert known_deviation("mine", "attention") == (PUBLISHED, "published: Multi30k")
    for name, values in (("a", {1: 29.7, 2: 30.3}), ("b", {1: 29.0, 2: 30.5, 3: 31.0})):
        of_kinds = {"max": values, "recurrent": {1: 20.0, 2: 25.0}}
        about: dict[str, Any] = {"better": "higher", "signature": "", "sources": []}
        cells = {system: {"bleu_tok": mean_cell(by_seed, **about)} for system, by_seed in of_kinds.items()}
        path = Path(f"results/{name}/table.json")
        path.parent.mkdir(parents=True)
        kinds = {"max": "attention", "recurrent": "recurrent"}
        titles = dict(zip(kinds, kinds, strict=True))
        table(titles, {"recurrent": "max"}, block(cells), study=name).model_copy(update={"pool_groups": kinds}).write(
            path
        )
    Path("results/c").mkdir()
    Path("results/c/table.json").write_text("{}")
    variances = np.var([29.7, 30.3], ddof=1), np.var([29.0, 30.5, 31.0], ddof=1)
    pooled = ((variances[0] + 2 * variances[1]) / 3) ** 0.5
    assert known_deviation("mine", "attention") == (pytest.approx(pooled), "of a, b, 3 degrees of freedom")
    assert known_deviation("a", "attention") == (pytest.approx(variances[0] ** 0.5), "of a, 1 degrees of freedom")
    assert known_deviation("a", "recurrent")[0] == pytest.approx(12.5**0.5)
