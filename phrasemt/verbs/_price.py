"""The price of a study before its run: hours, disk and memory of each stage, and days on some GPUs.

Trainings and translations are counted in multiply-adds (phrasemt/models/cost.py), which a device computes at some rate
(phrasemt/verbs/_rates.py). Other stages are counted in lines, at the rates of one core in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from phrasemt.files.lines import count_lines
from phrasemt.registry.corpora import part_of, source_file
from phrasemt.study.datasets import DatasetText, RegistryText
from phrasemt.study.schema import Study
from phrasemt.verbs._rates import BACKWARD, Rate
from phrasemt.verbs._tables import size, table
from phrasemt.verbs.describe import vocabulary_sizes

if TYPE_CHECKING:  # these import Snakemake and torch
    from phrasemt.models.cost import Cost
    from phrasemt.runs.plan import Job, Plan

TOKENS = 27  # a sentence, about the mean of WMT in subwords: POSITIONS of phrasemt/models/cost.py
OTHER_SECONDS = 10  # of a stage that takes seconds however much is trained on

# Lines (or pairs) of a job in a second of one core: estimates for extraction and partition, the others from
# docs/performance.md.
RATES = {
    "extract_text": 300_000,
    "partition_corpus": 100_000,
    "clean_pairs": 82_000,
    "tokenize_text": 67_000,
    "learn_subwords": 28_000,
    "apply_subwords": 117_000,
    "build_vocabulary": 43_000,
    "pack_examples": 57_000,
    "collect_sentences": 83_000,
    "parse_sentences": 140,
    "tag_sentences": 388,
    "extract_phrases": 42_000,
    "extract_chunks": 42_000,
}
PUBLISHED_PARSER = 10  # sentences a second of one core, estimated
# Bytes of a job's outputs for each line that it reads.
DISK = {
    "extract_text": 130,
    "clean_pairs": 135,
    "tokenize_text": 140,
    "apply_subwords": 150,
    "pack_examples": 120,
    "collect_sentences": 140,
    "parse_sentences": 180,
    "tag_sentences": 100,
    "extract_phrases": 40,
    "extract_chunks": 60,
}
OF_BOTH_SIDES = ("clean_pairs", "pack_examples")  # jobs that write a line of each side
STATE = 6  # copies of the weights in the states that a training keeps, beside the averaged checkpoints


@dataclass
class Price:
    """Of some jobs together. memory: the most that the profile reserves for one of them, in MB; longest: GPU hours."""

    jobs: int = 0
    core_hours: float = 0
    gpu_hours: float = 0
    bytes: float = 0
    memory: float = 0
    longest: float = 0
    unknown: set[str] = field(default_factory=set)

    def add(self, other: Price) -> None:
        self.jobs += other.jobs
        self.core_hours += other.core_hours
        self.gpu_hours += other.gpu_hours
        self.bytes += other.bytes
        self.memory = max(self.memory, other.memory)
        self.longest = max(self.longest, other.longest)
        self.unknown |= other.unknown


class Prices:
    """Prices of the jobs of a study on a kind of device."""

    def __init__(self, study: Study, rate: Rate) -> None:
        self._study = study
        self._rate = rate
        self._costs: dict[tuple[str, str], Cost] = {}
        self._pairs: dict[tuple[str, str], int | None] = {}

    def of(self, job: Job) -> Price:
        """The price of a job. The unknown holds the texts whose number of lines nobody has published."""
        rule, wildcards = job.planned.rule, dict(job.snakemakes.wildcards.items())
        price = Price(jobs=1, memory=float(job.snakemakes.resources.get("mem_mb") or 0))
        if rule == "fetch_corpus":
            price.bytes = source_file(wildcards["corpus"], wildcards["file"]).bytes or 0
        elif rule == "train_model":
            self._train(job, price)
        elif rule == "translate_examples":
            self._translate(job, wildcards["split"], price)
        elif rule in RATES:
            self._read(rule, wildcards, price)
        else:
            price.core_hours = OTHER_SECONDS / 3600
        price.longest = price.gpu_hours
        return price

    def _train(self, job: Job, price: Price) -> None:
        assert job.dataset is not None
        assert job.system is not None
        training, cost = self._study.models[job.system].training, self._cost(job.dataset, job.system)
        tokens = training.tokens_per_update or TOKENS * (training.sentences_per_update or 0)
        operations = 2 * (1 + BACKWARD) * cost.multiply_adds * tokens * training.max_updates
        price.gpu_hours = operations / self._rate.training / 3600
        kept = training.average_best or training.average_last
        price.bytes = 4 * cost.parameters * (kept + STATE)

    def _translate(self, job: Job, split: str, price: Price) -> None:
        assert job.dataset is not None
        assert job.system is not None
        sentences = self._lines(job.dataset, split, price)
        beam = self._study.models[job.system].decoding.beam
        operations = 2 * self._cost(job.dataset, job.system).multiply_adds * TOKENS * beam * sentences
        price.gpu_hours = operations / self._rate.search / 3600

    def _read(self, rule: str, wildcards: dict[str, str], price: Price) -> None:
        if rule == "extract_text":
            corpus, part = wildcards["corpus"], wildcards["part"]
            lines = part_of(corpus, part).lines or 0
            price.unknown |= set() if lines else {f"{corpus} {part}"}
        else:
            lines = self._lines(wildcards["dataset"], wildcards.get("split", "train"), price)
        rate = RATES[rule]
        if rule in ("parse_sentences", "tag_sentences"):
            lines //= self._study.datasets[wildcards["dataset"]].annotation_jobs(wildcards["split"])
            parser = self._study.parsers.get(wildcards.get("annotator", ""))
            rate = PUBLISHED_PARSER if parser is not None and parser.published else rate
        price.core_hours = (OTHER_SECONDS + lines / rate) / 3600
        sides = len(self._study.datasets[wildcards["dataset"]].sides) if rule in OF_BOTH_SIDES else 1
        price.bytes = lines * sides * DISK.get(rule, 0)

    def _cost(self, dataset: str, system: str) -> Cost:
        from phrasemt.models.cost import cost_of

        if (dataset, system) not in self._costs:
            source, target, _ = vocabulary_sizes(self._study, dataset)
            model = self._study.models[system].model
            self._costs[dataset, system] = cost_of(model, source_vocabulary=source, target_vocabulary=target)
        return self._costs[dataset, system]

    def _lines(self, name: str, split: str, price: Price) -> int:
        """The number of pairs of a split, without those whose number nobody has published, which go to the unknown."""
        dataset, split = self._study.datasets[name], split.partition(".")[0]
        if dataset.generator:
            return int(getattr(dataset.generator, split, dataset.generator.test))
        if dataset.partition and split in ("train", "dev", "test"):
            held_out = dataset.partition.dev + dataset.partition.test
            whole = self._of_texts([dataset.partition.text], price)
            return max(whole - held_out, 0) if split == "train" else int(getattr(dataset.partition, split))
        return self._of_texts(dataset.texts_of_split(split), price)

    def _of_texts(self, texts: list[DatasetText], price: Price) -> int:
        total = 0
        for text in texts:
            if isinstance(text, RegistryText):
                lines = part_of(text.corpus, text.part).lines
                price.unknown |= set() if lines else {f"{text.corpus} {text.part}"}
                total += lines or 0
            else:
                total += count_lines(text.source)
        return total


def price_of(plan: Plan, study: Study, *, rate: Rate, gpus: int) -> Iterator[str]:
    """Yield the lines about the price of all jobs of a plan."""
    prices = Prices(study, rate)
    of_rules: dict[str, Price] = {}
    total = Price()
    longest = ("", 0.0)
    for job in plan.jobs:
        price = prices.of(job)
        of_rules.setdefault(job.planned.rule, Price()).add(price)
        total.add(price)
        longest = max(longest, (job.system or job.planned.rule, price.longest), key=lambda found: found[1])
    rows: list[tuple[str, ...]] = [("rule", "jobs", "core h", "GPU h", "disk", "memory")]
    for name, price in (*of_rules.items(), ("all", total)):
        hours = [f"{hours:,.1f}" if hours >= 0.05 else "" for hours in (price.core_hours, price.gpu_hours)]
        memory = f"{price.memory:,.0f} MB" if price.memory else ""
        rows.append((name, f"{price.jobs:,}", *hours, size(price.bytes) if price.bytes else "", memory))
    yield f"price on {gpus} x {rate.device}"
    yield from (f"  {line}" for line in table(rows, right_aligned=rows[0][1:]))
    days = max(total.gpu_hours / gpus, longest[1]) / 24
    yield f"{days:,.1f} days of the GPUs; the longest job, {longest[0]}, takes {longest[1] / 24:,.1f} on one of them"
    yield (
        f"assumed: {rate.basis}; the backward pass costs {BACKWARD} times the forward pass; {TOKENS} subwords a "
        "sentence; max_updates updates; measured or estimated rates of text stages, one core"
    )
    if total.unknown:
        yield f"left out, because nobody has published their number of lines: {', '.join(sorted(total.unknown))}"
