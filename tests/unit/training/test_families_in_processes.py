"""Several processes train and evaluate every family as one process does, also where memory runs out amid an update.

float64, without dropout. Sums of gradients in another order differ in their last digits, which Adam enlarges where a
gradient is nearly 0: 1e-9 is a millionth of a step. Evaluations add in one order, so they are equal to the last bit.

A process that hangs is tested without a model, and one that is killed with one family (test_training_processes.py).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import timedelta

import pytest
import torch
from drawn_pairs import drawn_reader, plan_of_updates
from small_systems import SYSTEMS, TARGET_VOCABULARY, random_model
from trainings import settings_of_paper

import phrasemt.training.process_group as process_group
from phrasemt.artefacts.columns import Vocabulary
from phrasemt.decoding import beam
from phrasemt.machine.launch import RENDEZVOUS, leave
from phrasemt.study.schema import Decoding
from phrasemt.training.evaluator import Evaluator
from phrasemt.training.process_group import LostProcessError, join_processes
from phrasemt.training.trainer import Trainer

UPDATES = 4


def train(rank, size, folder, systems, shortages):
    """One process. The first one writes, of all systems, evaluations before the first update, weights and gradients."""
    world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), RENDEZVOUS: str(folder / f"{size}")}
    os.environ.update(world)
    torch.set_num_threads(1)
    found = {}
    with join_processes(size) as group:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for system in systems:
            model = SYSTEMS[system]
            reader = drawn_reader(model.model_inputs, pairs=120, vocabulary=TARGET_VOCABULARY, median=4, longest=8)
            settings = settings_of_paper(model, max_length=8)
            trainer = Trainer(random_model(model).double().to(device), reader, settings, group)
            evaluation = evaluate(trainer.model, model, group)
            trainer.capacity = 256 * (rank + 1)  # unequal numbers of micro-batches
            plan = plan_of_updates(settings, reader.examples).updates()
            for number in range(1, UPDATES + 1):
                short = rank == size - 1 and number in shortages
                with run_out_of_memory(trainer.model, shortages[number]) if short else nullcontext():
                    assert not trainer.update(number, next(plan)[2]).skipped
            assert trainer.capacity == 256 * (rank + 1) // 2 ** (len(shortages) * (rank == size - 1))
            parameters = [*trainer.model.parameters()]
            sums = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
            found[system] = evaluation, *([one.detach().cpu() for one in tensors] for tensors in (parameters, sums))
    if group.is_first:
        torch.save(found, folder / f"{size}.found")
    leave(0)


def evaluate(model, settings, group):
    """Losses and measurements of five batches, and translations."""
    beam._BATCH_POSITIONS = {"cpu": 20, "cuda": 20}
    reader = drawn_reader(settings.model_inputs, pairs=20, vocabulary=TARGET_VOCABULARY, median=4, longest=8, seed=2)
    with torch.inference_mode():
        batches = reader.batches(24, model.eval().device)
        assert len(batches) > 4
        losses, measurements = model.measure(batches, map_batches=group.map)
        search = Evaluator(reader, None, Vocabulary([], digest=""), "13a", group)
        search._SEARCH = Decoding(beam=1, length_penalty=0.0, max_length_extra=3)  # untrained models find no end
        return asdict(losses), measurements, search._translate(model) if settings.translates else None


@contextmanager
def run_out_of_memory(model, share):
    """Within the block memory runs out once, when this share of the gradients is complete for the first time."""
    parameters = list(model.parameters())
    complete, ran_out = set(), []

    def completed(parameter):
        complete.add(parameter)
        if not ran_out and len(complete) >= share * len(parameters):
            ran_out.append(True)
            raise torch.OutOfMemoryError

    handles = [parameter.register_post_accumulate_grad_hook(completed) for parameter in parameters]
    yield
    assert ran_out
    for handle in handles:
        handle.remove()


def start(target, size, *arguments):
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    processes = [spawn.Process(target=target, args=(rank, size, *arguments)) for rank in range(size)]
    for process in processes:
        process.start()
    return processes


def found_by(size, folder, monkeypatch, systems, shortages):
    if torch.cuda.device_count() < size:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    processes = start(train, size, folder, systems, shortages)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * size
    return torch.load(folder / f"{size}.found")


@pytest.mark.parametrize(
    ("sizes", "systems"), [((2,), [*SYSTEMS][:1]), pytest.param((2, 4), [*SYSTEMS], marks=pytest.mark.slow)]
)
def test_processes_train_alike_and_begin_an_update_again_when_memory_runs_out(tmp_path, monkeypatch, sizes, systems):
    """It runs out in the last process, when few of its gradients are complete, and when nearly all are."""
    alone = found_by(1, tmp_path, monkeypatch, systems, {})
    for size in sizes:
        together = found_by(size, tmp_path, monkeypatch, systems, {1: 0.4, 2: 0.01, 3: 0.5, 4: 0.9})
        assert together.keys() == alone.keys()
        for system, (evaluation, weights, sums) in alone.items():
            assert together[system][0] == evaluation
            torch.testing.assert_close(together[system][1], weights, rtol=0, atol=1e-9)
            # Adam hardly sees a factor of all gradients. The weights of the last update differ a little already.
            torch.testing.assert_close(together[system][2], sums, rtol=1e-5, atol=1e-7)


def hang(rank, size, folder):
    """The last process stops while the others wait for it."""
    os.environ.update({"RANK": str(rank), "WORLD_SIZE": str(size), RENDEZVOUS: str(folder / "meeting")})
    process_group.PATIENCE = timedelta(seconds=3)
    try:
        with join_processes(size) as group:
            group.barrier()
            (folder / f"{rank}.met").touch()
            if rank == size - 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            group.barrier()
    except LostProcessError as error:  # as a stage ends
        (folder / f"{rank}.log").write_text(str(error))
        leave(error.exit_code)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_a_process_that_hangs_ends_the_others(tmp_path, size):
    *others, last = start(hang, size, tmp_path)
    try:
        for process in others:
            process.join(timeout=120)
            assert process.exitcode == LostProcessError.exit_code
    finally:
        last.kill()
    assert len(list(tmp_path.glob("*.met"))) == size
    for path in tmp_path.glob("*.log"):
        assert path.read_text().startswith("lost another process of this training (found ")
