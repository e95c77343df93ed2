"""The stage `train_model`: updates, evaluations on dev, checkpoints, and going on after a kill."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasemt.batching.example import Examples
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import UpdatePlan, micro_batches
from phrasemt.config import Decoding, Training
from phrasemt.errors import PhrasemtError
from phrasemt.lines import read_lines, write_text
from phrasemt.models.interface import TranslationModel, build_model
from phrasemt.models.weights import describe_weights
from phrasemt.provenance import code_digest, digest_bytes, digest_file
from phrasemt.scoring.multi_bleu import tokenised_bleu
from phrasemt.search.decode import translate_split
from phrasemt.search.device import choose_device
from phrasemt.settings import TrainSettings
from phrasemt.stages import STAGES
from phrasemt.text.subwords import join_subwords
from phrasemt.text.vocab import Vocabulary
from phrasemt.train.checkpoint import Progress, StateFolder
from phrasemt.train.optimizers import ScheduledOptimizer
from phrasemt.train.reporting import Reporter

log = logging.getLogger("phrasemt.train_model")

RECORD_FORMAT = 1
# Positions of a micro-batch, padding included. A matter of the machine: any value gives the same sums.
MICRO_BATCH_POSITIONS = 4_096
_UPDATES_BETWEEN_REPORTS = 20


@dataclass(frozen=True, kw_only=True)
class UpdateResult:
    """Sums of one update over all its micro-batches."""

    objective: float
    nll: float
    tokens: int
    parts: Mapping[str, float]
    learning_rate: float


class Trainer:
    """A model with its optimiser. One call of `update` is one step of the optimiser on the rows of the plan."""

    def __init__(self, model: TranslationModel[Any, Any], reader: BatchReader, settings: TrainSettings) -> None:
        self.model = model
        self.settings = settings.training
        self._reader = reader
        self._device = next(model.parameters()).device
        self.optimizer = ScheduledOptimizer(
            model.parameters(), self.settings.optimizer, width=settings.model.rate_width
        )

    def update(self, number: int, rows: NDArray[np.int64]) -> UpdateResult:
        """Accumulate the gradient of the rows' mean loss, and step.

        The mean is over real target tokens, or over sentences where the study gives the size of an update in sentences.
        The idea without micro-batches:  (loss(batch(rows)).objective / tokens).backward(); optimizer.step().
        `number` counts updates from 1. Raises PhrasemtError when the loss is not finite.
        """
        examples = self._reader.examples
        tokens = int(examples.target_lengths[rows].sum()) + len(rows)
        units = tokens if self.settings.sentences_per_update is None else len(rows)
        objective = nll = 0.0
        parts: dict[str, float] = defaultdict(float)
        self.model.train()
        self.optimizer.torch.zero_grad(set_to_none=True)
        for part in micro_batches(
            rows, examples.source_lengths, examples.target_lengths, capacity=MICRO_BATCH_POSITIONS
        ):
            batch = self._reader(part).to(self._device)
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                loss = self.model.loss(batch, label_smoothing=self.settings.label_smoothing)
            (loss.objective / units).backward()  # type: ignore[no-untyped-call]
            objective += float(loss.objective.detach())
            nll += float(loss.nll)
            for name, value in loss.parts.items():
                parts[name] += float(value.detach())
        parameters = list(self.model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        for name, finite in (("loss", math.isfinite(objective)), ("gradient", bool(norm.isfinite()))):
            if not finite:
                raise PhrasemtError(
                    f"the {name} is not a finite number",
                    where=f"update {number}",
                    next_step="lower training.optimizer.factor, lengthen its warmup, or use precision: float32",
                )
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.settings.clip_norm, norm)
        learning_rate = self.optimizer.step(number)
        return UpdateResult(objective=objective, nll=nll, tokens=tokens, parts=parts, learning_rate=learning_rate)


class Evaluator:
    """Dev perplexity per subword without label smoothing, further losses per subword, diagnostics, and dev BLEU.

    BLEU is that of greedy search, tokenised. references: None for a model that does not translate.
    """

    _SEARCH = Decoding(beam=1, length_penalty=0.0)

    def __init__(self, reader: BatchReader, references: Sequence[str] | None, words: Vocabulary) -> None:
        self._reader = reader
        self._references = references
        self._words = words

    @torch.inference_mode()
    def __call__(self, model: TranslationModel[Any, Any]) -> dict[str, float]:
        model.eval()
        device = next(model.parameters()).device
        examples = self._reader.examples
        nll, tokens = 0.0, 0
        parts: dict[str, float] = defaultdict(float)
        for rows in micro_batches(
            np.arange(len(examples)), examples.source_lengths, examples.target_lengths, capacity=MICRO_BATCH_POSITIONS
        ):
            loss = model.loss(self._reader(rows).to(device), label_smoothing=0.0)
            nll += float(loss.nll)
            for name, value in loss.parts.items():
                parts[name] += float(value)
            tokens += loss.tokens
        values = {"dev_perplexity": round(math.exp(min(nll / tokens, 100.0)), 6)}
        values |= {f"dev_{name}": round(value / tokens, 6) for name, value in parts.items()}
        diagnostics = model.diagnostics(self._reader(rows).to(device))  # of the last batch, the longest sentences
        values |= {f"dev_{name}": round(value, 6) for name, value in diagnostics.items()}
        if self._references is None:
            return values
        results = translate_split(model, self._reader, self._SEARCH, device=device)
        hypotheses = [join_subwords(" ".join(self._words.tokens(best[0].tokens))) for best in results]
        return {"dev_bleu": round(tokenised_bleu(hypotheses, self._references), 4), **values}


def train_model(
    *,
    settings: TrainSettings,
    cores: int,
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
    ends with the same weights (on the same machine).
    """
    device = choose_device(cores)
    source_words, target_words = Vocabulary.from_file(source_vocabulary), Vocabulary.from_file(target_vocabulary)
    train_examples, dev_examples = Examples.open(train), Examples.open(dev)
    for examples in (train_examples, dev_examples):
        examples.check_vocabularies(source_words, target_words)

    torch.manual_seed(settings.seed)
    model = build_model(settings.model, source_vocabulary=len(source_words), target_vocabulary=len(target_words)).to(
        device
    )
    train_reader = BatchReader(train_examples, settings.model, train_phrases, train_chunks)
    dev_reader = BatchReader(dev_examples, settings.model, dev_phrases, dev_chunks)
    trainer = Trainer(model, train_reader, settings)
    references = list(read_lines(dev_reference)) if settings.model.translates else None
    evaluate = Evaluator(dev_reader, references, target_words)
    plan = UpdatePlan(
        # What a model does not read does not decide which pairs it sees.
        source_lengths=train_examples.source_lengths if settings.model.translates else train_examples.target_lengths,
        target_lengths=train_examples.target_lengths,
        update_size=settings.training.update_size,
        by_sentences=settings.training.sentences_per_update is not None,
        max_length=settings.training.max_length,
        seed=settings.seed,
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    log.info(
        "train_model: %s, %s parameters, %s pairs (%d too long), about %d updates an epoch, %s on %s",
        settings.model.family,
        f"{parameters:,}",
        f"{len(plan.rows):,}",
        len(train_examples) - len(plan.rows),
        plan.updates_of_an_epoch,
        settings.training.precision,
        device,
    )
    folder = StateFolder(
        state,
        signature=_signature(
            settings,
            *(train, dev, dev_reference, source_vocabulary, target_vocabulary, *train_phrases, *dev_phrases),
            *(*train_chunks, *dev_chunks),
        ),
        description=describe_weights(settings.model, source_words, target_words),
        keep=settings.training.average_last,
    )
    progress, stopped = _run(trainer, evaluate, plan, folder)
    write_text(
        record,
        json.dumps(
            {
                "format": RECORD_FORMAT,
                "model": settings.model.model_dump(mode="json"),
                "parameters": parameters,
                "updates": progress.update,
                "stopped": stopped,
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


def _signature(settings: TrainSettings, *inputs: Path) -> str:
    """Digest of all that a training's result follows from, apart from the machine: settings, data and code."""
    code = code_digest(*STAGES["train_model"].code_modules(settings))
    return digest_bytes("\n".join([settings.canonical_json(), code, *map(digest_file, inputs)]).encode())


def _run(trainer: Trainer, evaluate: Evaluator, plan: UpdatePlan, folder: StateFolder) -> tuple[Progress, str]:
    """All updates that are still to do; returns the final progress and why training stopped."""
    settings = trainer.settings
    progress = folder.load_latest(trainer.model, trainer.optimizer.torch)
    if progress:
        log.info("going on after update %d", progress.update)
    progress = progress or Progress()
    folder.truncate_metrics(progress.update)
    recent: list[UpdateResult] = []
    with Reporter(
        folder.metrics,
        first_update=progress.update,
        max_updates=settings.max_updates,
        seconds=progress.seconds,
        device=next(trainer.model.parameters()).device,
        processes=1,
    ) as reporter:
        training_seconds = 0.0  # of the updates since the last report, without evaluations
        for epoch, position, rows in plan.updates(first_epoch=progress.epoch, first_update=progress.position):
            if _ended(progress, settings):
                break
            started = time.monotonic()
            recent.append(trainer.update(progress.update + 1, rows))
            training_seconds += time.monotonic() - started
            progress.update += 1
            progress.epoch, progress.position = epoch, position + 1
            last = progress.update == settings.max_updates
            if len(recent) == _UPDATES_BETWEEN_REPORTS or last:
                reporter.update(progress.update, _averages(recent, epoch, training_seconds))
                recent, training_seconds = [], 0.0
            evaluation_due = last or progress.update % settings.evaluate_every == 0
            checkpoint_due = last or progress.update % settings.checkpoint_every == 0
            if evaluation_due:
                values = evaluate(trainer.model)
                progress.evaluations.append({"update": progress.update, **values})
                best = progress.best
                reporter.evaluation(progress.update, values, best=best is progress.evaluations[-1])
                checkpoint_due |= _ended(progress, settings) is not None
            if checkpoint_due:
                folder.save_checkpoint(trainer.model, progress)
            if evaluation_due or checkpoint_due:
                progress.seconds = reporter.seconds
                folder.save_latest(trainer.model, trainer.optimizer.torch, progress)
    stopped = _ended(progress, settings)
    assert stopped is not None
    return progress, stopped


def _ended(progress: Progress, settings: Training) -> str | None:
    if progress.update >= settings.max_updates:
        return "max_updates"
    if settings.early_stopping and progress.evaluations_since_best >= settings.early_stopping:
        return "early_stopping"
    return None


def _averages(results: Sequence[UpdateResult], epoch: int, seconds: float) -> dict[str, float]:
    tokens = sum(result.tokens for result in results)
    nll = sum(result.nll for result in results) / tokens
    return {
        "epoch": epoch + 1,
        "loss": round(sum(result.objective for result in results) / tokens, 6),
        "perplexity": round(math.exp(min(nll, 100.0)), 4),
        **{name: round(sum(result.parts[name] for result in results) / tokens, 6) for name in results[0].parts},
        "learning_rate": results[-1].learning_rate,
        "tokens_per_second": round(tokens / seconds, 1),
    }
