"""A task that needs phrases: copy the source, with a mark between its phrases, whose ends are drawn at random.

The phrase columns are the only place where the ends stand. A system without phrases has at least ln C(5, 2) = 2.3 nats
of loss per sentence, because each of the 10 ways to cut 6 words into 3 phrases is as likely as the others. The seed is
drawn per run and printed, so that the bounds cannot be fitted to one curve.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import torch
from small_systems import NO_DROPOUT
from torch import nn
from torch.optim.swa_utils import AveragedModel
from trainings import settings_of

from phrasemt.artefacts.columns import Examples, Vocabulary
from phrasemt.batching.pack import pack_examples
from phrasemt.batching.reader import BatchReader
from phrasemt.files.columns import RaggedArray, write_columns
from phrasemt.files.lines import write_lines
from phrasemt.models.interface import build_model
from phrasemt.stages.subwords import BuildVocabulary, PackExamples
from phrasemt.study.architectures import PhraseRepresentationModel, PhraseSegmentation
from phrasemt.study.schema import Adam
from phrasemt.text.subwords import build_vocabulary
from phrasemt.training.trainer import Trainer

WORDS, PHRASES = 6, 3
TRAIN, HELD_OUT = 2000, 200  # sentences
UPDATES, WARMUP, RATE = 280, 50, 0.004
AVERAGED = 80  # last updates whose parameters are averaged
TOKENS = WORDS + PHRASES - 1 + 1  # of a target sentence: words, marks between phrases, </s>
AMBIGUITY = math.log(math.comb(WORDS - 1, PHRASES - 1))  # nats per sentence
RANDOM_ENDS = PhraseSegmentation(mode="random")
SIZE = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "width": 64,
    "heads": 4,
    "ffn_width": 128,
    **NO_DROPOUT,
    "tie": "all",
    "norm": "pre",
    "phrase": RANDOM_ENDS,
}


class Task:
    """The sentences of the task as packed examples, and their phrase columns."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self._folder = folder
        sources, targets, self._ends = zip(*(self._pair(draw) for _ in range(TRAIN + HELD_OUT)), strict=True)
        paths = {name: folder / name for name in ("rows", "source", "target")}
        write_lines(paths["rows"], map(str, range(len(sources))))
        write_lines(paths["source"], sources)
        write_lines(paths["target"], targets)
        vocabularies = {name: folder / name for name in ("source_vocabulary", "target_vocabulary")}
        sides = {side: paths[side] for side in ("source", "target")}
        build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **sides, **vocabularies)
        pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=folder / "examples")
        self.words = Vocabulary.read(vocabularies["target_vocabulary"])

    @staticmethod
    def _pair(draw: random.Random) -> tuple[str, str, list[int]]:
        words = draw.choices("abcdefgh", k=WORDS)
        cuts = sorted(draw.sample(range(1, WORDS), PHRASES - 1))
        marked = [word.upper() if place not in cuts else f"| {word.upper()}" for place, word in enumerate(words)]
        return " ".join(words), " ".join(marked), [*cuts, WORDS + 1]  # </s> belongs to the last phrase

    def reader(self, model: PhraseRepresentationModel, *, of_other_sentences: bool = False) -> BatchReader:
        """Batches with the phrases of the sentences, or with the phrases of the sentence after each."""
        ends = [*self._ends[1:], self._ends[0]] if of_other_sentences else self._ends
        columns = self._folder / f"phrases.{of_other_sentences}"
        batches = [(np.arange(len(ends)), {"ends": RaggedArray.of(ends)})]
        description = {"segmentation": RANDOM_ENDS.model_dump(mode="json")}
        write_columns(columns, columns=["ends"], texts={}, description=description, batches=batches)
        return BatchReader(Examples.open(self._folder / "examples"), model.model_inputs, [columns])


def _train(model: PhraseRepresentationModel, task: Task, reader: BatchReader, seed: int) -> nn.Module:
    """Train a system, and return it with the mean of its last parameters."""
    torch.manual_seed(seed)
    optimizer = Adam(warmup=WARMUP, factor=RATE * (model.learning_rate_width * WARMUP) ** 0.5)
    plan = {"sentences_per_update": 64, "optimizer": optimizer, "label_smoothing": 0.0, "clip_norm": 1.0}
    settings = settings_of(model=model, seed=seed, **plan)
    system = build_model(model, source_vocabulary=len(task.words), target_vocabulary=len(task.words))
    trainer, rows = Trainer(system, reader, settings), np.random.default_rng(seed)
    # The rate stays high, so the loss jumps between updates: after the last update it lies between 0.01 and 0.32 of
    # AMBIGUITY, after an average of the parameters (41 seeds) between 0.004 and 0.028.
    averaged = AveragedModel(system)
    for number in range(1, UPDATES + 1):
        trainer.update(number, rows.choice(TRAIN, 64, replace=False))
        if number > UPDATES - AVERAGED:
            averaged.update_parameters(system)
    return averaged.module


def _loss(system: nn.Module, reader: BatchReader) -> float:
    """Nats per held-out sentence."""
    system.eval()
    with torch.no_grad():
        return float(system.loss(reader(range(TRAIN, TRAIN + HELD_OUT)), label_smoothing=0.0).nll) / HELD_OUT


def test_a_phrase_system_learns_what_only_phrases_tell(tmp_path: Path) -> None:
    model, seed = PhraseRepresentationModel(**SIZE, pool="attn", ta="on"), random.randrange(2**31)
    print(f"seed {seed}")
    task = Task(tmp_path, random.Random(seed))
    reader = task.reader(model)
    system = _train(model, task, reader, seed)
    learned = _loss(system, reader)
    assert learned < 0.25 * AMBIGUITY, "the ends of phrases were not learned"
    assert _loss(system, task.reader(model, of_other_sentences=True)) > 2 * AMBIGUITY
    inside = system.measure([reader(range(TRAIN, TRAIN + HELD_OUT))], analysing=True)[1]
    for attended in ("phrases", "source_attention"):
        without = math.log(inside[f"perplexity_without_{attended}"]) * TOKENS
        assert without > learned + AMBIGUITY, f"{attended}: this attention makes no difference"
    # Networks of Eqs. (3) and (8) are alive, and far from saturation. With `sigmoid: plain` 7 to 72 % of the encoder's
    # units are saturated and 20 to 31 % of the decoder's, with W1 at the full rate 20 to 36 % of the units of Eq. (3);
    # as things are, at most 3 % of any network.
    assert inside["dead_networks"] == 0
    saturated = {name: value for name, value in inside.items() if name.endswith("_saturated") and value > 0.15}
    assert not saturated, "units of these networks saturate early"
