"""Several processes train every family as one process does.

float64, without dropout. Sums in another order differ in their last digits, which Adam enlarges where a gradient is
nearly 0: 1e-9 is a millionth of a step.
"""

from __future__ import annotations

import multiprocessing
import os

import pytest
import torch
from drawn_pairs import drawn_reader, plan_of_updates
from small_systems import SYSTEMS, TARGET_VOCABULARY, random_model
from trainings import settings_of_paper

from phrasemt.machine.launch import RENDEZVOUS, leave
from phrasemt.training.process_group import join_processes
from phrasemt.training.trainer import Trainer

UPDATES = 4


def train(rank, size, folder):
    """One process. The first one writes the weights of all systems."""
    world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), RENDEZVOUS: str(folder / f"{size}")}
    os.environ.update(world)
    torch.set_num_threads(1)
    weights = {}
    with join_processes(size) as group:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for system, model in SYSTEMS.items():
            reader = drawn_reader(model.model_inputs, pairs=120, vocabulary=TARGET_VOCABULARY, median=4, longest=8)
            settings = settings_of_paper(model)
            trainer = Trainer(random_model(model).double().to(device), reader, settings, group)
            plan = plan_of_updates(settings, reader.examples).updates()
            results = [trainer.update(number, next(plan)[2]) for number in range(1, UPDATES + 1)]
            assert not any(result.skipped for result in results)
            weights[system] = [parameter.detach().cpu() for parameter in trainer.model.parameters()]
    if group.is_first:
        torch.save(weights, folder / f"{size}.weights")
    leave(0)


def weights_of(size, folder, monkeypatch):
    if torch.cuda.device_count() < size:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    processes = [spawn.Process(target=train, args=(rank, size, folder)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * size
    return torch.load(folder / f"{size}.weights")


@pytest.mark.slow
def test_processes_train_all_families_alike(tmp_path, monkeypatch):
    alone = weights_of(1, tmp_path, monkeypatch)
    for size in (2, 4):
        together = weights_of(size, tmp_path, monkeypatch)
        assert together.keys() == alone.keys()
        for system, weights in alone.items():
            torch.testing.assert_close(together[system], weights, rtol=0, atol=1e-9)
