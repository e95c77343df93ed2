"""The price of a study before its run: hours, disk and memory of each stage, and days on some GPUs.

Trainings and translations are counted in multiply-adds (phrasemt/models/cost.py), which a device computes at a rate: by
its data sheet (_rates.py), or by the finished trainings whose records lie below results/. Other stages are counted in
lines, at the rates of one core in docs/performance.md.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import count_lines
from phrasemt.models.cost import Cost, cost_of
from phrasemt.registry.corpora import part_of, source_file
from phrasemt.runs.costs import ALL, Costs, by_rule
from phrasemt.runs.notes import StageNote, training_note
from phrasemt.runs.plan import Job, Plan
from phrasemt.runs.text_table import table
from phrasemt.runs.units import size
from phrasemt.study.architectures import Architecture
from phrasemt.study.datasets import DatasetText, RegistryText
from phrasemt.study.schema import Study
from phrasemt.verbs._rates import GPUS, MEASURED, OF_OTHER_FAMILIES, SEARCH, TOKENS, UTILISATION, target_tokens
from phrasemt.verbs.describe import vocabulary_sizes
from phrasemt.verbs.plan import describe_systems

BACKWARD = 2  # times the multiply-adds of the forward pass
OTHER_SECONDS = 10  # of a stage that takes seconds however much is trained on

# Of stages that read lines (or pairs): lines in a second of one core, and bytes of outputs for each line. Rates of
# extraction and partition are estimates, the others are from docs/performance.md.
TEXT_STAGES = {
    "extract_text": (300_000, 130),
    "partition_corpus": (100_000, 0),
    "clean_pairs": (82_000, 135),
    "tokenize_text": (67_000, 140),
    "learn_subwords": (28_000, 0),
    "apply_subwords": (117_000, 150),
    "build_vocabulary": (43_000, 0),
    "pack_examples": (57_000, 120),
    "collect_sentences": (83_000, 140),
    "parse_sentences": (140, 180),
    "tag_sentences": (388, 100),
    "extract_phrases": (42_000, 40),
    "extract_chunks": (42_000, 60),
}
PUBLISHED_PARSER = 10  # sentences a second of one core, estimated
GIVEN_TREES = 5_000  # the same, of looking up trees that the user gives
OF_BOTH_SIDES = ("clean_pairs", "pack_examples")  # jobs that write a line of each side
STATE = 6  # copies of the weights in the states that a training keeps, beside the averaged checkpoints


def training_operations(cost: Cost) -> float:
    """Floating-point operations of a training for each target token."""
    return 2 * (1 + BACKWARD) * cost.multiply_adds


@dataclass(frozen=True)
class Rate:
    """How fast a device trains: floating-point operations a second, by family of models, and what they rest on.

    others: of families that are missing.
    """

    device: str
    of_families: Mapping[str, float]
    others: float
    basis: str

    def of(self, model: Architecture) -> float:
        return self.of_families.get(model.family, self.others)


def rate_of(kind: str, utilisation: float | None = None) -> Rate:
    """The rate of a kind of GPU, or of the device of finished trainings (`MEASURED`).

    utilisation: share of the stated rate that every family reaches; None: an estimate for each.
    Raises PhrasemtError if no training has finished.
    """
    if kind == MEASURED:
        return _measured_rate()
    stated = GPUS[kind] * 1e12
    shares = UTILISATION if utilisation is None else {}
    others = OF_OTHER_FAMILIES if utilisation is None else utilisation
    told = f"{min(shares.values()):.1%} to {max(shares.values()):.0%} by family" if shares else f"{others:.0%}"
    return Rate(
        device=kind,
        of_families={family: stated * share for family, share in shares.items()},
        others=stated * others,
        basis=f"{GPUS[kind]} TFLOP/s ({kind}), of which a training reaches {told}"
        + (" (an estimate, docs/performance-log.md)" if shares else ""),
    )


def _measured_rate() -> Rate:
    """The medians, over all and by family, of the finished trainings of the device that has most of them."""
    rates: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for host, device, family, rate in _trainings():
        rates.setdefault((host, device), []).append((family, rate))
    if not rates:
        raise PhrasemtError(
            "no finished training tells a rate",
            where=TrainingRecord.pattern.glob,
            expected="the records of a training with its note and its vocabularies",
            next_step=f"run a study or its rehearsal first, or name a kind of GPU: {', '.join(GPUS)}",
        )
    (host, device), found = max(rates.items(), key=lambda entry: len(entry[1]))
    families = {family: statistics.median(rate for of, rate in found if of == family) for family, _ in found}
    told = ", ".join(f"{family} {rate / 1e12:,.3g}" for family, rate in families.items())
    return Rate(
        device=device,
        of_families=families,
        others=statistics.median(rate for _, rate in found),
        basis=f"measured rates of {device} on {host} in TFLOP/s, medians of {len(found)} finished trainings: {told}",
    )


def _trainings() -> Iterator[tuple[str, str, str, float]]:
    """Host, device, family and operations a second of each process, for each finished training that can be read."""
    for record in sorted(Path().glob(TrainingRecord.pattern.glob)):
        try:
            written = TrainingRecord.read(record)
            note = StageNote.read(training_note(record.parent / written.metrics))
            inputs = Sidecar.beside(record).inputs
            source, target = (count_lines(inputs[f"{side}_vocabulary"][0].path) for side in ("source", "target"))
        except (OSError, ValueError, KeyError, ValidationError, PhrasemtError):
            continue  # of another version, or without its state and its vocabularies
        if note and note.training and note.training.tokens_per_second:
            cost = cost_of(written.model, source_vocabulary=source, target_vocabulary=target)
            operations = training_operations(cost) * note.training.tokens_per_second
            yield note.host, note.training.device, written.model.family, operations / note.training.processes


class Prices:
    """Prices of the jobs of a study on a kind of device. unknown: texts whose length nobody has published."""

    def __init__(self, study: Study, rate: Rate) -> None:
        self.study, self.rate = study, rate
        self.unknown: set[str] = set()
        self._cost = functools.cache(self._cost_of)

    def of(self, job: Job) -> Costs:
        """The price of a job. A text of unknown length costs nothing."""
        rule, names = job.planned.rule, job.wildcards
        if rule == "train_model":
            price = self._training(names["dataset"], names["system"])
        elif rule == "translate_examples":
            price = self._translation(names["dataset"], names["system"], names["split"])
        elif rule in TEXT_STAGES:
            price = self._text(rule, names)
        elif rule == "fetch_corpus":
            price = Costs(bytes=source_file(names["corpus"], names["file"]).bytes or 0)
        else:
            price = Costs(core_hours=OTHER_SECONDS / 3600)
        price.memory = float(job.snakemakes.resources.get("mem_mb") or 0)
        return price

    def _training(self, dataset: str, system: str) -> Costs:
        training, cost = self.study.models[system].training, self._cost(dataset, system)
        operations = training_operations(cost) * target_tokens(training)
        kept = training.average_best or training.average_last
        return Costs(gpu_hours=operations / self._rate(system) / 3600, bytes=4 * cost.parameters * (kept + STATE))

    def _translation(self, dataset: str, system: str, split: str) -> Costs:
        tokens = TOKENS * self._lines(dataset, split) * self.study.models[system].decoding.beam
        operations = 2 * self._cost(dataset, system).multiply_adds * tokens
        return Costs(gpu_hours=operations / (SEARCH * self._rate(system)) / 3600)

    def _rate(self, system: str) -> float:
        return self.rate.of(self.study.models[system].model)

    def _text(self, rule: str, names: dict[str, str]) -> Costs:
        rate, bytes_of_line = TEXT_STAGES[rule]
        if rule == "extract_text":
            lines = self._published_lines(names["corpus"], names["part"])
            return Costs(core_hours=(OTHER_SECONDS + lines / rate) / 3600, bytes=lines * bytes_of_line)
        dataset = self.study.datasets[names["dataset"]]
        lines = self._lines(names["dataset"], names.get("split", "train"))
        if rule in ("parse_sentences", "tag_sentences"):
            lines //= dataset.annotation_jobs(names["split"])
            parser = self.study.parsers.get(names["annotator"])
            if parser is not None:
                rate = PUBLISHED_PARSER if parser.published else GIVEN_TREES if parser.trees else rate
        sides = len(dataset.sides) if rule in OF_BOTH_SIDES else 1
        return Costs(core_hours=(OTHER_SECONDS + lines / rate) / 3600, bytes=lines * sides * bytes_of_line)

    def _cost_of(self, dataset: str, system: str) -> Cost:
        source, target, _ = vocabulary_sizes(self.study, dataset)
        return cost_of(self.study.models[system].model, source_vocabulary=source, target_vocabulary=target)

    def _lines(self, name: str, split: str) -> int:
        """The number of pairs of a split, without those whose number nobody has published."""
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
        return count_lines(text.source)

    def _published_lines(self, corpus: str, part: str) -> int:
        lines = part_of(corpus, part).lines
        if not lines:
            self.unknown.add(f"{corpus} {part}")
        return lines or 0


def describe_price(plan: Plan, prices: Prices, gpus: int) -> Iterator[str]:
    """Yield the lines about the price of all jobs of a plan. gpus: on so many of the kind of the prices."""
    priced = [(job, prices.of(job)) for job in plan.jobs]
    costs = by_rule((job.planned.rule, price) for job, price in priced)
    rows: list[tuple[str, ...]] = [("rule", "jobs", "core h", "GPU h", "disk", "memory")]
    for rule, one in costs.items():
        hours = [f"{hours:,.1f}" if hours >= 0.05 else "" for hours in (one.core_hours, one.gpu_hours)]
        memory = f"{one.memory:,.0f} MB" if one.memory else ""
        rows.append((rule, f"{one.jobs:,}", *hours, size(one.bytes) if one.bytes else "", memory))
    yield f"price on {gpus} x {prices.rate.device}"
    yield from (f"  {line}" for line in table(rows, right_aligned=rows[0][1:]))
    yield from describe_systems(priced)
    longest, its_price = max(priced, key=lambda one: one[1].gpu_hours)
    name, its_days = longest.wildcards.get("system", longest.planned.rule), its_price.gpu_hours / 24
    days = max(costs[ALL].gpu_hours / 24 / gpus, its_days)
    yield f"{days:,.1f} days of the GPUs; the longest job, {name}, takes {its_days:,.1f} on one of them"
    yield (
        f"assumed: {prices.rate.basis}; a search reaches {SEARCH:.0%} of that rate; "
        f"the backward pass costs {BACKWARD} times the forward pass; {TOKENS} subwords a "
        "sentence; max_updates updates; measured or estimated rates of text stages, one core"
    )
    if prices.unknown:
        yield f"left out, because nobody has published their number of lines: {', '.join(sorted(prices.unknown))}"
