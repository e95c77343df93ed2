"""The profiles of this machine and of Slurm work right after the installation that README.md describes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from warm_python import WarmPython
from workplace import Workplace

from phrasemt.stages import STAGES
from phrasemt.stages.stage import ModelStage


@pytest.mark.parametrize("profile", ["profiles/local", "slurm", "profiles/lsf"])
def test_stages_that_run_models_ask_for_a_gpu(repository: Path, profile: str) -> None:
    """On local machines and on clusters; otherwise they would wait for a GPU on nodes without one."""
    resources = yaml.safe_load((repository / profile / "profile.yaml").read_text())["set-resources"]
    running = {name for name, stage in STAGES.items() if issubclass(stage, ModelStage)}
    assert "average_checkpoints" in running
    for stage in running:
        assert any("gpu" in f"{key} {value}" for key, value in resources[stage].items()), stage


def test_a_run_that_is_promised_gpus_does_not_train_on_the_cpu(
    repository: Path, tmp_path: Path, warm: WarmPython
) -> None:
    workplace = Workplace.new(repository, tmp_path, warm=warm)
    done = workplace.snakemake("results/tiny/demo.en-de/raw/dev.en", "--resources", "gpu=99")
    assert done.returncode == 2, done.stderr
    assert "phrasemt: error: --resources gpu=99: this machine has fewer GPUs" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (workplace.results / "demo.en-de").exists()


@pytest.mark.parametrize("profile", ["slurm", "profiles/lsf", "profiles/cluster-generic"])
def test_memory_to_learn_subwords_follows_the_size_of_the_text(repository: Path, profile: str) -> None:
    """400,000 types took 886 MB; 100 MB of text have no more."""
    resources = yaml.safe_load((repository / profile / "profile.yaml").read_text())["set-resources"]
    few, many = (
        eval(resources["learn_subwords"]["mem_mb"], {"input": SimpleNamespace(size_mb=size), "attempt": 2}) / 2
        for size in (0.01, 100)
    )
    assert 1000 <= few <= 1010
    assert 886 * 1.5 <= many <= 886 * 3
