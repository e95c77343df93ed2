"""The stage `train_model`: updates, evaluations on dev, checkpoints, and going on after a kill."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from phrasemt.batching.example import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.errors import MismatchError, PhrasemtError, StoppedError
from phrasemt.files.digests import digest_bytes, digest_file
from phrasemt.files.lines import read_lines, write_text
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights
from phrasemt.search.device import choose_device
from phrasemt.stages.training import TrainModel
from phrasemt.study.schema import Training
from phrasemt.text.vocab import Vocabulary
from phrasemt.train.checkpoint import Progress, StateFolder
from phrasemt.train.evaluator import Evaluator
from phrasemt.train.ranks import Ranks, joined
from phrasemt.train.reporting import Reporter
from phrasemt.train.stopping import StopRequest
from phrasemt.train.trainer import Trainer
from phrasemt.workflow.code import code_digest

log = logging.getLogger("phrasemt.train_model")

RECORD_FORMAT = 1
# Updates in a row without a finite loss and gradient after which there is no hope.
_SKIPPED_AT_MOST = 10
_UPDATES_BETWEEN_REPORTS = 20


def train_model(
    *,
    settings: TrainModel,
    cores: int,
    processes: int = 1,
    minutes: float = 0,
    train: Path,
    dev: Path,
    dev_reference: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    train_phrases: list[Path],
    dev_phrases: list[Path],
    train_chunks: list[Path],
    dev_chunks: list[Path],
    record: Path,
    state: Path,
) -> None:
    """Train a system to the end of its budget and write the record of it.

    `state` keeps checkpoints and the place to go on from between runs; the same command after a kill goes on there and
    ends with the same weights (on the same machine). processes: how many train together, of which this is one. minutes:
    the time there is, 0 for as much as it takes. Raises StoppedError when it is up, or a signal asked to stop.
    """
    with StopRequest(minutes) as stop, joined(processes) as ranks:
        device = choose_device(max(1, cores // processes))
        source_words, target_words = Vocabulary.from_file(source_vocabulary), Vocabulary.from_file(target_vocabulary)
        train_examples, dev_examples = Examples.open(train), Examples.open(dev)
        for examples in (train_examples, dev_examples):
            examples.check_vocabularies(source_words, target_words)

        torch.manual_seed(settings.seed)
        model = build_model(
            settings.model, source_vocabulary=len(source_words), target_vocabulary=len(target_words)
        ).to(device)
        train_reader = BatchReader(train_examples, settings.reads, train_phrases, train_chunks)
        dev_reader = BatchReader(dev_examples, settings.reads, dev_phrases, dev_chunks)
        trainer = Trainer(model, train_reader, settings, ranks)
        references = list(read_lines(dev_reference)) if settings.reads.source else None
        evaluate = Evaluator(dev_reader, references, target_words)
        by_sentences = settings.training.sentences_per_update is not None
        update_size = settings.training.sentences_per_update or settings.training.tokens_per_update
        assert update_size is not None
        plan = UpdatePlan(
            # What a model does not read does not decide which pairs it sees.
            source_lengths=train_examples.source_lengths if settings.reads.source else train_examples.target_lengths,
            target_lengths=train_examples.target_lengths,
            update_size=update_size,
            by_sentences=by_sentences,
            max_length=settings.training.max_length,
            seed=settings.seed,
        )
        parameters = sum(parameter.numel() for parameter in model.parameters())
        log.info(
            "train_model: %s, %s parameters, %s pairs (%d too long), about %d updates an epoch, %s on %s%s",
            settings.model.family,
            f"{parameters:,}",
            f"{plan.pairs:,}",
            len(train_examples) - plan.pairs,
            plan.updates_of_an_epoch,
            settings.training.precision,
            device,
            f", {ranks.size} processes" if ranks.size > 1 else "",
        )
        folder = StateFolder(
            state,
            signature=_signature(
                settings,
                *(train, dev, dev_reference, source_vocabulary, target_vocabulary, *train_phrases, *dev_phrases),
                *(*train_chunks, *dev_chunks),
            ),
            description=describe_weights(settings.model, source_words, target_words),
        )
        progress, stopped = _run(trainer, evaluate, plan, folder, ranks, stop)
        if not ranks.first:
            return
        write_text(
            record,
            json.dumps(
                {
                    "format": RECORD_FORMAT,
                    "model": settings.model.model_dump(mode="json"),
                    "parameters": parameters,
                    "updates": progress.update,
                    "stopped": stopped,
                    "skipped": progress.skipped,
                    "processes": ranks.size,
                    "micro_batch_positions": progress.positions,
                    "micro_batches_per_update": round(progress.micro_batches / progress.update, 2),
                    "checkpoints": [f"{state.name}/{folder.folder.name}/{name}" for name in progress.checkpoints],
                    "best_update": progress.best["update"] if progress.best else None,
                    "evaluations": progress.evaluations,
                    "metrics": f"{state.name}/{folder.folder.name}/{folder.metrics.name}",
                },
                indent=1,
                sort_keys=True,  # what comes back from a saved state has another order
            )
            + "\n",
        )


def _signature(settings: TrainModel, *inputs: Path) -> str:
    """Digest of all that a training's result follows from, apart from the machine: settings, data and code."""
    code = code_digest(*settings.code_modules())
    return digest_bytes("\n".join([settings.canonical_json(), code, *map(digest_file, inputs)]).encode())


def _run(
    trainer: Trainer, evaluate: Evaluator, plan: UpdatePlan, folder: StateFolder, ranks: Ranks, stop: StopRequest
) -> tuple[Progress, str]:
    """All updates that are still to do; returns the final progress and why training ended."""
    settings = trainer.settings
    progress = folder.load(trainer) or Progress(best_by=settings.best_by)
    if ranks.of_first([folder.folder.name, progress.update]) != [folder.folder.name, progress.update]:
        raise MismatchError(
            "the processes of this training do not see the same state",
            where=folder.folder,
            found=f"process {ranks.rank} at update {progress.update}",
            next_step="the folder must be one that all nodes share; run again",
        )
    if progress.update:
        log.info("going on after update %d", progress.update)
    if len(progress.positions) == ranks.size:
        trainer.positions = progress.positions[ranks.rank]
    else:
        trainer.fit(plan)
    with ExitStack() as stack:
        reporter = None
        if ranks.first:
            folder.tidy(progress.update)
            reporter = stack.enter_context(
                Reporter(
                    folder.metrics,
                    first_update=progress.update,
                    max_updates=settings.max_updates,
                    seconds=progress.seconds,
                    device=trainer.device,
                    processes=ranks.size,
                )
            )
        for epoch, position, rows in plan.updates(first_epoch=progress.epoch, first_update=progress.position):
            if _ended(progress, settings):
                break
            started = time.monotonic()
            result = trainer.update(progress.update + 1, rows)
            progress.recent.append({**asdict(result), "seconds": time.monotonic() - started})
            progress.update += 1
            progress.micro_batches += result.micro_batches
            progress.epoch, progress.position = epoch, position + 1
            _count_skipped(progress, skipped=result.skipped)
            last = progress.update == settings.max_updates
            if progress.update % _UPDATES_BETWEEN_REPORTS == 0 or last:
                if reporter and (values := _averages(progress.recent, epoch)):
                    reporter.update(progress.update, {**values, "skipped": progress.skipped})
                progress.recent.clear()
            evaluation_due = last or progress.update % settings.evaluate_every == 0
            state_due = evaluation_due or progress.update % settings.checkpoint_every == 0
            if evaluation_due:
                with trainer.averaged():
                    values = ranks.of_first(evaluate(trainer.model) if ranks.first else None)
                progress.evaluations.append({"update": progress.update, **values})
                if reporter:
                    reporter.evaluation(progress.update, values, best=progress.best is progress.evaluations[-1])
            # After an update and not before it, so that even a run with too little time gets on.
            stopping = ranks.any(stop.reason is not None) and not _ended(progress, settings)
            if state_due or stopping:
                progress.positions = ranks.of_all(trainer.positions)
                if reporter:
                    if state_due and _checkpoint_due(progress, settings):
                        folder.save_checkpoint(trainer, progress)
                    progress.seconds = reporter.seconds
                    folder.save_latest(trainer, progress)
            if stopping:
                ranks.wait()  # for the first process to have saved
                raise StoppedError(
                    f"stopped after update {progress.update} and saved: "
                    f"{stop.reason or 'another process was asked to stop'}",
                    next_step="the same command goes on from there",
                )
    ended = _ended(progress, settings)
    assert ended is not None
    return progress, ended


def _count_skipped(progress: Progress, *, skipped: bool) -> None:
    """Raises PhrasemtError after too many updates in a row without a step."""
    if not skipped:
        progress.skipped_in_a_row = 0
        return
    progress.skipped += 1
    progress.skipped_in_a_row += 1
    log.warning("update %d: skipped, its loss or gradient is not a finite number", progress.update)
    if progress.skipped_in_a_row == _SKIPPED_AT_MOST:
        raise PhrasemtError(
            f"loss or gradient was not a finite number {_SKIPPED_AT_MOST} times in a row",
            where=f"update {progress.update}",
            next_step="lower training.optimizer.factor, lengthen its warmup, or use precision: float32",
        )


def _checkpoint_due(progress: Progress, settings: Training) -> bool:
    """Whether the weights of this update may belong to those that are averaged."""
    if settings.average_best is not None:
        return progress.evaluations[-1:] != [] and progress.evaluations[-1]["update"] == progress.update
    return progress.update % settings.checkpoint_every == 0 or _ended(progress, settings) is not None


def _ended(progress: Progress, settings: Training) -> str | None:
    if progress.update >= settings.max_updates:
        return "max_updates"
    if settings.early_stopping and progress.evaluations_since_best >= settings.early_stopping:
        return "early_stopping"
    return None


def _averages(recent: Sequence[Mapping[str, Any]], epoch: int) -> dict[str, float]:
    """What is reported of some updates; nothing if all of them were skipped."""
    results = [result for result in recent if not result["skipped"]]
    if not results:
        return {}
    tokens = sum(result["tokens"] for result in results)
    nll = sum(result["nll"] for result in results) / tokens
    parts = results[0]["parts"]
    return {
        "epoch": epoch + 1,
        "loss": round(sum(result["objective"] for result in results) / tokens, 6),
        "perplexity": round(math.exp(min(nll, 100.0)), 4),
        **{name: round(sum(result["parts"][name] for result in results) / tokens, 6) for name in parts},
        "learning_rate": results[-1]["learning_rate"],
        "tokens_per_second": round(
            sum(result["tokens"] for result in recent) / sum(result["seconds"] for result in recent), 1
        ),
    }
