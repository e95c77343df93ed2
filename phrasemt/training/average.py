"""The stage `average_checkpoints`: the mean of the weights of checkpoints (Vaswani et al. 2017, section 6.1).

These weights translate. Their dev scores may be better or worse than the score of each checkpoint: while a curve is
still steep, the mean of old and new weights is worse than the last checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.artefacts.training import AverageScores, DevScores, LastUpdate, TrainingRecord, ranked
from phrasemt.batching.reader import BatchReader
from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.models.interface import build_model
from phrasemt.models.weights import load_tensors, save_tensors, set_weights
from phrasemt.nn.precision import choose_device
from phrasemt.stages.training import AverageCheckpoints
from phrasemt.training.evaluator import Evaluator, read_dev_references

log = logging.getLogger("phrasemt.average_checkpoints")

# Fields of the description that are equal in all checkpoints of a training.
_COMMON_FIELDS = ("format", "model", "signature", "source_vocabulary", "target_vocabulary")


def average_checkpoints(
    *,
    settings: AverageCheckpoints,
    cores: int,
    record: Path,
    dev: Path,
    dev_reference: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    dev_phrases: list[Path],
    dev_chunks: list[Path],
    weights: Path,
    scores: Path,
) -> None:
    """Average the last checkpoints that a training record names, with sums in float64, and score the average on dev.

    record: record of `train_model`. weights: file to write. scores: JSON with the updates of the averaged checkpoints,
    the dev scores of the average, and the dev scores of the training's last update beside them.
    Raises DamagedFileError for a missing or damaged checkpoint and MismatchError for checkpoints of different
    trainings.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    reader = BatchReader.open(dev, words, settings.reads, dev_phrases, dev_chunks)
    references = read_dev_references(dev_reference, len(reader.examples)) if settings.reads.source else None
    evaluate = Evaluator(reader, references, words.target, settings.dev_bleu)
    model = build_model(settings.model, source_vocabulary=len(words.source), target_vocabulary=len(words.target))
    model.to(choose_device(cores))

    training = TrainingRecord.read(record)
    known = {evaluation.update: evaluation for evaluation in training.evaluations}
    updates, average, description = _mean(record, training.checkpoints[-settings.last :])
    if len(updates) == 1 and updates[0] in known:  # the checkpoint itself, which the training has scored
        evaluation = known[updates[0]]
    else:
        set_weights(model, average, where=weights)
        evaluation = evaluate(model, updates[-1])
    save_tensors(weights, average, description)
    best = DevScores(dev_bleu=evaluation.dev_bleu, dev_perplexity=evaluation.dev_perplexity)
    end = known[training.updates]
    last = LastUpdate(update=end.update, dev_bleu=end.dev_bleu, dev_perplexity=end.dev_perplexity)
    content = AverageScores(
        dataset=settings.dataset,
        system=settings.system,
        seed=settings.seed,
        sentences=len(reader.examples),
        dev_bleu_tokenizer=settings.dev_bleu,
        updates=updates,
        **dict(best),
        last=last,
        worse_than_last=ranked([best, last], settings.best_by)[0] is last,
    )
    content.write(scores)
    log.info(
        "average_checkpoints: %d checkpoints, of the updates %s: dev %s; the last update: dev %s",
        len(updates),
        ", ".join(map(str, updates)),
        best.summary,
        last.summary,
    )
    if content.worse_than_last:
        log.warning(
            "average_checkpoints: warning: %s, seed %d: the average is worse on dev than the last update. Next: lower "
            "average_last or checkpoint_every (with average_best: lower it), or train longer",
            settings.system,
            settings.seed,
        )


def _mean(record: Path, names: Sequence[str]) -> tuple[list[int], dict[str, Tensor], dict[str, Any]]:
    """Return the updates of checkpoints, the mean of their weights in float32, and the description of its file."""
    sums: dict[str, Tensor] = {}
    updates: list[int] = []
    common: dict[str, Any] = {}
    for name in reversed(names):
        path = record.parent / name
        if not path.exists():
            what = "a checkpoint named by the training record is missing"
            raise DamagedFileError(what, where=path, next_step=f"delete {record} and run train_model again")
        tensors, description = load_tensors(path)
        common = common or description
        if any(description.get(key) != common.get(key) for key in _COMMON_FIELDS):
            raise MismatchError(
                "checkpoints of different trainings",
                where=path,
                expected=f"a checkpoint of the same training as {record.parent / names[-1]}",
                next_step=f"delete {record} and run train_model again",
            )
        for parameter, tensor in tensors.items():
            sums[parameter] = sums[parameter] + tensor if updates else tensor.double()
        updates = [description["update"], *updates]
    mean = {parameter: (total / len(names)).to(torch.float32) for parameter, total in sums.items()}
    return updates, mean, {**common, "averaged": list(names)}
