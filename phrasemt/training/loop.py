"""The stage `train_model`: updates, evaluations on dev, and checkpoints. A training that was killed resumes.

A training stops at SIGTERM, SIGUSR1, SIGINT (Ctrl-C), or at the end of its time.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn, Self

import torch

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan
from phrasemt.errors import MismatchError, PhrasemtError, StoppedError
from phrasemt.files.system import digest_bytes, digest_file
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, start_from
from phrasemt.nn.compiling import seconds_of_compiling
from phrasemt.nn.precision import choose_device
from phrasemt.stages.training import TrainModel
from phrasemt.training.checkpoint import (
    UPDATES_BETWEEN_REPORTS,
    WITHOUT_EFFECT_ON_UPDATES,
    Progress,
    Signature,
    StateFolder,
    continue_earlier,
    evaluation_due,
    stops_early,
)
from phrasemt.training.evaluator import Evaluator, read_dev_references
from phrasemt.training.process_group import ProcessGroup, join_processes
from phrasemt.training.reporting import Reporter
from phrasemt.training.trainer import PendingUpdate, Trainer
from phrasemt.workflow.code import code_digest

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class StopRequest:
    """Remembers these signals within a `with` block; they do not end the process there, except a second Ctrl-C.

    minutes: time from the creation of this object to a stop; 0 for no limit.
    """

    def __init__(self, minutes: float = 0) -> None:
        self._deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        self._signal: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    @property
    def reason(self) -> str | None:
        """The reason to stop, or None."""
        if self._signal is not None:
            return f"asked to stop by {self._signal.name}"
        return "its time is up" if time.monotonic() >= self._deadline else None

    def requested(self) -> bool:
        return self.reason is not None

    def __enter__(self) -> Self:
        self._before = {signum: signal.signal(signum, self._remember) for signum in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        if self._signal == signum == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = signal.Signals(signum)


log = logging.getLogger("phrasemt.train_model")

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

    state: folder of checkpoints and states. The same command resumes from the last state and, on the same CPU, ends
    with the same weights as a training without interruption; on a GPU sums may differ in their last bits.
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
        references = read_dev_references(dev_reference, len(dev_reader.examples)) if settings.reads.source else None
        evaluator = Evaluator(dev_reader, references, words.target, settings.dev_bleu, group)
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
            run = _Run(trainer, evaluator, plan, folder, group, stop)
            stopped = run.train()
        if group.is_first:
            if compiling := seconds_of_compiling():  # not in the record, whose bytes no speed may change
                log.info("compiling took %.0f seconds", compiling)
            progress, place = run.progress, f"{state.name}/{folder.folder.name}"
            TrainingRecord(
                model=settings.model,
                parameters=parameters,
                idle_parameters=model.unused_parameters(),
                precision=trainer.precision,
                updates=progress.update,
                stopped=stopped,
                skipped=progress.skipped,
                processes=group.size,
                micro_batch_positions=progress.capacities,
                micro_batches_per_update=round(progress.micro_batches / progress.update, 2),
                checkpoints=[f"{place}/{name}" for name in progress.checkpoints],
                best_update=progress.best.update if progress.best else None,
                evaluations=progress.evaluations,
                metrics=f"{place}/{folder.metrics.name}",
            ).write(record)


def _signature(settings: TrainModel, *, train: Sequence[Path], dev: Sequence[Path]) -> Signature:
    """Return the digests of everything that decides a training, except the machine: settings, data and code.

    train: files that decide the weights after an update. dev: files that decide the evaluations only.
    """
    code = code_digest(*settings.code_modules())
    of_training = settings.canonical_json()
    of_updates = settings.canonical_json(without={"training": WITHOUT_EFFECT_ON_UPDATES})
    train_digests, dev_digests = [digest_file(path) for path in train], [digest_file(path) for path in dev]
    return Signature(
        training=_digest(of_training, code, *train_digests, *dev_digests),
        updates=_digest(of_updates, code, *train_digests),
        dev=_digest(*dev_digests),
    )


def _digest(*parts: str) -> str:
    return digest_bytes("\n".join(parts).encode())


class _Run:
    """A training from its last saved state to its end, or to a request to stop.

    All processes of a training do the same; only the first one has a reporter and writes files.
    """

    def __init__(
        self,
        trainer: Trainer,
        evaluator: Evaluator,
        plan: UpdatePlan,
        folder: StateFolder,
        group: ProcessGroup,
        stop: StopRequest,
    ) -> None:
        self.trainer, self.evaluator, self.plan = trainer, evaluator, plan
        self.folder, self.group, self.stop = folder, group, stop
        self.settings = trainer.settings
        self.progress = self._resumed()
        self.reporter: Reporter | None = None
        self._pending: PendingUpdate | None = None  # the last update, while its numbers are not in the progress
        self._since = 0.0  # seconds count from here for the update whose numbers are read next

    def train(self) -> str:
        """Do the remaining updates. Returns the reason for the end: `max_updates` or `early_stopping`."""
        progress, settings = self.progress, self.settings
        with self._reporting(), ExitStack() as stack:
            self._catch_up()
            updates = self.plan.updates(first_epoch=progress.epoch, first_update=progress.position)
            ahead = stack.enter_context(closing(self.trainer.rank_reader.ahead(updates, lambda: self.trainer.capacity)))
            for (epoch, position, rows), of_rank in ahead:
                if self.reason_to_end is not None:
                    break
                if self._pending is None:
                    self._since = time.monotonic()
                pending = self.trainer.begin(progress.update + 1, rows, of_rank, self.stop.requested)
                self._read()  # the update before, which a GPU has computed or computes meanwhile
                self._pending, stopping = pending, pending.stop
                progress.update, progress.epoch, progress.position = progress.update + 1, epoch, position + 1
                report_due = progress.update % UPDATES_BETWEEN_REPORTS == 0
                if report_due or progress.update == settings.max_updates:
                    self._report()
                if report_due:
                    progress.recent.clear()
                if evaluating := evaluation_due(progress.update, settings):
                    self._evaluate()
                # A training stops after an update and never before the first one, so very short runs make progress.
                # An evaluation takes long, so a request during it counts at once. So does any to a single process.
                if evaluating or self.group.size == 1:
                    stopping = self.group.any(stopping or self.stop.requested())
                stopping = stopping and self.reason_to_end is None
                state_due = evaluating or progress.update % settings.checkpoint_every == 0
                if state_due or stopping:
                    self._save(with_checkpoint=state_due and self.checkpoint_due)
                if stopping:
                    self._stop()
        reason = self.reason_to_end
        assert reason is not None
        return reason

    @property
    def reason_to_end(self) -> str | None:
        """Why the training ends after this update; None while it continues."""
        if self.progress.update >= self.settings.max_updates:
            return "max_updates"
        return "early_stopping" if stops_early(self.progress, self.settings) else None

    @property
    def checkpoint_due(self) -> bool:
        """Whether the weights of this update may become part of the average."""
        progress, best = self.progress, self.settings.average_best
        if best is not None:
            return progress.is_evaluated and progress.evaluations[-1] in progress.ranked[:best]
        return progress.update % self.settings.checkpoint_every == 0 or self.reason_to_end is not None

    def _resumed(self) -> Progress:
        """Restore the last saved state, or begin. Raises MismatchError if the processes see different states."""
        if self.group.is_first:
            continue_earlier(self.folder, self.settings)
        self.group.barrier()
        progress = self.folder.load(self.trainer) or Progress(best_by=self.settings.best_by)
        state = [self.folder.folder.name, progress.update]
        if self.group.broadcast(state) != state:
            raise MismatchError(
                "the processes of this training do not see the same state",
                where=self.folder.folder,
                found=f"process {self.group.rank} at update {progress.update}",
                next_step="use a folder that all nodes share, and run again",
            )
        if progress.update:
            log.info("resuming after update %d", progress.update)
        if len(progress.capacities) == self.group.size:
            self.trainer.capacity = progress.capacities[self.group.rank]
        else:
            self.trainer.find_capacity(self.plan)
        return progress

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """In the block, the first process reports."""
        if not self.group.is_first:
            yield
            return
        self.folder.clean_up(self.progress.update)
        with Reporter(
            self.folder.metrics,
            first_update=self.progress.update,
            max_updates=self.settings.max_updates,
            seconds=self.progress.seconds,
            device=self.trainer.device,
            processes=self.group.size,
        ) as self.reporter:
            yield

    def _catch_up(self) -> None:
        """Evaluate and keep the present weights if the earlier training that is continued here did not."""
        progress = self.progress
        if not progress.update:
            return
        if evaluating := evaluation_due(progress.update, self.settings) and not progress.is_evaluated:
            if progress.update == self.settings.max_updates:
                self._report()
            self._evaluate()
        keeping = self.checkpoint_due and progress.checkpoint not in progress.checkpoints
        if evaluating or keeping:
            self._save(with_checkpoint=keeping)

    def _read(self) -> None:
        """Take the numbers of the last update into the progress, once.

        Raises PhrasemtError after too many consecutive updates without a step.
        """
        if self._pending is None:
            return
        progress, result, before = self.progress, self._pending.result(), self._since
        self._pending, self._since = None, time.monotonic()
        progress.recent.append({**asdict(result), "seconds": self._since - before})
        progress.micro_batches += result.micro_batches
        progress.skipped += result.skipped
        progress.skipped_in_a_row = progress.skipped_in_a_row + 1 if result.skipped else 0
        if result.skipped:
            log.warning("update %d: skipped, because its loss or gradient is not finite", progress.update)
        if progress.skipped_in_a_row == _MAX_SKIPPED_IN_A_ROW:
            what = f"loss or gradient was not finite in {_MAX_SKIPPED_IN_A_ROW} consecutive updates"
            next_step = "lower training.optimizer.factor, lengthen its warmup, or use precision: float32"
            raise PhrasemtError(what, where=f"update {progress.update}", next_step=next_step)

    def _report(self) -> None:
        """Report the means over the updates since the last report, unless all of them were skipped."""
        self._read()
        progress = self.progress
        results = [result for result in progress.recent if not result["skipped"]]
        if self.reporter is None or not results:
            return
        tokens = sum(result["tokens"] for result in results)
        nll = sum(result["nll"] for result in results) / tokens
        all_tokens, seconds = (sum(result[key] for result in progress.recent) for key in ("tokens", "seconds"))
        self.reporter.update(
            progress.update,
            epoch=progress.epoch + 1,
            loss=round(sum(result["objective"] for result in results) / tokens, 6),
            perplexity=round(math.exp(min(nll, 100.0)), 4),
            parts={
                name: round(sum(result["parts"][name] for result in results) / tokens, 6)
                for name in results[0]["parts"]
            },
            learning_rate=results[-1]["learning_rate"],
            tokens_per_second=round(all_tokens / seconds, 1),
            skipped=progress.skipped,
        )

    def _evaluate(self) -> None:
        """Score the weights on dev."""
        self._read()
        progress, started = self.progress, time.monotonic()
        progress.evaluations.append(self.evaluator(self.trainer.model, progress.update))
        if self.reporter is not None:
            evaluation = progress.evaluations[-1]
            self.reporter.evaluation(evaluation, best=progress.best is evaluation, seconds=time.monotonic() - started)

    def _save(self, *, with_checkpoint: bool) -> None:
        """Write the state from which the training can resume, and the weights as a checkpoint to average."""
        self._read()
        self.progress.capacities = self.group.gather(self.trainer.capacity)
        if self.reporter is not None:
            if with_checkpoint:
                self.folder.save_checkpoint(self.trainer, self.progress)
            self.progress.seconds = self.reporter.seconds
            self.folder.save_latest(self.trainer, self.progress)

    def _stop(self) -> NoReturn:
        if self.reporter is not None:
            self.reporter.note_progress(self.progress.update)  # which the saved state has
        self.group.barrier()  # wait until the first process has saved the state
        raise StoppedError(
            f"stopped after update {self.progress.update} and saved the state: "
            f"{self.stop.reason or 'another process was asked to stop'}",
            next_step="the same command resumes from there",
        )
