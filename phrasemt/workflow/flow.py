"""A study as the rules see it: which jobs there are, their settings and their commands.

The rules in rules/*.smk hold patterns and resources; every decision that depends on the study is made here, and in
phrasemt/workflow/inputs.py for the files that a job reads.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Literal

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.paths import Paths
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.study.annotators import AnnotatedText
from phrasemt.study.datasets import RegistryText
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Side
from phrasemt.workflow.code import code_digest
from phrasemt.workflow.inputs import CHOICES, FILES, Wildcards

Files = Callable[[Wildcards], list[str]]
# A pattern, or what gives the pattern of a job.
PatternOf = Pattern | Callable[[Wildcards], Pattern]


class Flow:
    """A study as the rules see it. place: the path of a folder that is no file of the workflow."""

    def __init__(self, study: Study, place: Callable[[str], str] = str) -> None:
        self.study = study
        self.place = place
        self.paths = Paths(study.study)
        self.generated = [name for name, dataset in study.datasets.items() if dataset.generator]
        self.contrast_sets = [name for dataset in study.datasets.values() for name in dataset.contrast_sets]
        self.partitioned = [name for name, dataset in study.datasets.items() if dataset.cut]
        self.translating_by_training = [name for name in study.models if name in study.translating]
        self.challengers = [name for name in study.translating if name in study.baselines]
        self.chunked = [name for name, dataset in study.datasets.items() if dataset.target_chunks]
        self.with_subwords = [name for name, dataset in study.datasets.items() if dataset.subwords.unit != "word"]
        self.trained_parsers = [name for name, parser in study.parsers.items() if parser.train]
        self.trained_annotators = [*self.trained_parsers, *study.chunkers]
        self.parsers_with_trees = [name for name, parser in study.parsers.items() if parser.trees or parser.generated]
        self.published_parsers = [name for name, parser in study.parsers.items() if parser.published]

    @property
    def wildcards(self) -> dict[str, str]:
        """A pattern for each wildcard that matches only names of the study."""
        datasets = self.study.datasets.values()
        annotators = self.study.annotators.values()
        texts: list[RegistryText | AnnotatedText] = [
            *(text for dataset in datasets for _, text in dataset.texts if isinstance(text, RegistryText)),
            *(text for dataset in datasets for _, text in dataset.contrast_texts if isinstance(text, RegistryText)),
            *(text for annotator in annotators for _, text in annotator.texts if text.corpus),
        ]
        languages = [language for dataset in datasets for language in dataset.languages]
        languages += ["en", "de"] if self.generated else []  # also of a monolingual data set, which reads one of them
        return {
            "dataset": self.only(self.study.datasets),
            "source": self.only(dataset.source_language for dataset in datasets),
            "target": self.only(dataset.target_language for dataset in datasets),
            "language": self.only([*languages, *(annotator.language for annotator in annotators)]),
            "split": self.only(
                split
                for dataset in datasets
                for name in (*dataset.split_names, *dataset.contrast_sets)
                for split in (dataset.references(name) if name in dataset.test_sets else [name])
            ),
            "metric": self.only(self.study.metrics),
            "system": self.only(self.study.systems),
            "seed": self.only(str(seed) for seed in self.study.seeds),
            "corpus": self.only(str(text.corpus) for text in texts),
            "part": self.only(str(text.part) for text in texts),
            "annotator": self.only(self.study.annotators),
            "phrase_model": self.only(self.study.phrase_models),
            "segmenter": self.only(self.study.segmentations),
            "job": r"\d+",
            "file": "[^/]+",
        }

    @staticmethod
    def only(names: Iterable[str]) -> str:
        """A pattern that matches one of these names; without names a pattern that matches nothing."""
        return "|".join(re.escape(name) for name in dict.fromkeys(names)) or "(?!)"

    def every(
        self,
        pattern: PatternOf,
        *choices: str,
        datasets: Iterable[str] | None = None,
        systems: Iterable[str] | None = None,
        splits: Literal["test", "all", "train and test", "contrastive"] = "test",
        seeds: Literal["first", "all"] = "all",
    ) -> list[str]:
        """A pattern filled in with all values in the study of those wildcards that the pattern has.

        Segmenters are those whose phrases do not depend on the batch. choices: of CHOICES, for the other wildcards.
        """
        paths: list[str] = []
        most = 1 if seeds == "first" else None
        rows = self.study.systems if systems is None else systems
        runs = [(name, seed) for name in rows for seed in self.study.seeds_of(name)[:most]]
        for name in self.study.datasets if datasets is None else datasets:
            dataset = self.study.datasets[name]
            source, target = dataset.languages
            path = pattern if isinstance(pattern, str) else pattern(SimpleNamespace(dataset=name))
            values: dict[str, Iterable[str]] = {
                "metric": self.study.metrics,
                "split": {
                    "test": dataset.test_sets,
                    "all": dataset.split_names,
                    "train and test": ("train", *dataset.test_sets),
                    "contrastive": dataset.contrastive,
                }[splits],
                "language": dataset.languages,
                "segmenter": [name for name, one in self.study.segmentations.items() if one.ntok_scope == "sentence"],
            }
            values = {key: one for key, one in values.items() if f"{{{key}}}" in path}
            for (system, seed), *chosen in itertools.product(runs, *values.values()):
                names = {"dataset": name, "source": source, "target": target, "system": system, "seed": seed}
                paths += self._chosen(path, choices, {**names, **dict(zip(values, chosen, strict=True))})
        return list(dict.fromkeys(paths))

    def cores(self, most: int) -> Callable[[Wildcards], int]:
        """Cores of a job: `most`, or 1 on a generated corpus, which is small, so that its jobs run side by side."""
        return lambda wildcards: 1 if wildcards.dataset in self.generated else most

    def priority(self, wildcards: Wildcards) -> int:
        """Priority of a job on the longest way to the table, so that no other job delays it.

        Parsers and chunkers, and columns of train and dev, come first, then the trainings that read such columns. Other
        trainings fill the cores meanwhile.
        """
        if hasattr(wildcards, "system"):
            return int(any(CHOICES[columns](self.study, wildcards) for columns in ("phrases", "chunks")))
        return 2 if getattr(wildcards, "split", "train") in ("train", "dev") else 0

    def log(self, stage: str) -> Pattern:
        return Pattern(f"{self.paths.logs}/{_job(stage)}.log")

    def benchmark(self, stage: str) -> Pattern:
        """Snakemake's table of the time and memory that a stage used."""
        return Pattern(f"{self.paths.benchmarks}/{_job(stage)}.tsv")

    def command(self, stage: str) -> str:
        """The shell command of a stage. It writes the settings and the lists of files beside the log.

        Linux limits the arguments of a program, so a large study does not fit into them. `printf` is part of the shell,
        which has no limit, and Snakemake gives a shell a long command as a script.
        """
        declared = STAGES[stage]
        # A folder is no path of the workflow: its parameter may hold a variable of the shell.
        places = {"input": "{{input.{0}:q}}", "output": "{{output.{0}:q}}", "folder": "{{params.{0}}}"}
        flags = {file: f"{file.flag} {places[file.use].format(file.name)}" for file in declared.stage_files()}
        lists = [text for file, text in flags.items() if file.many]
        # exec: a shell in between would be ended by the signals that ask a training to save.
        words = [f"{'exec ' if declared.resumes else ''}python -m phrasemt {stage} --settings {{log:q}}.settings"]
        words += ["@{log:q}.files"] if lists else []  # argparse takes each line for an argument
        words += [text for file, text in flags.items() if not file.many]
        words += ["--cores {threads}"]
        if declared.resumes:
            words += [f"--{name} {{resources.{name}}}" for name in ("nodes", "processes", "minutes")]
        written = {"settings": ["{params.settings:q}"], "files": lists}
        lines = [f"printf '%s\\n' {' '.join(text)} >{{log:q}}.{name}" for name, text in written.items() if text]
        return "\n".join([*lines, " ".join([*words, "--log {log:q}"])])

    def params(self, stage: str) -> dict[str, Callable[[Wildcards], str]]:
        """The parameters that decide a rerun: the stage's settings as canonical JSON, and the digest of its code.

        The command writes the settings to a file. No command holds the digest of the code; another digest makes
        Snakemake rerun the rule.
        """
        return {
            "settings": lambda wildcards: self.settings(stage, wildcards).canonical_json(),
            "code": lambda wildcards: code_digest(*self.settings(stage, wildcards).code_modules()),
        }

    def settings(self, stage: str, wildcards: Wildcards) -> Stage:
        return STAGES[stage].from_study(self.study, dict(wildcards.items()))

    def of(self, pattern: PatternOf, *choices: str, **names: object) -> Files:
        """The files of a pattern that a job reads. choices: of CHOICES; names: in place of the job's own wildcards."""
        return lambda wildcards: self._chosen(pattern, choices, {**dict(wildcards.items()), **names})

    def files(self, stage: str, name: str) -> Files:
        """The files of FILES that a job of a stage reads as its input of this name."""
        return lambda wildcards: FILES[stage][name](self.study, wildcards)

    def _chosen(self, pattern: PatternOf, choices: Iterable[str], own: Mapping[str, object]) -> list[str]:
        job = SimpleNamespace(**own)
        path = pattern if isinstance(pattern, str) else pattern(job)
        chosen = itertools.product(*(CHOICES[choice](self.study, job) for choice in choices))
        return [path.format(**{**own, **dict(itertools.chain(*map(dict.items, names)))}) for names in chosen]

    def text_of_models(self, side: Side) -> Callable[[Wildcards], Pattern]:
        """The text that models read of one side of a data set: subwords, or tokens where words are not cut."""

        def pattern(job: Wildcards) -> Pattern:
            paths, dataset = Paths.of(self.study, job.dataset), self.study.datasets[job.dataset]
            texts = paths.tokens if dataset.subwords.unit == "word" else paths.subwords
            return texts.at(language=dataset.language_of(side))

        return pattern

    @property
    def annotators(self) -> list[str]:
        used = []
        for dataset in self.study.datasets.values():
            used += [dataset.source_parser, dataset.target_chunks and dataset.target_chunks.chunker]
        return [self.paths.card.at(annotator=name) for name in dict.fromkeys(filter(None, used))]


def _job(stage: str) -> str:
    """The name of a job of a stage, for example tokenize_text/{dataset}.{source}-{target}/{split}.{language}."""
    pattern = STAGES[stage].job_name or next(iter(STAGES[stage].outputs.values())).replace("{study}", "")
    names = re.findall(r"{dataset}\.{source}-{target}|{\w+}", pattern)
    return "/".join(filter(None, [stage, *names[:1], ".".join(names[1:])]))
