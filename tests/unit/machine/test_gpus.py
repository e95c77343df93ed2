"""GPUs are locked by one job at a time: real locks, and a stand-in for the program that lists GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from snakemake.resources import Resources

from phrasemt.errors import PhrasemtError
from phrasemt.machine import gpus
from phrasemt.machine.gpus import VISIBLE, lease, visible_gpus
from phrasemt.nn.precision import choose_device
from phrasemt.runs.start import refuse_absent_gpus
from phrasemt.training import process_group

HOLD = """
import sys, pathlib
from phrasemt.machine import gpus
gpus.LOCKS = pathlib.Path(sys.argv[1])
with gpus.lease(int(sys.argv[2])):
    print(gpus.os.environ[gpus.VISIBLE], flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0, GPU-a\\n1, GPU-b\\n2, GPU-c\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setattr(gpus, "LOCKS", tmp_path)


def _elsewhere(tmp_path: Path, count: int) -> subprocess.Popen[str]:
    """Another process that locks GPUs until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("killed", [False, True])
def test_it_waits_until_there_are_enough(killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _elsewhere(tmp_path, 2) as other:
        other.stdout.readline()

        def end_the_other(seconds: float) -> None:
            with lease(1):  # nothing is held while waiting
                assert os.environ[VISIBLE] == "GPU-c"
            other.kill() if killed else other.stdin.close()
            other.wait(60)

        monkeypatch.setattr(gpus, "time", SimpleNamespace(sleep=end_the_other))
        with lease(3):
            assert os.environ[VISIBLE] == "GPU-a,GPU-b,GPU-c"
            assert other.poll() is not None


@pytest.mark.parametrize("what", ["a pipe", "a link to nothing", "a link", "a folder"])
def test_what_another_user_puts_in_place_of_a_lock_harms_nobody(what: str, tmp_path: Path) -> None:
    place, target = tmp_path / "phrasemt-GPU-a.lock", tmp_path / "target"
    if what == "a pipe":
        os.mkfifo(place)
    elif what == "a folder":
        place.mkdir()
    else:
        place.symlink_to(target)
    if what == "a link":
        target.touch()
    with pytest.raises(PhrasemtError, match=r"GPU-a\.lock: this GPU cannot be locked"), lease(1):
        pass
    assert target.exists() == (what == "a link")


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [("2,0", "GPU-c"), ("GPU-b", "GPU-b"), ("MIG-x", "MIG-x"), ("", None), ("NoDevFiles", None)],
)
def test_it_locks_what_may_be_used(allowed: str, expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, allowed)
    with lease(1):
        assert os.environ[VISIBLE] == (allowed if expected is None else expected)
    assert os.environ[VISIBLE] == allowed


def test_the_beginning_of_an_identifier_is_that_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA accepts it. Two locks of one GPU would let two jobs use it."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nprintf '0, GPU-a1b2\\n1, GPU-a1c3\\n'\n")
    monkeypatch.setenv(VISIBLE, "GPU-a1b,0,GPU-a1")
    assert visible_gpus() == ["GPU-a1b2", "GPU-a1"]


def test_each_process_of_a_training_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all GPUs of the node, or the only one that it sees, as with `srun --gpus-per-task=1`."""
    taken: list[int] = []
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    for seen, local_rank in ((2, 0), (2, 1), (1, 0), (1, 3)):
        monkeypatch.setattr("torch.cuda.device_count", lambda seen=seen: seen)
        process_group._take_gpu(local_rank)
    assert taken == [0, 1, 0, 0]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(PhrasemtError, match=r"no GPU for this training process .*found 2"):
        process_group._take_gpu(2)
    process_group._refuse_shared_gpus(["GPU-a", "GPU-b"])
    with pytest.raises(PhrasemtError, match=r"processes of this training share a GPU .*found GPU-a\)"):
        process_group._refuse_shared_gpus(["GPU-a", "GPU-b", "GPU-a"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch can use a GPU here")
def test_a_gpu_that_torch_cannot_use_is_an_error_and_not_a_training_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    message = r"CUDA_VISIBLE_DEVICES=(\S*): torch cannot use the GPU that it was given .*Next: compare `nvidia-smi`"
    for named in ("0", "7", "GPU-b"):
        monkeypatch.setenv(VISIBLE, named)
        with pytest.raises(PhrasemtError, match=message):
            choose_device(1)
    for none in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv(VISIBLE, none)
        assert choose_device(1).type == "cpu"
    monkeypatch.delenv(VISIBLE)
    assert choose_device(1).type == "cpu"
    with lease(1), pytest.raises(PhrasemtError, match=message):
        choose_device(1)


def test_promised_gpus_that_are_not_there_end_a_run() -> None:
    def begin(*promised: str, local: bool = True) -> None:
        resources = Resources.parse(promised, allow_expressions=False)
        refuse_absent_gpus(SimpleNamespace(local_exec=local, global_resources=resources))

    begin()
    begin("gpu=3", "mem_mb=100")
    begin("gpu=4", local=False)  # its jobs run on other machines
    with pytest.raises(PhrasemtError, match="--resources gpu=4: this machine has fewer GPUs"):
        begin("gpu=4")


def test_more_than_there_are_is_an_error() -> None:
    with pytest.raises(PhrasemtError, match=r"not enough GPUs \(expected 4, one for each process, found 3"), lease(4):
        pass


@pytest.mark.parametrize("answer", ["exit 9", "echo No devices were found"])
def test_without_gpus_nothing_is_locked(answer: str, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    with lease(2):
        assert VISIBLE not in os.environ
    assert not list(tmp_path.glob("*.lock"))
