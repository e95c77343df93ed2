"""The files of a training: checkpoints to average, and the state from which it resumes.

    state/<signature>/checkpoint-000500.safetensors     weights after update 500
    state/<signature>/latest.safetensors                weights, optimiser and place in the plan
    state/<signature>/previous.safetensors              the state before, in case the latest is damaged
    state/<signature>/metrics.jsonl                     one line per report
    state/<signature>/note.json                         how it goes (phrasemt/runs/notes.py)
    state/<signature>/lock                              locked while a process trains

A state contains no state of a random generator: the random numbers of an update depend on its number
(phrasemt/training/trainer.py). The signature is the digest of everything that decides the result, so a return to
earlier settings finds their state again.

A training without a state continues a copy of the state of an earlier training whose settings differ only in what does
not decide the weights after an update, such as `max_updates`, if it ends with the same weights as a training from the
first update (docs/reruns.md). Otherwise it trains from the first update, and the log says why.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from phrasemt.artefacts.training import Evaluation, Metrics, ranked
from phrasemt.errors import DamagedFileError, PhrasemtError, check_digest
from phrasemt.files.lines import commit_files, flush_to_disk, temporary_beside
from phrasemt.files.system import try_lock
from phrasemt.models.weights import load_tensors, read_description, save_tensors, set_weights, weights_of
from phrasemt.runs.notes import StageNote, training_note
from phrasemt.study.schema import Training
from phrasemt.training.trainer import Trainer

log = logging.getLogger("phrasemt.train_model")

UPDATES_BETWEEN_REPORTS = 20


@dataclass(kw_only=True)
class Progress:
    """The progress of a training.

    best_by: "bleu" or "perplexity", the dev score that ranks evaluations (setting training.best_by).
    epoch, position: place of the next update in the plan. seconds: training time of all runs.
    skipped: updates without a step, because loss or gradient was not finite; skipped_in_a_row: the last of them.
    recent: results of the updates since the last report. capacities: `Trainer.capacity` of each process.
    micro_batches: number in all updates and processes. checkpoints: names of the files to average.
    """

    best_by: str = "bleu"

    update: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    skipped: int = 0
    skipped_in_a_row: int = 0
    recent: list[dict[str, Any]] = field(default_factory=list)
    capacities: list[int] = field(default_factory=list)
    micro_batches: int = 0
    checkpoints: list[str] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint of the present update."""
        return checkpoint_name(self.update)

    @property
    def is_evaluated(self) -> bool:
        """Whether the present update has an evaluation."""
        return self.evaluations[-1:] != [] and self.evaluations[-1].update == self.update

    @property
    def best(self) -> Evaluation | None:
        """The first of `ranked`; None before the first evaluation."""
        return next(iter(self.ranked), None)

    @property
    def ranked(self) -> list[Evaluation]:
        """The evaluations, the best first."""
        return ranked(self.evaluations, self.best_by)

    @property
    def evaluations_since_best(self) -> int:
        """The number of evaluations after the best one, for early stopping.

        It is 0 while the score is dev BLEU and dev BLEU has never been above 0.
        """
        best = self.best
        if best is None or (self.best_by == "bleu" and best.dev_bleu == 0):
            return 0
        return len(self.evaluations) - 1 - self.evaluations.index(best)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Digests of the things that a training is made of.

    training: of everything; it names the state folder. updates: of everything that decides the weights after each
    update. dev: of the data of evaluations.
    """

    training: str
    updates: str
    dev: str


@dataclass(frozen=True, kw_only=True)
class EarlierState:
    """A state of a training under other settings that has the same weights after each update.

    path: the file. same_dev: whether its evaluations were made on the same data. checkpoints: names of its files.
    """

    path: Path
    progress: Progress
    same_dev: bool
    checkpoints: set[str]


_PROGRESS = TypeAdapter(Progress)


def checkpoint_name(update: int) -> str:
    """The name of the file with the weights after an update."""
    return f"checkpoint-{update:06d}.safetensors"


class StateFolder:
    """The folder with the files of one training. A file appears under its name when it is complete."""

    def __init__(self, folder: Path, *, signature: Signature, description: dict[str, Any]) -> None:
        self.folder = folder / signature.training[:12]
        self.folder.mkdir(parents=True, exist_ok=True)
        self._signature = signature
        self._description = description
        self._latest = self.folder / "latest.safetensors"
        self._previous = self.folder / "previous.safetensors"
        self._named_before: list[str] = []  # checkpoints that the previous state names
        self._damaged = False

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def is_empty(self) -> bool:
        """Whether the folder has no state yet."""
        return not (self._latest.exists() or self._previous.exists())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """In the block, no other process trains here. Raises PhrasemtError while another process does.

        A killed run of the workflow, or one of another machine, may have left a training that still runs.
        """
        with (self.folder / "lock").open("ab") as stream:
            if not try_lock(stream):
                what = "another process trains this model"
                next_step = "wait for its end, or end it, then run again; a training resumes from its last state"
                raise PhrasemtError(what, where=self.folder, found=self._trained_by(), next_step=next_step)
            yield

    def _trained_by(self) -> str | None:
        """The process that trains here, from its note; None before it has written the note."""
        path = training_note(self.metrics)
        note = StageNote.read(path)
        if note is None or not note.is_running(path, datetime.now(UTC)):
            return None
        job = f", job {note.queue_job} of Slurm" if note.queue_job else ""
        return f"process {note.pid} on {note.host}{job}, since {note.started:%Y-%m-%d %H:%M} UTC"

    def earlier_states(self) -> Iterator[EarlierState]:
        """Yield the states in the folders beside this one that have the same weights after each update."""
        for path in sorted(self.folder.parent.glob(f"*/{self._latest.name}")):
            try:
                description = read_description(path)
            except DamagedFileError as error:
                log.warning("%s", error)
                continue
            if description.get("updates") == self._signature.updates:
                yield EarlierState(
                    path=path,
                    progress=_PROGRESS.validate_python(description["progress"]),
                    same_dev=description["dev"] == self._signature.dev,
                    checkpoints={file.name for file in path.parent.glob("checkpoint-*.safetensors")},
                )

    def take_over(self, earlier: EarlierState, progress: Progress, *, end: int) -> None:
        """Copy a state and its checkpoints into this folder, where the state has this progress.

        end: the last update of this training. Reports of evaluations that the progress does not contain are left out,
        and reports that only the end of the earlier training made. Raises DamagedFileError for a damaged file.
        """
        before = earlier.path.parent
        tensors, _ = load_tensors(earlier.path)
        for name in progress.checkpoints:
            weights, description = load_tensors(before / name)
            self._save(self.folder / name, weights, {"update": description["update"]})
        evaluated = {evaluation.update for evaluation in progress.evaluations}
        metrics = Metrics.read_unfinished(before / self.metrics.name)
        reports = [
            report
            for report in metrics.updates
            if report.update % UPDATES_BETWEEN_REPORTS == 0 or (report.update == end and end in evaluated)
        ]
        evaluations = [report for report in metrics.evaluations if report.update in evaluated]
        Metrics([*reports, *evaluations]).write(self.metrics)
        for path in before.glob("events.*"):  # of TensorBoard
            shutil.copyfile(path, self.folder / path.name)
        self._save_state(tensors, progress)

    def clean_up(self, update: int) -> None:
        """Prepare the folder for resuming after an update.

        Removes incomplete files of a killed run and its reports of later updates; sets a damaged state aside.
        """
        if self._damaged:
            self._latest.replace(self._latest.with_name("damaged.safetensors"))
        for leftover in self.folder.glob(".*.part"):
            leftover.unlink()
        metrics = Metrics.read_unfinished(self.metrics)
        Metrics([report for report in metrics.reports if report.update <= update]).write(self.metrics)

    def save_checkpoint(self, trainer: Trainer, progress: Progress) -> None:
        """Write the weights of this update, and update the names of the checkpoints to average in `progress`."""
        name = progress.checkpoint
        self._save(self.folder / name, weights_of(trainer.model), {"update": progress.update})
        names = [*(kept for kept in progress.checkpoints if kept != name), name]
        settings = trainer.settings
        if settings.average_best is None:
            progress.checkpoints = names[-settings.average_last :]
        else:
            best = {checkpoint_name(evaluation.update) for evaluation in progress.ranked[: settings.average_best]}
            progress.checkpoints = [name for name in names if name in best]

    def save_latest(self, trainer: Trainer, progress: Progress) -> None:
        """Write the state from which the training can resume; remove checkpoints that no state names any more."""
        tensors = {f"model.{name}": tensor for name, tensor in weights_of(trainer.model).items()}
        for name, parameter in trainer.model.named_parameters():
            for key, value in trainer.optimizer.wrapped.state[parameter].items():
                tensors[f"optimizer.{key}.{name}"] = value.detach().cpu().clone()
        self._save_state(tensors, progress)
        for path in self.folder.glob("checkpoint-*.safetensors"):
            if path.name not in {*progress.checkpoints, *self._named_before}:
                path.unlink()
        self._named_before = list(progress.checkpoints)

    def load(self, trainer: Trainer) -> Progress | None:
        """Restore model and optimiser from the last saved state; return its progress, or None without a saved state.

        If the last state is damaged, restores the previous state and logs a warning. Raises DamagedFileError when both
        are damaged, and MismatchError for the state of another training.
        """
        damaged: DamagedFileError | None = None
        for path in (self._latest, self._previous):
            if not path.exists():
                continue
            try:
                progress = self._load(path, trainer)
            except DamagedFileError as error:
                damaged = error
                log.warning("%s", error)
                continue
            if damaged:
                log.warning("resuming from the previous state, after update %d", progress.update)
            self._damaged = damaged is not None
            self._named_before = list(progress.checkpoints)
            return progress
        if damaged:
            raise damaged
        if others := [path for path in self.folder.parent.iterdir() if path != self.folder and path.is_dir()]:
            log.info(
                "starting anew; %s contains %d states of other settings, data or code", self.folder.parent, len(others)
            )
        return None

    def _load(self, path: Path, trainer: Trainer) -> Progress:
        tensors, description = load_tensors(path)
        what = "training state of another study, data set or version of the code"
        next_step = f"move {self.folder} away and run again"
        check_digest(self._signature.training, description.get("signature"), what, where=path, next_step=next_step)
        progress = _PROGRESS.validate_python(description["progress"])
        for name in progress.checkpoints:
            if not (self.folder / name).exists():
                raise DamagedFileError(
                    "a checkpoint of this training is missing",
                    where=self.folder / name,
                    next_step=f"move {self.folder} away and train again",
                )
            load_tensors(self.folder / name)  # find a damaged file now and not at the end of the training
        set_weights(trainer.model, _part(tensors, "model."), where=path)
        parameters = dict(trainer.model.named_parameters())
        for key, tensor in _part(tensors, "optimizer.").items():
            entry, _, name = key.partition(".")
            trainer.optimizer.wrapped.state[parameters[name]][entry] = tensor.to(parameters[name].device)
        return progress

    def _save_state(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        described = {
            "updates": self._signature.updates,
            "dev": self._signature.dev,
            "progress": _PROGRESS.dump_python(progress, mode="json"),
        }
        self._save(self._latest, tensors, described, before=self._previous)

    def _save(
        self, path: Path, tensors: dict[str, Tensor], extra: dict[str, Any], *, before: Path | None = None
    ) -> None:
        """Write a file. before: new name for the file that has this name now, if any."""
        temporary = temporary_beside(path)
        try:
            save_tensors(temporary, tensors, {**self._description, "signature": self._signature.training, **extra})
            if before is not None and path.exists():
                flush_to_disk(temporary)
                path.replace(before)
            commit_files({temporary: path})
        finally:
            temporary.unlink(missing_ok=True)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


# Settings of a training that do not decide the weights after an update.
WITHOUT_EFFECT_ON_UPDATES = {
    "max_updates",
    "evaluate_every",
    "checkpoint_every",
    "average_last",
    "average_best",
    "best_by",
    "early_stopping",
}


class _NotContinuedError(Exception):
    """The reason why a training cannot continue a state."""


def continue_earlier(folder: StateFolder, settings: Training) -> None:
    """Begin a training without a state at the latest state of a training with the same weights after each update.

    The earlier training keeps its state, so a return to its settings finds it.
    """
    if not folder.is_empty:
        return
    for state in sorted(folder.earlier_states(), key=lambda state: -state.progress.update):
        update = state.progress.update
        try:
            progress = _continued(state.progress, settings, same_dev=state.same_dev, checkpoints=state.checkpoints)
            folder.take_over(state, progress, end=settings.max_updates)
        except _NotContinuedError as reason:
            log.info("not continuing %s, the state after update %d: %s", state.path.parent, update, reason)
        except (DamagedFileError, FileNotFoundError) as error:  # somebody may remove a state meanwhile
            log.warning("not continuing %s: %s", state.path.parent, error)
        else:
            log.info("continuing %s, the state after update %d", state.path.parent, update)
            return


def _continued(progress: Progress, settings: Training, *, same_dev: bool, checkpoints: Collection[str]) -> Progress:
    """Return the progress that a training under these settings would have at the update of an earlier training.

    same_dev: whether the evaluations were made on the same dev. checkpoints: names of the files that are there.
    Raises _NotContinuedError when that training would have ended earlier, or would have kept other checkpoints.
    What is missing of the present update can still be made: its evaluation and its checkpoint. Evaluations of earlier
    updates that are due now and were not due then stay missing, where dev scores decide nothing.
    """
    now, end = progress.update, settings.max_updates
    if now > end:
        raise _NotContinuedError(f"max_updates is {end}")
    evaluations = [
        evaluation for evaluation in progress.evaluations if same_dev and evaluation_due(evaluation.update, settings)
    ]
    if settings.average_best or settings.early_stopping:  # dev scores decide
        scored = {evaluation.update for evaluation in evaluations}
        due = range(settings.evaluate_every, now, settings.evaluate_every)
        if unscored := [update for update in due if update not in scored]:
            raise _NotContinuedError(f"it has no score on this dev set after update {unscored[0]}, which decides")
    for number, evaluation in enumerate(evaluations, start=1):
        before = Progress(best_by=settings.best_by, evaluations=evaluations[:number])
        if evaluation.update < now and stops_early(before, settings):
            raise _NotContinuedError(f"early_stopping ends after update {evaluation.update}")

    kept, needed = _checkpoints(evaluations, settings, now)
    if missing := sorted({checkpoint_name(update) for update in needed if update < now} - set(checkpoints)):
        raise _NotContinuedError(f"{missing[0]}, which is averaged, is gone")
    names = [name for name in map(checkpoint_name, kept) if name in checkpoints]
    return replace(progress, best_by=settings.best_by, evaluations=evaluations, checkpoints=names)


def _checkpoints(evaluations: list[Evaluation], settings: Training, now: int) -> tuple[list[int], set[int]]:
    """Updates of the checkpoints that a training keeps now, and of the checkpoints that it needs at its end."""
    if settings.average_best is not None:
        ranked = Progress(best_by=settings.best_by, evaluations=evaluations).ranked
        best = sorted(evaluation.update for evaluation in ranked[: settings.average_best])
        return best, set(best)

    def last(end: int) -> list[int]:
        updates = [*range(settings.checkpoint_every, end + 1, settings.checkpoint_every)]
        if end == settings.max_updates and end not in updates:
            updates.append(end)
        return updates[-settings.average_last :]

    # Early stopping may come at once. Otherwise the end is known, and old checkpoints may not count any more.
    return last(now), set(last(now if settings.early_stopping else settings.max_updates))


def evaluation_due(update: int, settings: Training) -> bool:
    """Whether a training evaluates after this update."""
    return update == settings.max_updates or update % settings.evaluate_every == 0


def stops_early(progress: Progress, settings: Training) -> bool:
    """Whether early stopping ends a training now."""
    return settings.early_stopping is not None and progress.evaluations_since_best >= settings.early_stopping
