"""Several processes that train one model, on one node and on two: as on this machine without a cluster."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from one_host_slurm import ask, restarts, wait_until
from site_of_tests import PATIENCE, Site, has_heard, resume

TWO_NODES = (
    *("nodes=2", "processes=2", "slurm_partition=gpu", "mpi=srun", "tasks=2"),
    "slurm_extra='--ntasks-per-node=1 --gpus-per-node=1'",
)


def _resources(*of_training: str) -> tuple[str, ...]:
    return ("--set-resources", *(f"train_model:{one}" for one in of_training))


def _trained(site: Site) -> dict[str, bytes]:
    """The record of the training and the weights it names."""
    record = json.loads((site.folder / site.record).read_text())
    assert record["processes"] == 2
    return {name: (site.model / name).read_bytes() for name in ("training.json", *record["checkpoints"])}


@pytest.fixture(scope="module")
def expected(_local: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What two processes learn on this machine."""
    folder = tmp_path_factory.mktemp("processes") / "site"
    shutil.copytree(_local.folder, folder, symlinks=True)
    site = Site(folder)
    site.forget_training()
    site.finish_here(site.record, *_resources("processes=2"))
    return _trained(site)


def test_two_nodes_save_together_and_come_back(site: Site, expected: dict[str, bytes], cluster: Path) -> None:
    run = site.start(site.record, *_resources(*TWO_NODES))
    training = site.hold_training(processes=3)  # one of them has started the others
    job = site.training_job()
    assert ask("squeue", "-h", "-j", job, "-o", "%D %C").split()[0] == "2"
    ask("scancel", "--signal=USR1", job)  # as before the end of its time
    wait_until(lambda: sum(has_heard(process, signal.SIGUSR1) for process in training) > 1, "the signal", PATIENCE)
    resume(training)
    assert "Error" not in site.finish(run)
    assert list(site.jobs()) == [job]
    assert restarts(job) == 1
    assert _trained(site) == expected
    wait_until(lambda: not site.processes(), "end of all processes", PATIENCE)
