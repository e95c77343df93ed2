"""The stage `average_checkpoints`: the mean of the weights of checkpoints (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import torch

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.models.weights import load_tensors, save_tensors
from phrasemt.stages.training import AverageCheckpoints

log = logging.getLogger("phrasemt.average_checkpoints")

# Fields of the description that are equal in all checkpoints of a training.
_COMMON_FIELDS = ("format", "model", "signature", "source_vocabulary", "target_vocabulary")


def average_checkpoints(*, settings: AverageCheckpoints, cores: int, record: Path, weights: Path) -> None:
    """Average the last `settings.last` checkpoints that a training record names, with sums in float64.

    record: record of `train_model`. weights: file to write. Raises DamagedFileError for a missing or damaged checkpoint
    and MismatchError for checkpoints of different trainings.
    """
    names = json.loads(record.read_text(encoding="utf-8"))["checkpoints"][-settings.last :]
    paths = [record.parent / name for name in names]
    for path in paths:
        if not path.exists():
            raise DamagedFileError(
                "a checkpoint named by the training record is missing",
                where=path,
                next_step=f"delete {record} and run train_model again",
            )
    sums, description = load_tensors(paths[0])
    sums = {name: tensor.double() for name, tensor in sums.items()}
    for path in paths[1:]:
        tensors, other = load_tensors(path)
        if any(description.get(key) != other.get(key) for key in _COMMON_FIELDS):
            raise MismatchError(
                "checkpoints of different trainings",
                where=path,
                expected=f"a checkpoint of the same training as {paths[0]}",
                next_step=f"delete {record} and run train_model again",
            )
        for name, tensor in tensors.items():
            sums[name] += tensor
    average = {name: (tensor / len(paths)).to(torch.float32) for name, tensor in sums.items()}
    save_tensors(weights, average, {**description, "averaged": names})
    log.info("average_checkpoints: %d checkpoints, %s", len(names), ", ".join(names))
