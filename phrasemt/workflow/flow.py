"""A study as the rules see it: which jobs there are, which files they read, and their commands.

The rules in rules/*.smk hold patterns and resources; every decision that depends on the study is made here.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.corpus import OriginalFile, RegisteredText
from phrasemt.artefacts.syntax import StanzaFile
from phrasemt.files.source_file import MIRROR
from phrasemt.registry.corpora import contrasts_of, files_of
from phrasemt.registry.stanza_models import files_of_package
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.study.annotators import AnnotatedText, Parser
from phrasemt.study.datasets import ContrastText, Dataset, DatasetText, RegistryText
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Side
from phrasemt.workflow.code import code_digest, module_digests
from phrasemt.workflow.model_folder import PLACES
from phrasemt.workflow.paths import Paths, initial_weights

# Snakemake's wildcards of a job: an object with items(), which Snakemake passes to the functions made here.
Wildcards = Any
Files = Callable[[Wildcards], list[str]]
# A pattern, or what gives the pattern of a job; None: the job reads no such file.
PatternOf = Pattern | Callable[[Wildcards], Pattern | None]


class Flow:
    """A study as the rules see it. place: the path of a folder that is no file of the workflow."""

    def __init__(self, study: Study, place: Callable[[str], str] = str) -> None:
        self.study = study
        self.place = place
        self.paths = Paths(study.study)
        self.generated = [name for name, dataset in study.datasets.items() if dataset.generator]
        self.contrast_sets = [name for dataset in study.datasets.values() for name in dataset.contrast_sets]
        self.partitioned = [name for name, dataset in study.datasets.items() if dataset.cut]
        self.models = list(study.models)
        self.outside = list(study.outside)
        self.phrase_based = list(study.phrase_based)
        self.translating = study.translating
        self.translating_by_training = [name for name in study.models if name in study.translating]
        self.challengers = [name for name in study.translating if name in study.baselines]
        self.language_models = study.language_models
        self.chunking = study.chunking
        self.chunked = [name for name, dataset in study.datasets.items() if dataset.target_chunks]
        self.trained_parsers = [name for name, parser in study.parsers.items() if parser.train]
        self.trained_chunkers = [name for name, chunker in study.chunkers.items() if chunker.train]
        self.trained_annotators = [*self.trained_parsers, *self.trained_chunkers]
        self.parsers_with_trees = [name for name, parser in study.parsers.items() if parser.trees]
        made = {*self.trained_annotators, *self.parsers_with_trees}
        self.ready_annotators = [name for name in study.annotators if name not in made]

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
        pattern: str,
        *,
        datasets: Iterable[str] | None = None,
        systems: Iterable[str] | None = None,
        splits: Literal["test", "all", "train and test", "contrastive"] = "test",
        seeds: Literal["first", "all"] = "all",
    ) -> list[str]:
        """A pattern filled in with all values in the study of those wildcards that the pattern has.

        Segmenters are those whose phrases do not depend on the batch.
        """
        paths = []
        seeds_of = {name: self.study.seeds_of(name) for name in (self.study.systems if systems is None else systems)}
        runs = [
            (name, seed)
            for name, all_seeds in seeds_of.items()
            for seed in all_seeds[: 1 if seeds == "first" else None]
        ]
        for name in self.study.datasets if datasets is None else datasets:
            dataset = self.study.datasets[name]
            source, target = dataset.languages
            choices: dict[str, Iterable[str]] = {
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
            choices = {key: values for key, values in choices.items() if f"{{{key}}}" in pattern}
            for (system, seed), *chosen in itertools.product(runs, *choices.values()):
                names = {"dataset": name, "source": source, "target": target, "system": system, "seed": seed}
                paths.append(pattern.format(**names, **dict(zip(choices, chosen, strict=True))))
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
            return 1 if self.phrases("train")(wildcards) or self.chunks("train")(wildcards) else 0
        return 2 if getattr(wildcards, "split", "train") in ("train", "dev") else 0

    def command(self, stage: str) -> str:
        """The shell command of a stage's rule."""
        declared = STAGES[stage]
        # exec: a shell in between would be ended by the signals that tell a training to save.
        words = [f"{'exec ' if declared.resumes() else ''}python -m phrasemt {stage}"]
        # A folder is no path of the workflow: its parameter may hold a variable of the shell.
        places = {"input": "{{input.{0}:q}}", "output": "{{output.{0}:q}}", "folder": "{{params.{0}}}"}
        words += [f"{file.flag} {places[file.use].format(file.name)}" for file in declared.stage_files()]
        words += ["--settings {params.settings:q}", "--cores {threads}"]
        if declared.resumes():
            words += [f"--{name} {{resources.{name}}}" for name in ("nodes", "processes", "minutes")]
        return " ".join([*words, "--log {log:q}"])

    def params(self, stage: str) -> dict[str, Callable[[Wildcards], str]]:
        """The parameters that decide a rerun: the stage's settings as canonical JSON, and the digest of its code.

        The command holds the settings. No command holds the digest of the code; another digest makes Snakemake rerun
        the rule.
        """
        return {
            "settings": lambda wildcards: self.settings(stage, wildcards).canonical_json(),
            "code": lambda wildcards: code_digest(*self.settings(stage, wildcards).code_modules()),
        }

    def settings(self, stage: str, wildcards: Wildcards) -> Stage:
        """The settings of a stage for a job."""
        return STAGES[stage].from_study(self.study, dict(wildcards.items()))

    def modules(self, jobs: Iterable[Any]) -> dict[str, str]:
        """Digests of all modules that the stages of these jobs use."""
        settings = [self.settings(job.rule.name, job.wildcards) for job in jobs]
        return module_digests(*{module for one in settings for module in one.code_modules()})

    def each(self, pattern: PatternOf, choose: Callable[[Wildcards], Iterable[Mapping[str, object]]]) -> Files:
        """Files of a pattern, one for each of the names that `choose` puts in place of a job's own wildcards."""

        def files(wildcards: Wildcards) -> list[str]:
            chosen = pattern if isinstance(pattern, str) else pattern(wildcards)
            if chosen is None:
                return []
            own = dict(wildcards.items())
            return [chosen.format(**{**own, **names}) for names in choose(wildcards)]

        return files

    def of(self, pattern: PatternOf, **names: object) -> Files:
        """The file of a job, with these names in place of its own wildcards."""
        return self.each(pattern, lambda wildcards: [names])

    def optional(self, pattern: PatternOf, when: Callable[[Wildcards], object]) -> Files:
        """The file of those jobs for which a condition holds."""
        return self.each(pattern, lambda wildcards: [{}] if when(wildcards) else [])

    def of_test_sets(self, pattern: PatternOf) -> Files:
        """A file of each test set of a data set."""
        return self.each(pattern, lambda job: [{"split": split} for split in self._dataset(job).test_sets])

    def of_held_out(self, pattern: PatternOf) -> Files:
        """A file of dev and of each test set of a data set."""
        return self.each(pattern, lambda job: [{"split": split} for split in self._dataset(job).held_out])

    def of_references(self, pattern: PatternOf) -> Files:
        """A file of each reference of each test set of a data set."""
        return self.each(pattern, lambda job: [{"split": split} for split in self._dataset(job).all_references])

    def of_further_references(self, pattern: PatternOf) -> Files:
        """A file of each reference of each test set but its first one, which is the target side of the test set."""
        return self.each(pattern, lambda job: [{"split": split} for split in self._dataset(job).further_references])

    def of_seeds(self, pattern: PatternOf, system: str | None = None) -> Files:
        """A file of each seed of a system; without a name, of the system of the job."""
        return self.each(pattern, lambda job: self._seeds(system or job.system))

    def of_seeds_of_baseline(self, pattern: PatternOf) -> Files:
        """A file of each seed of the system that the system of the job is compared with."""
        return self.each(pattern, lambda job: self._seeds(self.study.baseline_of(job.system)))

    def of_repeated(self, pattern: PatternOf) -> Files:
        """A file of each seed of each system that has several; it tells how much trainings differ."""
        return self.each(pattern, lambda _: [run for system in self.study.repeated for run in self._seeds(system)])

    def of_metrics(self, of_seeds: Callable[[Pattern], Files]) -> Files:
        """The scores in the metrics of the user, of the seeds that `of_seeds` chooses."""
        of_each = [of_seeds(self.paths.metric_scores.at(metric=metric)) for metric in self.study.metrics]
        return lambda wildcards: [path for files in of_each for path in files(wildcards)]

    def of_phrase_model(self, pattern: PatternOf) -> Files:
        """A file of the phrase-based model of a system."""
        models = {name: system.model.folder_name for name, system in self.study.phrase_based.items()}
        return self.each(pattern, lambda job: [{"phrase_model": models[job.system]}])

    def of_subwords(self, pattern: PatternOf) -> Files:
        """A file of `learn_subwords`; no file where words are not cut."""
        return self.optional(pattern, lambda job: self._dataset(job).subwords.unit != "word")

    def _dataset(self, wildcards: Wildcards) -> Dataset:
        return self.study.datasets[wildcards.dataset]

    def _seeds(self, system: str) -> list[dict[str, object]]:
        return [{"system": system, "seed": seed} for seed in self.study.seeds_of(system)]

    def raw_texts(self, side: Side) -> Files:
        """One side of a split before cleaning: registered texts, files of the user, or what the workflow makes."""

        def raw_texts(wildcards: Wildcards) -> list[str]:
            dataset = self._dataset(wildcards)
            texts = dataset.texts_of_split(wildcards.split)
            if texts and not (dataset.cut and wildcards.split in dataset.cut.splits):
                return [_text_path(text, dataset, side) for text in texts]
            raw_text = Paths.of(self.study, wildcards.dataset).raw_text
            return [raw_text.at(split=wildcards.split, language=dataset.language_of(side))]

        return raw_texts

    def whole_text(self, side: Side) -> Files:
        """One side of the texts that are cut into splits."""
        cuts = {name: dataset.cut for name, dataset in self.study.datasets.items() if dataset.cut}
        return lambda job: [_text_path(text, self._dataset(job), side) for text in cuts[job.dataset].texts]

    def original_files(self, wildcards: Wildcards) -> list[str]:
        """The fetched files that hold one side of a part of a registered corpus."""
        at_hand = functools.partial(is_at_hand, self.study, wildcards.corpus)
        files = files_of(wildcards.corpus, wildcards.part, wildcards.language, at_hand)
        return [OriginalFile.pattern.at(corpus=wildcards.corpus, file=file) for file in files]

    def contrast_files(self, wildcards: Wildcards) -> list[str]:
        """The files of a set of contrastive pairs, registered or of the user."""
        texts = self._dataset(wildcards).contrast_sets[wildcards.split]
        return [file for text in texts for file in _contrast_files(text)]

    def model_files(self, role: str) -> Files:
        """The file of a role (constituency, tagger, ...) of an annotator that the workflow does not train, if any."""

        def model_files(wildcards: Wildcards) -> list[str]:
            annotator = self.study.annotators[wildcards.annotator]
            if annotator.files is not None:
                file = getattr(annotator.files, role, None)
                return [str(file)] if file else []
            assert isinstance(annotator, Parser)
            assert annotator.published is not None
            files = files_of_package(annotator.language, annotator.published)
            return [StanzaFile.pattern.at(language=annotator.language, file=files[role])] if role in files else []

        return model_files

    def given_trees(self, wildcards: Wildcards) -> list[str]:
        """The files of the trees that the user gives."""
        return [str(path) for path in self.study.parsers[wildcards.annotator].trees or ()]

    def training_texts(self, part: str, *, kind: Literal["trees", "chunks"] | None = None) -> Files:
        """The texts of one part that an annotator is trained on; with a kind, only for annotators of that kind."""

        def training_texts(wildcards: Wildcards) -> list[str]:
            name = wildcards.annotator
            annotator = self.study.annotators[name]
            annotation: Literal["trees", "chunks"] = "trees" if name in self.study.parsers else "chunks"
            if annotator.train is None or kind not in (None, annotation):
                return []
            texts: list[AnnotatedText] = getattr(annotator.train, part)
            wanted = None if part == "text" else annotation
            return [self._annotated_text(text, annotator.language, wanted) for text in texts]

        return training_texts

    def _annotated_text(self, text: AnnotatedText, language: str, kind: Literal["trees", "chunks"] | None) -> str:
        if text.corpus is not None:
            return RegisteredText.pattern.at(corpus=text.corpus, part=text.part, language=language)
        if text.generated is not None:
            paths = Paths.of(self.study, text.generated)
            if kind == "trees":
                return paths.raw_trees.at(split=text.split)
            return (paths.raw_chunks if kind else paths.raw_text).at(split=text.split, language=language)
        return str(text.file)

    def text_of_models(self, side: Side) -> Callable[[Wildcards], Pattern]:
        """The text that models read of one side of a data set: subwords, or tokens where words are not cut."""
        return lambda job: _text_of_models(self.study, job.dataset, side)

    def model_text(self, side: Side, split: str | None = None) -> Files:
        """The text that models read of one side of a split."""
        return self.of(self.text_of_models(side), **({"split": split} if split else {}))

    def reused(self, *roles: str) -> Files:
        """Files of the exported model whose subwords a data set takes over; no files where it learns its own."""

        def reused(wildcards: Wildcards) -> list[str]:
            folder = self._dataset(wildcards).subwords.reuse
            return [str(folder / PLACES[role]) for role in roles] if folder else []

        return reused

    def metric_files(self, wildcards: Wildcards) -> list[str]:
        """The files that the program of a metric reads beside the texts."""
        return [str(path) for path in self.study.metrics[wildcards.metric].files]

    def initial_weights(self, wildcards: Wildcards) -> list[str]:
        """The file of the user that a training starts from: no file for random weights."""
        return [str(path) for path in initial_weights(self.study.models[wildcards.system], wildcards.seed)]

    @property
    def truecaser(self) -> Files:
        """The truecaser of a phrase-based model; no file where all words are in lower case."""
        models = self.study.phrase_models
        return self.optional(self.paths.truecaser, lambda job: models[job.phrase_model].case == "truecase")

    @property
    def tuned_weights(self) -> Files:
        """The tuned weights of a phrase-based system; no file for a system that is not tuned."""
        return self.optional(self.paths.tuned_weights, lambda job: self.study.phrase_based[job.system].tuning)

    def outside_translations(self, wildcards: Wildcards) -> str:
        """The file of the user that holds the translations of a test set by another program."""
        files = self.study.outside[wildcards.system].files(self.study.datasets)
        return str(files[wildcards.dataset, wildcards.split])

    @property
    def sentences(self) -> Files:
        """The sentences of a split in the language of an annotator."""
        languages = {name: annotator.language for name, annotator in self.study.annotators.items()}
        return self.each(self.paths.collected_sentences, lambda job: [{"language": languages[job.annotator]}])

    def source_parses(self, wildcards: Wildcards) -> list[str]:
        """The parses of the source side of a split, if the data set has a parser for the source."""
        return source_parses(self.study, wildcards.dataset, wildcards.split)

    def parses_for_phrases(self, wildcards: Wildcards) -> list[str]:
        """The parses of the source side, if the segmentation reads parses."""
        return self.source_parses(wildcards) if self.study.segmentations[wildcards.segmenter].reads_parses else []

    def given_phrases(self, wildcards: Wildcards) -> list[str]:
        """The phrases that the user gives, if the segmentation reads them."""
        folder = self.study.segmentations[wildcards.segmenter].given
        return [str(folder / wildcards.dataset / f"{wildcards.split}.txt")] if folder else []

    @property
    def dropped_of_given_phrases(self) -> Files:
        """The list of dropped pairs, if the segmentation reads phrases of the user, which are for raw pairs."""
        return self.optional(self.paths.dropped_pairs, self.given_phrases)

    def gold_chunks(self, wildcards: Wildcards) -> list[str]:
        """The generator's chunks of the target side, if the split is generated."""
        dataset = self._dataset(wildcards)
        generated = dataset.generator is not None and not dataset.texts_of_split(wildcards.split)
        return self.of(self.paths.raw_chunks, language=dataset.target_language)(wildcards) if generated else []

    def target_tags(self, wildcards: Wildcards) -> list[str]:
        """The chunk tags of the target side, if the data set names a chunker."""
        chunks = self._dataset(wildcards).target_chunks
        return _of_annotator(self.study, "tags", chunks.chunker if chunks else None, wildcards.dataset, wildcards.split)

    def target_parses(self, wildcards: Wildcards) -> list[str]:
        """The parses of the target side, if the data set names a parser for its chunks."""
        chunks = self._dataset(wildcards).target_chunks
        return _of_annotator(
            self.study, "parses", chunks.parser if chunks else None, wildcards.dataset, wildcards.split
        )

    def phrases(self, split: str | None = None) -> Files:
        """The phrase columns of a split that a system reads: no file for systems without phrases and for n-grams."""

        def columns(job: Wildcards) -> Pattern | None:
            segmentation = self.study.models[job.system].model.source_phrases
            if segmentation is None or not segmentation.has_columns:
                return None
            return self.paths.phrase_columns.at(segmenter=segmentation.folder_name)

        return self.of(columns, **({"split": split} if split else {}))

    def chunks(self, split: str | None = None) -> Files:
        """The chunk columns of a split that a system reads: no file for systems without chunks."""
        pattern = self.paths.chunk_columns.at(split=split) if split else self.paths.chunk_columns
        return self.optional(pattern, lambda job: self.study.models[job.system].model.reads_chunks)

    def test_model_texts(self, side: Side) -> list[str]:
        """The text that models read of one side of all test sets."""
        return [_text_of_models(self.study, name, side).at(split=split) for name, split in self._test_sets]

    @property
    def test_parses(self) -> list[str]:
        """The parses of the sources of all test sets."""
        return [path for name, split in self._test_sets for path in source_parses(self.study, name, split)]

    @property
    def _test_sets(self) -> list[tuple[str, str]]:
        return [(name, split) for name, dataset in self.study.datasets.items() for split in dataset.test_sets]

    @property
    def annotators(self) -> list[str]:
        """The cards of the parsers and chunkers that data sets use."""
        used = []
        for dataset in self.study.datasets.values():
            chunks = dataset.target_chunks
            used += [dataset.source_parser, chunks and chunks.parser, chunks and chunks.chunker]
        return [self.paths.card.at(annotator=name) for name in dict.fromkeys(filter(None, used))]


def is_at_hand(study: Study, corpus: str, file: str) -> bool:
    """Whether a file of a corpus was fetched, or lies in the mirror that the environment names."""
    mirror = os.environ.get(MIRROR)
    fetched = Path(OriginalFile.pattern.at(corpus=corpus, file=file))
    return fetched.is_file() or bool(mirror and Path(mirror, corpus, file).is_file())


def _text_of_models(study: Study, dataset: str, side: Side) -> Pattern:
    paths, section = Paths.of(study, dataset), study.datasets[dataset]
    pattern = paths.tokens if section.subwords.unit == "word" else paths.subwords
    return pattern.at(language=section.language_of(side))


def source_parses(study: Study, dataset: str, split: str) -> list[str]:
    """The parses of the source side of a split, a file for each job; no file without a parser for the source."""
    return _of_annotator(study, "parses", study.datasets[dataset].source_parser, dataset, split)


def _of_annotator(
    study: Study, kind: Literal["parses", "tags"], annotator: str | None, dataset: str, split: str
) -> list[str]:
    if annotator is None:
        return []
    pattern: Pattern = getattr(Paths.of(study, dataset), kind)
    jobs = study.datasets[dataset].annotation_jobs(split)
    return [pattern.at(annotator=annotator, split=split, job=job) for job in range(jobs)]


def _text_path(text: DatasetText, dataset: Dataset, side: Side) -> str:
    if isinstance(text, RegistryText):
        return RegisteredText.pattern.at(corpus=text.corpus, part=text.part, language=dataset.language_of(side))
    return str(getattr(text, side))


def _contrast_files(text: ContrastText) -> list[str]:
    if isinstance(text, RegistryText):
        files = contrasts_of(text.corpus, text.part).files
        return [OriginalFile.pattern.at(corpus=text.corpus, file=file) for file in files]
    return [str(path) for path in text.files]
