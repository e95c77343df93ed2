"""The stage `train_model`: updates, evaluations on dev, and checkpoints. A training that was killed resumes."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.errors import MismatchError, PhrasemtError, StoppedError
from phrasemt.files.digests import digest_bytes, digest_file
from phrasemt.files.lines import read_lines, write_text
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, start_from
from phrasemt.nn.device import choose_device
from phrasemt.stages.training import TrainModel
from phrasemt.study.training import Training
from phrasemt.text.vocab import Vocabularies
from phrasemt.training.checkpoint import UPDATES_BETWEEN_REPORTS, Progress, Signature, StateFolder
from phrasemt.training.continuing import WITHOUT_EFFECT_ON_UPDATES, continue_earlier, evaluation_due, stops_early
from phrasemt.training.evaluator import Evaluator
from phrasemt.training.process_group import ProcessGroup, join_processes
from phrasemt.training.reporting import Reporter
from phrasemt.training.stopping import StopRequest
from phrasemt.training.trainer import Trainer
from phrasemt.workflow.code import code_digest

log = logging.getLogger("phrasemt.train_model")

RECORD_FORMAT = 1
# The training fails after this number of consecutive updates whose loss or gradient is not finite.
_MAX_SKIPPED_IN_A_ROW = 10


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
    initial_weights: list[Path],
    record: Path,
    state: Path,
) -> None:
    """Train a system until its last update or early stopping, and write a record of the training.

    state: folder of checkpoints and saved states, which remains between runs. The same command resumes from the last
    saved state and, on the same machine, ends with the same weights as a training without interruption.
    processes: number of processes that train together; this is one of them.
    initial_weights: a safetensors file that the training starts from, or none for random weights.
    minutes: time until the training stops and saves its state; 0 for no limit.
    Raises StoppedError when the time is up or after a signal; PhrasemtError when losses stay infinite or NaN, when the
    device has too little memory, or while another process trains this model; DamagedFileError and MismatchError for
    inputs or states that cannot be used.
    """
    with StopRequest(minutes) as stop, join_processes(processes) as group:
        device = choose_device(max(1, cores // processes))
        words = Vocabularies.read(source_vocabulary, target_vocabulary)
        reader = BatchReader.open(train, words, settings.reads, train_phrases, train_chunks)
        dev_reader = BatchReader.open(dev, words, settings.reads, dev_phrases, dev_chunks)
        examples = reader.examples

        torch.manual_seed(settings.seed)
        model = build_model(
            settings.model, source_vocabulary=len(words.source), target_vocabulary=len(words.target)
        ).to(device)
        description = describe_weights(settings.model, words)
        for path in initial_weights:
            start_from(model, path, description)
        trainer = Trainer(model, reader, settings, group)
        references = list(read_lines(dev_reference)) if settings.reads.source else None
        evaluate = Evaluator(dev_reader, references, words.target, settings.dev_bleu)
        by_sentences = settings.training.sentences_per_update is not None
        update_size = settings.training.sentences_per_update or settings.training.tokens_per_update
        assert update_size is not None
        plan = UpdatePlan(
            # A language model reads no source, so the lengths of sources must not influence its plan.
            source_lengths=examples.source_lengths if settings.reads.source else examples.target_lengths,
            target_lengths=examples.target_lengths,
            update_size=update_size,
            by_sentences=by_sentences,
            max_length=settings.training.max_length,
            seed=settings.seed,
        )
        parameters = sum(parameter.numel() for parameter in model.parameters())
        log.info(
            "train_model: %s, %s parameters, %s pairs (%d too long), about %d updates per epoch, %s on %s%s",
            settings.model.family,
            f"{parameters:,}",
            f"{plan.pairs:,}",
            len(examples) - plan.pairs,
            plan.updates_per_epoch,
            trainer.precision,
            device,
            f", {group.size} processes" if group.size > 1 else "",
        )
        if trainer.precision != settings.training.precision:
            log.warning(
                "train_model: warning: this %s has no units for %s, so the training computes in %s",
                "CPU" if device.type == "cpu" else "GPU",
                settings.training.precision,
                trainer.precision,
            )
        folder = StateFolder(
            state,
            signature=_signature(
                settings,
                train=[train, source_vocabulary, target_vocabulary, *train_phrases, *train_chunks, *initial_weights],
                dev=[dev, dev_reference, *dev_phrases, *dev_chunks],
            ),
            description=description,
        )
        with folder.alone() if group.is_first else nullcontext():
            progress, stopped = _train(trainer, evaluate, plan, folder, group, stop)
        if not group.is_first:
            return
        write_text(
            record,
            json.dumps(
                {
                    "format": RECORD_FORMAT,
                    "model": settings.model.model_dump(mode="json"),
                    "parameters": parameters,
                    "precision": trainer.precision,
                    "updates": progress.update,
                    "stopped": stopped,
                    "skipped": progress.skipped,
                    "processes": group.size,
                    "micro_batch_positions": progress.capacities,
                    "micro_batches_per_update": round(progress.micro_batches / progress.update, 2),
                    "checkpoints": [f"{state.name}/{folder.folder.name}/{name}" for name in progress.checkpoints],
                    "best_update": progress.best["update"] if progress.best else None,
                    "evaluations": progress.evaluations,
                    "metrics": f"{state.name}/{folder.folder.name}/{folder.metrics.name}",
                },
                indent=1,
                sort_keys=True,  # keys that were read from a saved state have another order
            )
            + "\n",
        )


def _signature(settings: TrainModel, *, train: Sequence[Path], dev: Sequence[Path]) -> Signature:
    """Return the digests of everything that decides a training, except the machine: settings, data and code.

    train: files that decide the weights after an update. dev: files that decide the evaluations only.
    """
    code = code_digest(*settings.code_modules())
    of_training = settings.canonical_json(without={"training": {"average"}})  # the average is made afterwards
    of_updates = settings.canonical_json(without={"training": WITHOUT_EFFECT_ON_UPDATES})
    train_digests, dev_digests = [digest_file(path) for path in train], [digest_file(path) for path in dev]
    return Signature(
        training=_digest(of_training, code, *train_digests, *dev_digests),
        updates=_digest(of_updates, code, *train_digests),
        dev=_digest(*dev_digests),
    )


def _digest(*parts: str) -> str:
    return digest_bytes("\n".join(parts).encode())


def _train(
    trainer: Trainer, evaluate: Evaluator, plan: UpdatePlan, folder: StateFolder, group: ProcessGroup, stop: StopRequest
) -> tuple[Progress, str]:
    """Do the remaining updates; return the final progress, and the reason for the end of the training."""
    settings = trainer.settings
    if group.is_first:
        continue_earlier(folder, settings)
    group.barrier()
    progress = folder.load(trainer) or Progress(best_by=settings.best_by)
    if group.broadcast([folder.folder.name, progress.update]) != [folder.folder.name, progress.update]:
        raise MismatchError(
            "the processes of this training do not see the same state",
            where=folder.folder,
            found=f"process {group.rank} at update {progress.update}",
            next_step="use a folder that all nodes share, and run again",
        )
    if progress.update:
        log.info("resuming after update %d", progress.update)
    if len(progress.capacities) == group.size:
        trainer.capacity = progress.capacities[group.rank]
    else:
        trainer.find_capacity(plan)
    with ExitStack() as stack:
        reporter = None
        if group.is_first:
            folder.clean_up(progress.update)
            reporter = stack.enter_context(
                Reporter(
                    folder.metrics,
                    first_update=progress.update,
                    max_updates=settings.max_updates,
                    seconds=progress.seconds,
                    device=trainer.device,
                    processes=group.size,
                )
            )

        def report_now() -> None:
            if reporter and (values := _report_values(progress.recent, progress.epoch)):
                reporter.update(progress.update, {**values, "skipped": progress.skipped})

        def evaluate_now() -> None:
            started = time.monotonic()
            with trainer.averaged():
                values = group.broadcast(evaluate(trainer.model) if group.is_first else None)
            progress.evaluations.append({"update": progress.update, **values})
            if reporter:
                best = progress.best is progress.evaluations[-1]
                reporter.evaluation(progress.update, values, best=best, seconds=time.monotonic() - started)

        def save_state(*, with_checkpoint: bool) -> None:
            progress.capacities = group.gather(trainer.capacity)
            if reporter:
                if with_checkpoint:
                    folder.save_checkpoint(trainer, progress)
                progress.seconds = reporter.seconds
                folder.save_latest(trainer, progress)

        if progress.update:  # an earlier training had no evaluation or no checkpoint here, or evaluated on another dev
            if evaluating := evaluation_due(progress.update, settings) and not progress.is_evaluated:
                if progress.update == settings.max_updates:
                    report_now()
                evaluate_now()
            keeping = _checkpoint_due(progress, settings) and progress.checkpoint not in progress.checkpoints
            if evaluating or keeping:
                save_state(with_checkpoint=keeping)
        for epoch, position, rows in plan.updates(first_epoch=progress.epoch, first_update=progress.position):
            if _reason_to_end(progress, settings):
                break
            started = time.monotonic()
            result = trainer.update(progress.update + 1, rows)
            progress.recent.append({**asdict(result), "seconds": time.monotonic() - started})
            progress.update += 1
            progress.micro_batches += result.micro_batches
            progress.epoch, progress.position = epoch, position + 1
            _count_skipped(progress, skipped=result.skipped)
            last = progress.update == settings.max_updates
            report_due = progress.update % UPDATES_BETWEEN_REPORTS == 0
            if report_due or last:
                report_now()
            if report_due:
                progress.recent.clear()
            if evaluating := evaluation_due(progress.update, settings):
                evaluate_now()
            # A run stops after an update and never before the first one, so that even very short runs make progress.
            stopping = group.any(stop.reason is not None) and not _reason_to_end(progress, settings)
            state_due = evaluating or progress.update % settings.checkpoint_every == 0
            if state_due or stopping:
                save_state(with_checkpoint=state_due and _checkpoint_due(progress, settings))
            if stopping:
                group.barrier()  # wait until the first process has saved the state
                raise StoppedError(
                    f"stopped after update {progress.update} and saved the state: "
                    f"{stop.reason or 'another process was asked to stop'}",
                    next_step="the same command resumes from there",
                )
    reason = _reason_to_end(progress, settings)
    assert reason is not None
    return progress, reason


def _count_skipped(progress: Progress, *, skipped: bool) -> None:
    """Count an update in `progress`. Raises PhrasemtError after too many consecutive updates without a step."""
    if not skipped:
        progress.skipped_in_a_row = 0
        return
    progress.skipped += 1
    progress.skipped_in_a_row += 1
    log.warning("update %d: skipped, because its loss or gradient is not finite", progress.update)
    if progress.skipped_in_a_row == _MAX_SKIPPED_IN_A_ROW:
        raise PhrasemtError(
            f"loss or gradient was not finite in {_MAX_SKIPPED_IN_A_ROW} consecutive updates",
            where=f"update {progress.update}",
            next_step="lower training.optimizer.factor, lengthen its warmup, or use precision: float32",
        )


def _checkpoint_due(progress: Progress, settings: Training) -> bool:
    """Whether the weights of this update may become part of the average."""
    if settings.average_best is not None:
        return progress.is_evaluated and progress.evaluations[-1] in progress.ranked[: settings.average_best]
    return progress.update % settings.checkpoint_every == 0 or _reason_to_end(progress, settings) is not None


def _reason_to_end(progress: Progress, settings: Training) -> str | None:
    if progress.update >= settings.max_updates:
        return "max_updates"
    return "early_stopping" if stops_early(progress, settings) else None


def _report_values(recent: Sequence[Mapping[str, Any]], epoch: int) -> dict[str, float]:
    """Return the means over some updates for a report; an empty dictionary if all of them were skipped."""
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
