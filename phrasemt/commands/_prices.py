"""The price of a study before its run: hours of GPUs and of cores, and disk.

A training or a search costs multiply-adds (phrasemt/models/cost.py), which a device computes at a rate: what trainings
of similar models below results/ reached on it, or else an estimate. A stage that prepares text costs time and disk for
each line, at the rates of one core in docs/performance.md.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.syntax import Card
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.errors import PhrasemtError
from phrasemt.files.blobs import CACHE, DEFAULT_CACHE
from phrasemt.files.lines import count_lines, read_lines
from phrasemt.registry.corpora import part_of, source_file
from phrasemt.runs.costs import Costs
from phrasemt.runs.notes import PlannedJob, StageNote, training_note
from phrasemt.study.architectures import Architecture, Layers
from phrasemt.study.datasets import DatasetText, RegistryText
from phrasemt.study.schema import Study
from phrasemt.syntax.annotations import buckets_of, key_array, parser_tokens, sentence_key
from phrasemt.syntax.store import CARD, AnnotationStore

# Products of 16-bit matrices, sums in float32, without sparsity, in 10^12 floating-point operations a second, as the
# data sheets state them. The first three have no units for bfloat16 and compute in float32.
GPUS = {
    "t4": 8.1, "gtx1080ti": 11.3, "v100": 15.7, "rtx3090": 71, "l4": 121, "a10": 125, "rtx4090": 165, "a100": 312,
    "l40s": 362, "h100": 989, "h200": 989,
}  # fmt: skip
DEFAULT, CPU = "a100", "cpu"
# The part of that rate that a training reaches, by family, and what remains of it with the attention of its settings:
# measured on an H200 with updates of 25,000 tokens, the Transformer compiled (docs/performance.md, "On a GPU").
FAMILIES = {
    "transformer": 0.19,
    "language_model": 0.19,
    "phrase_representation": 0.12,
    "dl4mt": 0.004,
    "biscale": 0.005,
}
ATTENTIONS = {"tokens": 1, "relative": 5 / 19, "ngrams": 8 / 19}
_OTHER_FAMILIES = 0.05
# Seconds that compiling takes in a training of a model with Transformer layers, on a GPU with units for bfloat16:
# 51 to 66 with 16 cores (docs/performance.md, "On a GPU"); a training logs what it took.
COMPILING = 60
_NOT_COMPILED = ("t4", "gtx1080ti", "v100")
# Of a core at width 256 (docs/performance.md, "Beside other toolkits"); a narrower model reaches less in proportion.
_CORE, _WIDE = 60e9, 256
_SIMILAR = 4  # models of one family whose multiply-adds differ by at most this factor reach the same rate
_SEARCH = 0.25  # of the rate of a training, because a search multiplies small matrices
_BACKWARD = 2  # times the multiply-adds of the forward pass
_TOKENS = 27  # a sentence, about the mean of WMT in subwords: POSITIONS of phrasemt/models/cost.py
_STATE = 6  # copies of the weights in the saved states of a training, without the checkpoints that are averaged
_SECONDS = 2  # of any stage, however small the corpus is
_OF_STANZA = {"train_parser": 220, "train_tagger": 40}  # seconds with the settings of the demo

# Of stages that read lines (or pairs): lines in a second of one core, and bytes of outputs for each line. Rates of
# extraction and partition are estimates.
_TEXT_STAGES = {
    "extract_text": (300_000, 130), "partition_corpus": (100_000, 0), "clean_pairs": (82_000, 135),
    "tokenize_text": (67_000, 140), "learn_subwords": (28_000, 0), "apply_subwords": (117_000, 150),
    "build_vocabulary": (43_000, 0), "pack_examples": (57_000, 120),
    "parse_sentences": (140, 180), "tag_sentences": (388, 100), "extract_phrases": (42_000, 40),
    "extract_chunks": (42_000, 60),
}  # fmt: skip
_PUBLISHED_PARSER, _GIVEN_TREES = 10, 5_000  # sentences a second of one core in place of that of parse_sentences
_ANNOTATION = ("parse_sentences", "tag_sentences")  # of a part of the lines each
_SAMPLED_LINES = 50_000  # of a text, to see which part of it the parse cache has; one of 64 is looked up
_OF_BOTH_SIDES = ("clean_pairs", "pack_examples")  # jobs that write a line of each side


@dataclass(frozen=True)
class Rate:
    """How fast a device trains. basis: what the rates rest on.

    of: floating-point operations a second of a GPU, or of a core, by the model and its operations for a target token.
    compiling: seconds of a training of a Transformer.
    """

    device: str
    basis: str
    of: Callable[[Architecture, float], float]
    on_gpu: bool = True
    compiling: float = 0


def rate_of(kind: str) -> Rate:
    """The rate of a kind of GPU by its data sheet."""

    def rate(model: Architecture, operations: float) -> float:
        of_attention = ATTENTIONS.get(getattr(model, "attention", "tokens"), 1)
        return GPUS[kind] * 1e12 * FAMILIES.get(model.family, _OTHER_FAMILIES) * of_attention

    reached = f"{min(FAMILIES.values()):.1%} to {max(FAMILIES.values()):.0%} by family and attention (as on an H200)"
    compiling = 0 if kind in _NOT_COMPILED else COMPILING
    basis = f"{GPUS[kind]} TFLOP/s ({kind}), of which a training reaches {reached}"
    return Rate(kind, basis, rate, compiling=compiling)


def rate_here(*, on_gpu: bool) -> Rate:
    """The median rate of finished trainings of similar models; for other models an estimate.

    Trainings on the GPU of the host with most of them, or on the CPU of this machine.
    """

    def rate_of_a_core(model: Architecture, operations: float) -> float:
        return _CORE * min(1, model.learning_rate_width / _WIDE)

    estimate = rate_of(DEFAULT)
    if not on_gpu:
        estimate = Rate(CPU, f"{_CORE / 1e9:.0f} GFLOP/s of a core (an estimate)", rate_of_a_core, on_gpu=False)
    here = (platform.node(), CPU)
    trainings = [
        training for training in _trainings() if (training.place[1] != CPU if on_gpu else training.place == here)
    ]
    if not trainings:
        return estimate
    ((place, number),) = Counter(training.place for training in trainings).most_common(1)

    def rate(model: Architecture, operations: float) -> float:
        similar = [
            training.rate
            for training in trainings
            if (training.place, training.name) == (place, model.full_name)
            and 1 / _SIMILAR <= training.operations / operations <= _SIMILAR
        ]
        return statistics.median(similar) if similar else estimate.of(model, operations)

    host, device = place
    basis = f"rates of {number} finished trainings on {device} of {host}; for models unlike theirs {estimate.basis}"
    return Rate(device, basis, rate, on_gpu, estimate.compiling)


class _Training(NamedTuple):
    """A finished training. place: host and device; operations: for a target token; rate: in a second of a process."""

    place: tuple[str, str]
    name: str
    operations: float
    rate: float


def _trainings() -> Iterator[_Training]:
    """The finished trainings below results/ that can be read."""
    for record in sorted(Path().glob(Paths.training_record.glob)):
        try:
            written = TrainingRecord.read(record)
            note = StageNote.read(training_note(record.parent / written.metrics))
            inputs = Sidecar.beside(record).inputs
            source, target = (count_lines(inputs[f"{side}_vocabulary"][0].path) for side in ("source", "target"))
        except (OSError, ValueError, KeyError, ValidationError, PhrasemtError):
            continue  # of another version, or without its state and its vocabularies
        if note and (report := note.training) and report.tokens_per_second:
            operations = _operations(written.model, source, target)[0]
            rate = operations * report.tokens_per_second / report.processes
            yield _Training((note.host, report.device), written.model.full_name, operations, rate)


def _operations(model: Architecture, source: int, target: int) -> tuple[float, int]:
    """Floating-point operations of a training for each target token, and parameters. source, target: vocabularies."""
    from phrasemt.models.cost import cost_of  # imports torch

    cost = cost_of(model, source_vocabulary=source, target_vocabulary=target)
    return 2 * (1 + _BACKWARD) * cost.multiply_adds, cost.parameters


def _cache() -> Path:
    return Path(os.environ.get(CACHE) or DEFAULT_CACHE)


@functools.cache
def _share_missing(tokens: Path, card: Path) -> float:
    """The share of sentences that the parse cache lacks, of those of its first bucket among the first lines."""
    description, cache = Card.read(card).description, _cache()
    if not (cache / "annotations" / description["fingerprint"] / CARD).is_file():
        return 1  # a store would be made
    lines = itertools.islice(read_lines(tokens), _SAMPLED_LINES)
    keys = np.unique(key_array([sentence_key(parser_tokens(line)) for line in lines]))
    of_bucket = keys[buckets_of(keys) == 0]
    return len(AnnotationStore(cache, description).missing(0, of_bucket)) / len(of_bucket) if len(of_bucket) else 1


class Prices:
    """Prices of the jobs of a study on a kind of device.

    unknown: texts of unpublished length. in_full: rules whose sentences cannot be looked up in the parse cache yet.
    """

    def __init__(self, study: Study, rate: Rate) -> None:
        self.study, self.rate = study, rate
        self.unknown: set[str] = set()
        self.in_full: set[str] = set()
        self._cost = functools.cache(self._cost_of)

    def basis(self) -> Iterator[str]:
        """What the prices so far rest on, and what they leave out."""
        compiling = f"{self.rate.compiling:.0f} s to compile a Transformer; " if self.rate.compiling else ""
        yield (
            f"assumed: {self.rate.basis}; {compiling}a search reaches {_SEARCH:.0%} of that rate; {_TOKENS} subwords a "
            "sentence; max_updates updates; measured or estimated rates of text stages, one core"
        )
        if not self.rate.on_gpu and (simple := list(self._simple())):
            yield (
                "faster: this CPU has units for bfloat16; `precision: bfloat16` takes about half of the time to train "
                f"{', '.join(simple)} (docs/performance.md)"
            )
        if self.in_full:
            yield (
                f"priced in full: {', '.join(sorted(self.in_full))}; sentences that the parse cache has will cost "
                "nothing, which can be seen when parser and tokens are there"
            )
        if self.unknown:
            yield f"left out, because their number of lines is not known: {', '.join(sorted(self.unknown))}"

    def _simple(self) -> Iterator[str]:
        """The systems that train in float32 because their study names no precision, and are wide enough to gain."""
        import torch  # takes seconds

        from phrasemt.nn.precision import usable_precision

        if usable_precision("bfloat16", torch.device("cpu")) == "bfloat16":
            for name, system in self.study.models.items():
                if system.model.learning_rate_width >= _WIDE and "precision" not in system.training.model_fields_set:
                    yield name

    def hours_of_training(self, system: str) -> float:
        """The hours of the device for one seed of a model on all data sets, its translations included."""
        total = Costs(jobs=0)
        for name, dataset in self.study.datasets.items():
            names = {"dataset": name, "system": system}
            total.add(self._of("train_model", names))
            for test_set in dataset.test_sets if self.study.models[system].translates else ():
                total.add(self._of("translate_examples", {**names, "split": test_set}))
        return total.gpu_hours or total.core_hours

    def share_to_annotate(self, job: PlannedJob) -> float:
        """The share of the sentences of a job that the parse cache lacks, by a sample; 1 before there are tokens."""
        if job.rule not in _ANNOTATION:
            return 1
        paths, annotator = Paths.of(self.study, job.wildcards["dataset"]), job.wildcards["annotator"]
        language = self.study.annotators[annotator].language
        tokens = Path(paths.tokens.at(language=language, split=job.wildcards["split"]))
        card = Path(paths.card.at(annotator=annotator))
        if tokens.exists() and card.exists():
            return _share_missing(tokens, card)
        if any(_cache().glob(f"annotations/*/{CARD}")):
            self.in_full.add(job.rule)
        return 1

    def of(self, job: PlannedJob) -> Costs:
        """The price of a job. A text of unknown length costs nothing."""
        return self._of(job.rule, job.wildcards)

    def _of(self, rule: str, names: Mapping[str, str]) -> Costs:
        if rule in ("train_model", "translate_examples"):
            operations, parameters = self._cost(names["dataset"], names["system"])
            system = self.study.models[names["system"]]
            hours = operations / self.rate.of(system.model, operations) / 3600  # for each target token of a training
            if rule == "train_model":
                training = system.training
                size = training.tokens_per_update or _TOKENS * (training.sentences_per_update or 0)
                copies = (training.average_best or training.average_last) + _STATE
                compiling = self.rate.compiling / 3600 if isinstance(system.model, Layers) else 0
                return self._of_device(hours * size * training.max_updates + compiling, 4 * parameters * copies)
            tokens = _TOKENS * self._lines(names["dataset"], names["split"]) * system.decoding.beam
            return self._of_device(hours / (1 + _BACKWARD) * tokens / _SEARCH)
        if rule == "fetch_corpus":
            return Costs(bytes=source_file(names["corpus"], names["file"]).bytes or 0)
        rate, bytes_of_line = _TEXT_STAGES.get(rule, (1, 0))
        lines = self._lines_of(rule, names) if rule in _TEXT_STAGES else 0
        if rule == "parse_sentences" and (parser := self.study.parsers.get(names["annotator"])) is not None:
            rate = _PUBLISHED_PARSER if parser.published else _GIVEN_TREES if parser.trees or parser.generated else rate
        sides = len(self.study.datasets[names["dataset"]].sides) if rule in _OF_BOTH_SIDES else 1
        return Costs(
            core_hours=(_OF_STANZA.get(rule, _SECONDS) + lines / rate) / 3600, bytes=lines * sides * bytes_of_line
        )

    def _of_device(self, hours: float, size: float = 0) -> Costs:
        return Costs(gpu_hours=hours, bytes=size) if self.rate.on_gpu else Costs(core_hours=hours, bytes=size)

    def _cost_of(self, dataset: str, system: str) -> tuple[float, int]:
        from phrasemt.commands.describe import vocabulary_sizes  # imports torch

        source, target, _ = vocabulary_sizes(self.study, dataset)
        return _operations(self.study.models[system].model, source, target)

    def _lines_of(self, rule: str, names: Mapping[str, str]) -> int:
        """The lines (or pairs) that a job of a stage for text reads."""
        if rule == "extract_text":
            return self._published_lines(names["corpus"], names["part"])
        split = names.get("split", "train")
        jobs = self.study.datasets[names["dataset"]].annotation_jobs(split) if rule in _ANNOTATION else 1
        return self._lines(names["dataset"], split) // jobs

    def _lines(self, name: str, split: str) -> int:
        """The number of pairs of a split, without texts of unpublished length."""
        dataset, split = self.study.datasets[name], split.partition(".")[0]
        if dataset.generator:
            return int(getattr(dataset.generator, split, dataset.generator.test))
        if (cut := dataset.cut) and split in cut.splits:
            train = sum(map(self._lines_of_text, cut.texts)) - cut.dev - cut.test
            return {"train": max(train, 0), "dev": cut.dev, "test": cut.test}[split]
        return sum(map(self._lines_of_text, dataset.texts_of_split(split)))

    def _lines_of_text(self, text: DatasetText) -> int:
        if isinstance(text, RegistryText):
            return self._published_lines(text.corpus, text.part)
        if not text.source.is_file():
            self.unknown.add(str(text.source))
            return 0
        return count_lines(text.source)

    def _published_lines(self, corpus: str, part: str) -> int:
        lines = part_of(corpus, part).lines
        if not lines:
            self.unknown.add(f"{corpus} {part}")
        return lines or 0
