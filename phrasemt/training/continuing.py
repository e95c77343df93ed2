"""Which saved state a training continues when its settings have changed.

A setting such as `max_updates` does not decide the weights after an update, it decides which updates there are. So a
training of 80 updates continues the state of a training of 60. It does so only if it ends with the same weights as a
training from the first update: the earlier training must not have gone beyond the end of this one, and the checkpoints
that this one averages must still be there. Otherwise it trains from the first update, and the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from phrasemt.artefacts.training import Evaluation
from phrasemt.errors import DamagedFileError
from phrasemt.study.training import Training
from phrasemt.training.checkpoint import Progress, StateFolder, checkpoint_name

log = logging.getLogger("phrasemt.train_model")

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
    evaluations = [one for one in progress.evaluations if same_dev and evaluation_due(one.update, settings)]
    if settings.average_best or settings.early_stopping:  # dev scores decide
        scored = {one.update for one in evaluations}
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
