"""A study as the rules see it: which jobs there are, which files they read, and their commands.

The rules in rules/*.smk hold patterns and resources; every decision that depends on the study is made here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.corpus import OriginalFile, RegisteredText
from phrasemt.artefacts.syntax import StanzaFile
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


class Flow:
    """A study as the rules see it."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.paths = Paths(study.study)
        self.generated = [name for name, dataset in study.datasets.items() if dataset.generator]
        self.contrast_sets = [name for dataset in study.datasets.values() for name in dataset.contrast_sets]
        self.partitioned = [name for name, dataset in study.datasets.items() if dataset.partition]
        self.models = list(study.models)
        self.outside = list(study.outside)
        self.phrase_based = list(study.phrase_based)
        self.trained = study.trained
        self.tuned = study.tuned
        self.translating = study.translating
        self.translating_by_training = [name for name in study.trained if name in study.translating]
        self.challengers = [name for name in study.translating if name in study.baselines]
        self.language_models = study.language_models
        self.chunking = study.chunking
        self.chunked = [name for name, dataset in study.datasets.items() if dataset.target_chunks]
        self.trained_parsers = [name for name, parser in study.parsers.items() if parser.train]
        self.trained_chunkers = [name for name, chunker in study.chunkers.items() if chunker.train]
        self.trained_annotators = [*self.trained_parsers, *self.trained_chunkers]
        self.ready_annotators = [name for name in study.annotators if name not in self.trained_annotators]

    # ----------------------------------------------------------------------------------------------- wildcards and jobs

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
        splits: Literal["test", "all", "contrastive"] = "test",
        seeds: Literal["first", "all"] = "all",
    ) -> list[str]:
        """A pattern filled in with every data set, split, system and seed of the study."""
        paths = []
        for name in self.study.datasets if datasets is None else datasets:
            dataset = self.study.datasets[name]
            chosen_splits = {
                "test": dataset.test_sets,
                "all": dataset.split_names,
                "contrastive": dataset.contrastive,
            }[splits]
            chosen_systems = self.study.systems if systems is None else systems
            source, target = dataset.languages
            names = {"dataset": name, "source": source, "target": target}
            for system in chosen_systems:
                all_seeds = self.study.seeds_of(system)
                chosen_seeds = all_seeds[:1] if seeds == "first" else all_seeds
                for seed, split in itertools.product(chosen_seeds, chosen_splits):
                    paths.append(pattern.format(**names, system=system, seed=seed, split=split))
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

    # ------------------------------------------------------------------------------------------------- parts of a rule

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

    # ------------------------------------------------------------------------------------------------- inputs: texts

    def raw_texts(self, side: Side) -> Files:
        """One side of a split before cleaning: registered texts, files of the user, or what the workflow makes."""

        def raw_texts(wildcards: Wildcards) -> list[str]:
            dataset = self.study.datasets[wildcards.dataset]
            if texts := dataset.texts_of_split(wildcards.split):
                return [_text_path(text, dataset, side) for text in texts]
            raw_text = Paths.of(self.study, wildcards.dataset).raw_text
            return [raw_text.at(split=wildcards.split, language=dataset.language_of(side))]

        return raw_texts

    def whole_text(self, side: Side) -> Files:
        """One side of the text that a partition cuts."""

        def whole_text(wildcards: Wildcards) -> list[str]:
            dataset = self.study.datasets[wildcards.dataset]
            assert dataset.partition is not None
            return [_text_path(dataset.partition.text, dataset, side)]

        return whole_text

    def original_files(self, wildcards: Wildcards) -> list[str]:
        """The fetched files that hold one side of a part of a registered corpus."""
        files = files_of(wildcards.corpus, wildcards.part, wildcards.language)
        return [OriginalFile.pattern.at(corpus=wildcards.corpus, file=file) for file in files]

    def contrast_files(self, wildcards: Wildcards) -> list[str]:
        """The files of a set of contrastive pairs, registered or of the user."""
        texts = self.study.datasets[wildcards.dataset].contrast_sets[wildcards.split]
        return [file for text in texts for file in _contrast_files(text)]

    # ------------------------------------------------------------------------------------ inputs: parsers and chunkers

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

    # ------------------------------------------------------------------------------------------- inputs: made by stages

    def of_test_sets(self, pattern: Pattern) -> Files:
        """A file of each test set of a data set."""
        return lambda wildcards: [
            _fill(pattern, wildcards, split=split) for split in self.study.datasets[wildcards.dataset].test_sets
        ]

    def of_references(self, pattern: Pattern) -> Files:
        """A file of each reference of each test set of a data set."""

        def of_references(wildcards: Wildcards) -> list[str]:
            dataset = self.study.datasets[wildcards.dataset]
            splits = [split for test_set in dataset.test_sets for split in dataset.references(test_set)]
            return [_fill(pattern, wildcards, split=split) for split in splits]

        return of_references

    @property
    def metric_scores(self) -> list[str]:
        """The scores of all systems that translate, in the metrics of the user."""
        return [
            path
            for metric in self.study.metrics
            for path in self.every(self.paths.metric_scores.at(metric=metric), systems=self.translating)
        ]

    def of_metrics(self, of_seeds: Callable[[Pattern], Files]) -> Files:
        """The scores in the metrics of the user, of the seeds that `of_seeds` chooses."""
        return lambda wildcards: [
            path
            for metric in self.study.metrics
            for path in of_seeds(self.paths.metric_scores.at(metric=metric))(wildcards)
        ]

    def metric_files(self, wildcards: Wildcards) -> list[str]:
        """The files that the program of a metric reads beside the texts."""
        return [str(path) for path in self.study.metrics[wildcards.metric].files]

    def of_held_out(self, pattern: Pattern) -> Files:
        """A file of dev and of each test set of a data set."""
        return lambda wildcards: [
            _fill(pattern, wildcards, split=split) for split in self.study.datasets[wildcards.dataset].held_out
        ]

    def held_out_model_texts(self, side: Side) -> Files:
        """The text that models read of one side of dev and of each test set."""
        return lambda wildcards: [
            model_text_of(self.study, wildcards.dataset, side).at(split=split)
            for split in self.study.datasets[wildcards.dataset].held_out
        ]

    def of_seeds_of_baseline(self, pattern: Pattern) -> Files:
        """A file of each seed of the system that the system of the job is compared with."""
        return lambda wildcards: self.of_seeds(pattern, self.study.baseline_of(wildcards.system))(wildcards)

    def of_seeds(self, pattern: Pattern, system: str | None = None) -> Files:
        """A file of each seed of a system; without a name, of the system of the job."""

        def of_seeds(wildcards: Wildcards) -> list[str]:
            chosen = system or wildcards.system
            return [_fill(pattern, wildcards, system=chosen, seed=seed) for seed in self.study.seeds_of(chosen)]

        return of_seeds

    def weights(self, wildcards: Wildcards) -> list[str]:
        """The weights that translate for a row: its own, or those of the systems and seeds that it names."""
        members = self.study.members_of(wildcards.system, wildcards.seed)
        return [_fill(self.paths.weights, wildcards, system=system, seed=seed) for system, seed in members]

    def length_penalties(self, wildcards: Wildcards) -> list[str]:
        """The scores that choose the length penalty of a system, if dev chooses it."""
        return [_fill(self.paths.length_penalty_scores, wildcards)] if wildcards.system in self.tuned else []

    def truecaser(self, wildcards: Wildcards) -> list[str]:
        """The truecaser of a phrase-based model; no file where all words are in lower case."""
        cased = self.study.phrase_models[wildcards.phrase_model].case == "truecase"
        return [_fill(self.paths.truecaser, wildcards)] if cased else []

    def of_phrase_model(self, pattern: Pattern) -> Callable[[Wildcards], str]:
        """A file of the phrase-based model of a system."""
        return lambda wildcards: _fill(
            pattern, wildcards, phrase_model=self.study.phrase_based[wildcards.system].model.folder_name
        )

    def tuned_weights(self, wildcards: Wildcards) -> list[str]:
        """The tuned weights of a phrase-based system; no file for a system that is not tuned."""
        tuned = self.study.phrase_based[wildcards.system].tuning
        return [_fill(self.paths.tuned_weights, wildcards)] if tuned else []

    def outside_translations(self, wildcards: Wildcards) -> str:
        """The file of the user that holds the translations of a test set by another program."""
        files = self.study.outside[wildcards.system].files(self.study.datasets)
        return str(files[wildcards.dataset, wildcards.split])

    def model_text(self, side: Side, split: str | None = None) -> Files:
        """The text that models read of one side of a split: subwords, or tokens where words are not cut."""

        def model_text(wildcards: Wildcards) -> list[str]:
            chosen = split or wildcards.split
            return [model_text_of(self.study, wildcards.dataset, side).at(split=chosen)]

        return model_text

    def model_texts(self, side: Side) -> Files:
        """The text that models read of one side of each test set."""
        return lambda wildcards: [
            model_text_of(self.study, wildcards.dataset, side).at(split=split)
            for split in self.study.datasets[wildcards.dataset].test_sets
        ]

    def of_subwords(self, pattern: Pattern) -> Files:
        """A file of `learn_subwords`; no file where words are not cut."""
        return lambda wildcards: [_fill(pattern, wildcards)] if self._cuts_words(wildcards) else []

    def reused(self, *roles: str) -> Files:
        """Files of the exported model whose subwords a data set takes over; no files where it learns its own."""

        def reused(wildcards: Wildcards) -> list[str]:
            folder = self.study.datasets[wildcards.dataset].subwords.reuse
            return [str(folder / PLACES[role]) for role in roles] if folder else []

        return reused

    def _cuts_words(self, wildcards: Wildcards) -> bool:
        return self.study.datasets[wildcards.dataset].subwords.unit != "word"

    def sentences(self, wildcards: Wildcards) -> str:
        """The sentences of a split in the language of an annotator."""
        return _fill(
            self.paths.collected_sentences, wildcards, language=self.study.annotators[wildcards.annotator].language
        )

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

    def dropped_of_given_phrases(self, wildcards: Wildcards) -> list[str]:
        """The list of dropped pairs, if the segmentation reads phrases of the user, which are for raw pairs."""
        return [_fill(self.paths.dropped_pairs, wildcards)] if self.given_phrases(wildcards) else []

    def gold_chunks(self, wildcards: Wildcards) -> list[str]:
        """The generator's chunks of the target side, if the split is generated."""
        dataset = self.study.datasets[wildcards.dataset]
        if dataset.generator is None or dataset.texts_of_split(wildcards.split):
            return []
        return [_fill(self.paths.raw_chunks, wildcards, language=dataset.target_language)]

    def target_tags(self, wildcards: Wildcards) -> list[str]:
        """The chunk tags of the target side, if the data set names a chunker."""
        chunks = self.study.datasets[wildcards.dataset].target_chunks
        chunker = chunks.chunker if chunks else None
        return _of_annotator(self.study, "tags", chunker, wildcards.dataset, wildcards.split)

    def target_parses(self, wildcards: Wildcards) -> list[str]:
        """The parses of the target side, if the data set names a parser for its chunks."""
        chunks = self.study.datasets[wildcards.dataset].target_chunks
        parser = chunks.parser if chunks else None
        return _of_annotator(self.study, "parses", parser, wildcards.dataset, wildcards.split)

    def phrases(self, split: str | None = None) -> Files:
        """The phrase columns of a split that a system reads: no file for systems without phrases and for n-grams."""

        def phrases(wildcards: Wildcards) -> list[str]:
            segmentation = self.study.models[wildcards.system].model.source_phrases
            if segmentation is None or segmentation.mode == "ngram":
                return []
            chosen = split or wildcards.split
            return [_fill(self.paths.phrase_columns, wildcards, segmenter=segmentation.folder_name, split=chosen)]

        return phrases

    def chunks(self, split: str | None = None) -> Files:
        """The chunk columns of a split that a system reads: no file for systems without chunks."""

        def chunks(wildcards: Wildcards) -> list[str]:
            reads_chunks = self.study.models[wildcards.system].model.reads_chunks
            return [_fill(self.paths.chunk_columns, wildcards, split=split or wildcards.split)] if reads_chunks else []

        return chunks

    def initial_weights(self, wildcards: Wildcards) -> list[str]:
        """The file of the user that a training starts from: no file for random weights."""
        return [str(path) for path in initial_weights(self.study.models[wildcards.system], wildcards.seed)]

    @property
    def round_trips(self) -> list[str]:
        """The scores of tokenisation's round trip, of all splits in both languages."""
        return [
            Paths.of(self.study, name).round_trip.at(split=split, language=language)
            for name, dataset in self.study.datasets.items()
            for split in dataset.split_names
            for language in dataset.languages
        ]

    def test_tokens(self, side: Side) -> list[str]:
        """The tokens of one side of all test sets."""
        return [
            Paths.of(self.study, name).tokens.at(split=split, language=self.study.datasets[name].language_of(side))
            for name, split in self._test_sets
        ]

    def test_model_texts(self, side: Side) -> list[str]:
        """The text that models read of one side of all test sets."""
        return [model_text_of(self.study, name, side).at(split=split) for name, split in self._test_sets]

    @property
    def test_parses(self) -> list[str]:
        """The parses of the sources of all test sets."""
        return [path for name, split in self._test_sets for path in source_parses(self.study, name, split)]

    @property
    def test_phrases(self) -> list[str]:
        """The phrases of all test sets, by each segmentation of single sentences."""
        return [
            Paths.of(self.study, name).phrase_columns.at(segmenter=segmenter, split=split)
            for name, split in self._test_sets
            for segmenter, segmentation in self.study.segmentations.items()
            if segmentation.ntok_scope == "sentence"  # the phrases of the others depend on the batch
        ]

    @property
    def _test_sets(self) -> list[tuple[str, str]]:
        return [(name, split) for name, dataset in self.study.datasets.items() for split in dataset.test_sets]

    @property
    def phrase_statistics(self) -> list[str]:
        """The statistics of phrases that the report shows: of the training pairs and of the test sets."""
        return [
            Paths.of(self.study, name).phrase_statistics.at(segmenter=segmenter, split=split)
            for name, dataset in self.study.datasets.items()
            for split in ("train", *dataset.test_sets)
            for segmenter, segmentation in self.study.segmentations.items()
            if segmentation.ntok_scope == "sentence"  # the phrases of the others depend on the batch
        ]

    @property
    def annotators(self) -> list[str]:
        """The cards of the parsers and chunkers that data sets use."""
        used = []
        for dataset in self.study.datasets.values():
            chunks = dataset.target_chunks
            used += [dataset.source_parser, chunks and chunks.parser, chunks and chunks.chunker]
        return [self.paths.card.at(annotator=name) for name in dict.fromkeys(filter(None, used))]


def model_text_of(study: Study, dataset: str, side: Side) -> Pattern:
    """The text that models read of one side of a data set, with the wildcard `split`."""
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


def _fill(pattern: Pattern, wildcards: Wildcards, **more: object) -> str:
    return pattern.format(**{**dict(wildcards.items()), **more})


def _text_path(text: DatasetText, dataset: Dataset, side: Side) -> str:
    if isinstance(text, RegistryText):
        return RegisteredText.pattern.at(corpus=text.corpus, part=text.part, language=dataset.language_of(side))
    return str(getattr(text, side))


def _contrast_files(text: ContrastText) -> list[str]:
    if isinstance(text, RegistryText):
        files = contrasts_of(text.corpus, text.part).files
        return [OriginalFile.pattern.at(corpus=text.corpus, file=file) for file in files]
    return [str(path) for path in text.files]
