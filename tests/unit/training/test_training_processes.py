"""Several processes that train one model: the same training, and ends that leave nothing behind.

Real processes with gloo, started as a user starts them.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import time

import pytest
import torch
from processes import PATIENCE, descendants, is_running, wait_until, wait_until_gone
from trainings import assert_equal_runs, command, results, run, settings_of

STOPPED = 85


def start(tiny_data, folder, settings, *options):
    folder.mkdir(exist_ok=True)
    with (folder / "messages").open("a") as messages:
        return subprocess.Popen(command(tiny_data, folder, settings, *options), stderr=messages)


def finish(tiny_data, folder, settings, *options):
    process = start(tiny_data, folder, settings, *options)
    assert process.wait(timeout=PATIENCE) == 0, (folder / "messages").read_text()
    return results(folder)


def assert_close_runs(one, other):
    """float32 sums in another order: after 50 updates of Adam, losses and weights differ by rounding only."""
    for ours, theirs in zip(one[0]["evaluations"], other[0]["evaluations"], strict=True):
        assert ours["dev_perplexity"] == pytest.approx(theirs["dev_perplexity"], rel=1e-5)
    for (update, ours, _), (same_update, theirs, _) in zip(one[2], other[2], strict=True):
        assert update == same_update
        assert ours == (theirs if theirs is None else pytest.approx(theirs, abs=1e-5))
    for name, tensor in one[1][-1].items():
        torch.testing.assert_close(other[1][-1][name], tensor, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_processes_of_another_launcher_train_alike(tiny_data, tmp_path):
    """Started as by torchrun or srun. In updates of one pair the second process contributes nothing; nobody waits."""
    settings = settings_of(dropout=0.0, sentences_per_update=1, max_updates=3, evaluate_every=3, checkpoint_every=3)
    alone = run(tiny_data, tmp_path / "alone", settings)
    folder = tmp_path / "started"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            command(tiny_data, folder, settings, "--processes", "2"),
            env=os.environ | world | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in "01"
    ]
    assert [process.wait(timeout=PATIENCE) for process in processes] == [0, 0]
    assert_close_runs(alone, results(folder))


def state_of(folder):
    """The state in the note of a training; None before it has written one."""
    notes = list(folder.glob("state/*/note.json"))
    return json.loads(notes[0].read_text())["state"] if notes else None


@pytest.mark.slow
def test_two_processes_stop_after_the_same_update_and_resume(tiny_data, tmp_path):
    """Stopped by a batch system and by Ctrl-C, the training ends with the weights of a training without stops."""
    settings = settings_of(max_updates=200, evaluate_every=200, checkpoint_every=200)
    folder = tmp_path / "stopped"
    for signum in (signal.SIGUSR1, signal.SIGINT):
        process = start(tiny_data, folder, settings, "--processes", "2")
        wait_until(lambda: state_of(folder) == "running", process)
        process.send_signal(signum)
        assert process.wait(timeout=PATIENCE) == STOPPED
        assert not (folder / "training.json").exists()
        assert state_of(folder) == "stopped"
        assert f"saved the state: asked to stop by {signum.name}" in (folder / "messages").read_text()
    stopped = finish(tiny_data, folder, settings, "--processes", "2")
    assert_equal_runs(finish(tiny_data, tmp_path / "whole", settings, "--processes", "2"), stopped)


@pytest.mark.parametrize("processes", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_second_training_of_a_model_is_refused_and_leaves_the_first_alone(tiny_data, tmp_path, processes):
    settings = settings_of(max_updates=100, evaluate_every=100, checkpoint_every=100)
    folder, options = tmp_path / "both", ("--processes", processes)
    first = start(tiny_data, folder, settings, *options)
    wait_until(lambda: state_of(folder) == "running", first)
    pids = [first.pid, *descendants(first)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    second = subprocess.run(
        command(tiny_data, folder, settings, *options), stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert second.returncode == 2, second.stderr
    assert re.search(
        rf"another process trains this model \(found process ({'|'.join(map(str, pids))}) on ", second.stderr
    )
    assert first.wait(timeout=PATIENCE) == 0
    folder, both = tmp_path / "alone", results(folder)
    alone = run(tiny_data, folder, settings) if processes == "1" else finish(tiny_data, folder, settings, *options)
    assert_equal_runs(alone, both)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_a_process_that_dies_ends_the_others(tiny_data, tmp_path, size):
    settings = settings_of(max_updates=100_000, evaluate_every=100_000, checkpoint_every=20)
    process = start(tiny_data, tmp_path, settings, "--processes", str(size))
    wait_until(lambda: list(tmp_path.glob("state/*/latest.safetensors")), process)
    pids = descendants(process)
    assert len(pids) == size
    os.kill(pids[1], signal.SIGKILL)
    assert process.wait(timeout=PATIENCE) == 2
    assert f"process 1 of {size} was ended by SIGKILL" in (tmp_path / "messages").read_text()
    assert not [pid for pid in pids if is_running(pid)]


@pytest.mark.slow
def test_processes_end_with_their_launcher(tiny_data, tmp_path):
    settings = settings_of(max_updates=100_000, evaluate_every=100_000)
    process = start(tiny_data, tmp_path, settings, "--processes", "2")
    wait_until(lambda: list(tmp_path.glob("state/*/note.json")), process)
    pids = descendants(process)
    assert len(pids) == 2
    process.kill()
    process.wait()
    wait_until_gone(pids)


def test_another_number_of_processes_than_requested_is_refused(tiny_data, tmp_path):
    environment = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "3"}
    words = command(tiny_data, tmp_path, settings_of(), "--processes", "2")
    finished = subprocess.run(words, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert finished.returncode == 2
    assert "is not the requested one (--processes) (expected 2, found 3" in finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_again_and_again(tiny_data, tmp_path, processes):
    """SIGKILL or SIGTERM at random moments changes neither curve nor weights: first at the start, then after some."""
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    draw = random.Random(seed)
    options = ("--processes", str(processes))
    updates = 2000 // processes  # ten seconds
    settings = settings_of(max_updates=updates, evaluate_every=250, checkpoint_every=7, average_last=3)
    whole = finish(tiny_data, tmp_path / "whole", settings, *options)
    folder = tmp_path / "killed"

    def done() -> int:
        """The update of the last report, of which there is one after 20 updates."""
        reports = [line for path in folder.glob("state/*/metrics.jsonl") for line in path.read_text().splitlines()]
        return max((json.loads(line).get("update", 0) for line in reports if line.endswith("}")), default=0)

    for goal in [0, *sorted(draw.sample(range(20, int(0.7 * updates)), k=5))]:
        process = start(tiny_data, folder, settings, *options)
        wait_until(lambda goal=goal: done() >= goal, process)
        time.sleep(draw.uniform(0, 0.1 if goal else 2))
        assert process.poll() is None
        process.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait(timeout=PATIENCE)
    assert_equal_runs(whole, finish(tiny_data, folder, settings, *options))
