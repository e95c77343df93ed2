"""What the workflow asks of a study. The rules hold patterns and commands; every decision is made here.

A data set's folder is `results/<study>/<dataset>.<source>-<target>/`: the two sides of a text are outputs of one rule,
and Snakemake wants the same wildcards in all outputs of a rule.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from phrasemt.corpus.fetch import MIRROR
from phrasemt.errors import DataError, PhrasemtError, StudyError
from phrasemt.fields import Settings
from phrasemt.machine.slurm import jobs_here
from phrasemt.registry.corpora import files_of, side_of, source_file
from phrasemt.registry.stanza_models import files_of_package, published_file
from phrasemt.stages import STAGES, stage_settings
from phrasemt.study.reading import load_study
from phrasemt.study.schema import AnnotatedText, Dataset, ParallelText, Parser, RegistryText, Study
from phrasemt.workflow.cache import CACHE
from phrasemt.workflow.code import code_digest, module_digests
from phrasemt.workflow.dag import Journal, rules_of
from phrasemt.workflow.journal import note_of_run, refuse_edited, run_of_this_process, study_of
from phrasemt.workflow.writers import processes_here

# Snakemake's wildcards of a job: an object with items(), which the rules pass to the functions made here.
Wildcards = Any
Side = Literal["source", "target"]

DEFAULT_STUDY = Path("config.yaml")


def open_study(workflow: Any) -> Flow:
    """The study that Snakemake was started with: `--configfile FILE`, or config.yaml.

    The file is read by read_study and not through Snakemake's `configfile:`, which would merge a chosen study into
    config.yaml and forgive keys given twice. A study with mistakes ends the run with all of them and exit code 2.
    """
    try:
        path = _chosen_file(workflow.config_settings)
        if not workflow.is_main_process and (run := run_of_this_process()):
            # A job on a cluster reads study and rules again; they may have been edited since.
            path = study_of(run)
            begun, rules = note_of_run(run).rules, rules_of(workflow)
            refuse_edited(name for name in rules if begun.get(name) != rules[name])
        study = read_study(path)
    except PhrasemtError as error:
        # Snakemake would put the lines of the Snakefile around an exception; they are no help against a typo.
        print(f"phrasemt: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    for name, folder in ((MIRROR, study.mirror), (CACHE, study.cache)):
        if folder is not None and not os.environ.get(name):  # an empty one would be the folder of the run
            os.environ[name] = str(folder)
    # Jobs are `python -m phrasemt ...`: the Python that runs Snakemake, unless a conda environment goes first.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # Slurm sends it to all processes of a job whose time is nearly up. It is meant for the stage, which then saves.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    flow = Flow(study)
    flow.journal = Journal(workflow, study.study, path.read_text(encoding="utf-8"), flow.modules)
    return flow


def refuse_second_writer() -> None:
    """End this run, with exit code 2, when Slurm jobs of another one that is dead still write here."""
    others = [process for process, name in processes_here() if name == "snakemake"]
    try:
        if (jobs := jobs_here()) and not others:  # while another one lives, Snakemake's locks tell them apart
            raise PhrasemtError(
                "Slurm jobs of a run that ended still write in this folder",
                found=", ".join(jobs),
                next_step="`phrasemt unlock --cancel`, then run again; or wait until they have ended",
            )
    except PhrasemtError as error:
        print(f"phrasemt: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def read_study(path: Path) -> Study:
    """A study whose texts exist: in the registry, or as files. Raises StudyError with all mistakes."""
    study = load_study(path)
    if problems := list(dict.fromkeys([*_problems(study), *_annotator_problems(study), *_phrase_problems(study)])):
        raise StudyError(path, problems)
    return study


def _chosen_file(settings: Any) -> Path:
    if settings.config:
        raise PhrasemtError(
            "a study cannot be changed on the command line, so that its file says all of it",
            where=f"--config {' '.join(settings.config)}",
            next_step="copy the study, change the copy, and pass it with --configfile",
        )
    if len(settings.configfiles) > 1:
        raise PhrasemtError(
            "a study is one file, complete in itself",
            where="--configfile",
            found=" ".join(str(path) for path in settings.configfiles),
            next_step="put everything into one file (YAML anchors help against repetition)",
        )
    if not settings.configfiles:
        return DEFAULT_STUDY
    path: Path = settings.configfiles[0]
    return Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path


class Flow:
    """A study as the rules see it."""

    journal: Journal

    def __init__(self, study: Study) -> None:
        self.study = study
        self.results = f"results/{study.study}"
        self.logs = f"logs/{study.study}"
        self.benchmarks = f"benchmarks/{study.study}"
        self.seeds = study.seeds
        self.baseline = study.baseline
        self.generated = [name for name, dataset in study.datasets.items() if dataset.generator]
        self.partitioned = [name for name, dataset in study.datasets.items() if dataset.partition]
        self.translating = study.translating
        self.challengers = [name for name in study.translating if name != study.baseline]
        self.language_models = study.language_models
        self.chunking = study.chunking
        self.chunked = [name for name, dataset in study.datasets.items() if dataset.target_chunks]
        self.trained_parsers = [name for name, parser in study.parsers.items() if parser.train]
        self.trained_chunkers = [name for name, chunker in study.chunkers.items() if chunker.train]
        self.trained_annotators = [*self.trained_parsers, *self.trained_chunkers]
        self.ready_annotators = [name for name in study.annotators if name not in self.trained_annotators]

    @property
    def wildcards(self) -> dict[str, str]:
        """The names a wildcard can stand for: nothing but what the study names."""
        datasets = self.study.datasets.values()
        annotators = self.study.annotators.values()
        texts: list[RegistryText | AnnotatedText] = [
            *(text for dataset in datasets for _, text in _texts(dataset) if isinstance(text, RegistryText)),
            *(text for annotator in annotators for _, text in annotator.texts if text.corpus),
        ]
        languages = [language for dataset in datasets for language in dataset.languages]
        return {
            "dataset": self.only(self.study.datasets),
            "source": self.only(dataset.source_language for dataset in datasets),
            "target": self.only(dataset.target_language for dataset in datasets),
            "language": self.only([*languages, *(annotator.language for annotator in annotators)]),
            "split": self.only(split for dataset in datasets for split in _splits(dataset)),
            "system": self.only(self.study.systems),
            "seed": self.only(str(seed) for seed in self.seeds),
            "corpus": self.only(str(text.corpus) for text in texts),
            "part": self.only(str(text.part) for text in texts),
            "annotator": self.only(self.study.annotators),
            "segmenter": self.only(self.study.segmentations),
            "job": r"\d+",
            "file": "[^/]+",
        }

    def every(
        self,
        pattern: str,
        *,
        datasets: Iterable[str] | None = None,
        systems: Iterable[str] | None = None,
        splits: Literal["test", "all"] = "test",
    ) -> list[str]:
        """A pattern filled in with all that the study asks for: data sets, splits, systems, seeds."""
        paths = []
        for name in self.study.datasets if datasets is None else datasets:
            dataset = self.study.datasets[name]
            chosen_splits = dataset.test_sets if splits == "test" else _splits(dataset)
            chosen_systems = self.study.systems if systems is None else systems
            for system, seed, split in itertools.product(chosen_systems, self.seeds, chosen_splits):
                paths.append(
                    pattern.format(
                        dataset=name,
                        source=dataset.source_language,
                        target=dataset.target_language,
                        system=system,
                        seed=seed,
                        split=split,
                    )
                )
        return list(dict.fromkeys(paths))

    def cores(self, most: int) -> Callable[[Wildcards], int]:
        """Cores of a job. Those on a generated corpus, a small one, run side by side rather than wait for several."""
        return lambda wildcards: 1 if wildcards.dataset in self.generated else most

    def begin(self, log: list[str]) -> None:
        """What a run does before its first job; `log`: Snakemake's."""
        refuse_second_writer()
        self.journal.begin(log)

    # ------------------------------------------------------------------------------------ params: what decides a rerun

    def settings(self, stage: str) -> Callable[[Wildcards], str]:
        """The settings of a stage as canonical JSON."""
        return lambda wildcards: self._settings(stage, wildcards).canonical_json()

    def code(self, stage: str) -> Callable[[Wildcards], str]:
        """The digest of the code that a stage runs. No command uses it; a new one makes Snakemake rerun the rule."""
        return lambda wildcards: code_digest(*STAGES[stage].code_modules(self._settings(stage, wildcards)))

    def modules(self, jobs: Iterable[Any]) -> dict[str, str]:
        """Digests of all modules that the stages of these jobs use."""
        used = {
            module
            for job in jobs
            for module in STAGES[job.rule.name].code_modules(self._settings(job.rule.name, job.wildcards))
        }
        return module_digests(*used)

    def _settings(self, stage: str, wildcards: Wildcards) -> Settings:
        return stage_settings(self.study, stage, dict(wildcards.items()))

    # ------------------------------------------------------------------------------------------- inputs: where text is

    def raw_texts(self, side: Side) -> Callable[[Wildcards], list[str]]:
        """One side of a split before cleaning: files of the registry, of the user, or of the partition or generator."""

        def raw_texts(wildcards: Wildcards) -> list[str]:
            dataset = self.study.datasets[wildcards.dataset]
            if dataset.splits:
                return [_text_path(text, dataset, side) for text in _texts_of_split(dataset, wildcards.split)]
            folder = dataset_folder(self.study, wildcards.dataset)
            return [f"{folder}/raw/{wildcards.split}.{_language(dataset, side)}"]

        return raw_texts

    def whole_text(self, side: Side) -> Callable[[Wildcards], str]:
        """One side of the text that a partition cuts."""

        def whole_text(wildcards: Wildcards) -> str:
            dataset = self.study.datasets[wildcards.dataset]
            assert dataset.partition is not None
            return _text_path(dataset.partition.text, dataset, side)

        return whole_text

    def original_files(self, wildcards: Wildcards) -> list[str]:
        """The fetched files that hold one side of a part of a registered corpus."""
        files = files_of(wildcards.corpus, wildcards.part, wildcards.language)
        return [f"resources/{wildcards.corpus}/original/{file}" for file in files]

    # ------------------------------------------------------------------------------------ inputs: parsers and chunkers

    def model_files(self, role: str) -> Callable[[Wildcards], list[str]]:
        """The file of a role (constituency, tagger, ...) of an annotator that is not trained here; none or one."""

        def model_files(wildcards: Wildcards) -> list[str]:
            annotator = self.study.annotators[wildcards.annotator]
            if annotator.files is not None:
                file = getattr(annotator.files, role, None)
                return [str(file)] if file else []
            assert isinstance(annotator, Parser)
            assert annotator.published is not None
            files = files_of_package(annotator.language, annotator.published)
            return [f"resources/stanza/{annotator.language}/{files[role]}"] if role in files else []

        return model_files

    def training_texts(
        self, part: str, *, kind: Literal["trees", "chunks"] | None = None
    ) -> Callable[[Wildcards], list[str]]:
        """The texts of one part that an annotator is trained on; with a kind, none for annotators of another kind."""

        def training_texts(wildcards: Wildcards) -> list[str]:
            name = wildcards.annotator
            annotator = self.study.annotators[name]
            annotation: Literal["trees", "chunks"] = "trees" if name in self.study.parsers else "chunks"
            if annotator.train is None or kind not in (None, annotation):
                return []
            texts: list[AnnotatedText] = getattr(annotator.train, part)
            wanted = None if part == "text" else annotation
            return [self._annotated_path(text, annotator.language, wanted) for text in texts]

        return training_texts

    def _annotated_path(self, text: AnnotatedText, language: str, kind: Literal["trees", "chunks"] | None) -> str:
        if text.corpus is not None:
            return f"resources/{text.corpus}/{text.part}.{language}"
        if text.generated is not None:
            ending = {"trees": "trees", "chunks": f"chunks.{language}", None: language}[kind]
            return f"{dataset_folder(self.study, text.generated)}/raw/{text.split}.{ending}"
        return str(text.file)

    # ------------------------------------------------------------------------------------------ inputs: what they make

    def of_test_sets(self, file: str) -> Callable[[Wildcards], list[str]]:
        """A file of each test set of a data set: a pattern of wildcards and {split}."""

        def of_test_sets(wildcards: Wildcards) -> list[str]:
            folder = dataset_folder(self.study, wildcards.dataset)
            test_sets = self.study.datasets[wildcards.dataset].test_sets
            return [f"{folder}/{file.format(**dict(wildcards.items()), split=test_set)}" for test_set in test_sets]

        return of_test_sets

    def subwords(self, side: Side, split: str | None = None) -> Callable[[Wildcards], str]:
        """What models read of one side of a split."""

        def subwords(wildcards: Wildcards) -> str:
            language = _language(self.study.datasets[wildcards.dataset], side)
            return str(subwords_file(self.study, wildcards.dataset, split or wildcards.split, language))

        return subwords

    def of_subwords(self, file: str) -> Callable[[Wildcards], list[str]]:
        """A file of `learn_subwords` (a pattern of wildcards); none where words are not cut."""

        def of_subwords(wildcards: Wildcards) -> list[str]:
            if self.study.datasets[wildcards.dataset].subwords.unit == "word":
                return []
            folder = dataset_folder(self.study, wildcards.dataset)
            return [f"{folder}/subwords/{file.format(**dict(wildcards.items()))}"]

        return of_subwords

    def sentences(self, wildcards: Wildcards) -> str:
        """The sentences of a split in the language of an annotator."""
        folder = dataset_folder(self.study, wildcards.dataset)
        return f"{folder}/sentences/{wildcards.split}.{self.study.annotators[wildcards.annotator].language}.arrow"

    def source_parses(self, wildcards: Wildcards) -> list[str]:
        """The parses of the source side of a split, if the data set has a parser for it."""
        parser = self.study.datasets[wildcards.dataset].source_parser
        return annotation_files(self.study, "parses", parser, wildcards.dataset, wildcards.split)

    def parses_for_phrases(self, wildcards: Wildcards) -> list[str]:
        """The parses of the source side if this way of cutting phrases reads them."""
        segmentation = self.study.segmentations[wildcards.segmenter]
        return self.source_parses(wildcards) if segmentation.needs_parses else []

    def given_phrases(self, wildcards: Wildcards) -> list[str]:
        """The phrases of the user."""
        folder = self.study.segmentations[wildcards.segmenter].given
        return [str(folder / wildcards.dataset / f"{wildcards.split}.txt")] if folder else []

    def dropped_of_given_phrases(self, wildcards: Wildcards) -> list[str]:
        """What cleaning dropped, beside phrases of the user, which are of raw pairs."""
        if self.study.segmentations[wildcards.segmenter].given is None:
            return []
        return [f"{dataset_folder(self.study, wildcards.dataset)}/corpus/{wildcards.split}.dropped.tsv"]

    def corpus_entry(self, wildcards: Wildcards) -> str:
        """What the registry says of a file, or of a side of a part: an edited entry makes Snakemake rerun the rule."""
        if hasattr(wildcards, "file"):
            return source_file(wildcards.corpus, wildcards.file).canonical_json()
        return side_of(wildcards.corpus, wildcards.part, wildcards.language).canonical_json()

    def stanza_entry(self, wildcards: Wildcards) -> str:
        """What the list of published models says of a file, as above."""
        return published_file(wildcards.language, wildcards.file).canonical_json()

    def gold_chunks(self, wildcards: Wildcards) -> list[str]:
        dataset = self.study.datasets[wildcards.dataset]
        folder = dataset_folder(self.study, wildcards.dataset)
        return [f"{folder}/raw/{wildcards.split}.chunks.{dataset.target_language}"] if dataset.generator else []

    def target_tags(self, wildcards: Wildcards) -> list[str]:
        """The chunk tags of the target side by a tagger, if the data set names one."""
        chunks = self.study.datasets[wildcards.dataset].target_chunks
        chunker = chunks.chunker if chunks else None
        return annotation_files(self.study, "tags", chunker, wildcards.dataset, wildcards.split)

    def target_parses(self, wildcards: Wildcards) -> list[str]:
        """The parses of the target side, if the data set names a parser for its chunks."""
        chunks = self.study.datasets[wildcards.dataset].target_chunks
        parser = chunks.parser if chunks else None
        return annotation_files(self.study, "parses", parser, wildcards.dataset, wildcards.split)

    def phrases(self, split: str | None = None) -> Callable[[Wildcards], list[str]]:
        """The phrase columns of a split that a system reads: none for systems without phrases and for n-grams."""

        def phrases(wildcards: Wildcards) -> list[str]:
            segmentation = self.study.systems[wildcards.system].model.source_phrases
            if segmentation is None or segmentation.mode == "ngram":
                return []
            folder = dataset_folder(self.study, wildcards.dataset)
            return [f"{folder}/phrases/{segmentation.name}/{split or wildcards.split}.arrow"]

        return phrases

    def chunks(self, split: str) -> Callable[[Wildcards], list[str]]:
        """The chunk columns of a split that a system reads: none for systems without chunks."""

        def chunks(wildcards: Wildcards) -> list[str]:
            if not self.study.systems[wildcards.system].model.target_chunks:
                return []
            return [f"{dataset_folder(self.study, wildcards.dataset)}/chunks/{split}.arrow"]

        return chunks

    @property
    def phrase_statistics(self) -> list[str]:
        """What the report says about phrases: of the training pairs and of the test sets."""
        return [
            f"{dataset_folder(self.study, name)}/phrases/{segmenter}/{split}.json"
            for name, dataset in self.study.datasets.items()
            for split in ("train", *dataset.test_sets)
            for segmenter, segmentation in self.study.segmentations.items()
            if segmentation.ntok_scope == "sentence"  # others are known only once there are batches
        ]

    @property
    def annotators(self) -> list[str]:
        """The cards of the parsers and chunkers that data sets use."""
        used = []
        for dataset in self.study.datasets.values():
            chunks = dataset.target_chunks
            used += [dataset.source_parser, chunks and chunks.parser, chunks and chunks.chunker]
        return [f"{self.results}/annotators/{name}/annotator.json" for name in dict.fromkeys(filter(None, used))]

    @staticmethod
    def only(names: Iterable[str]) -> str:
        """A pattern for a wildcard that is one of these names; none fits when there are no names."""
        return "|".join(re.escape(name) for name in dict.fromkeys(names)) or "(?!)"


def dataset_folder(study: Study, dataset: str) -> Path:
    """Where everything about one data set of a study is kept."""
    return Path("results", study.study, f"{dataset}.{'-'.join(study.datasets[dataset].languages)}")


def subwords_file(study: Study, dataset: str, split: str, language: str) -> Path:
    """What models read of a language of a split: its subwords; its tokens, where words are not cut."""
    kind = "tokens" if study.datasets[dataset].subwords.unit == "word" else "subwords"
    return dataset_folder(study, dataset) / kind / f"{split}.{language}"


def annotation_files(
    study: Study, kind: Literal["parses", "tags"], annotator: str | None, dataset: str, split: str
) -> list[str]:
    """What a parser or chunker says of a split, a file for each job; none without an annotator."""
    if annotator is None:
        return []
    folder = dataset_folder(study, dataset) / kind / annotator
    return [f"{folder}/{split}.{job}.arrow" for job in range(study.datasets[dataset].annotation_jobs(split))]


def _problems(study: Study) -> Iterator[str]:
    """Texts that a study names and that nobody has."""
    for name, dataset in study.datasets.items():
        if dataset.generator and dataset.languages != ("en", "de"):
            yield f"datasets.{name}: the generator makes nothing but source_language: en, target_language: de"
        for where, text in _texts(dataset):
            for side in ("source", "target"):
                language = _language(dataset, side)
                try:
                    if isinstance(text, RegistryText):
                        files_of(text.corpus, text.part, language)
                    elif not getattr(text, side).is_file():
                        yield f"datasets.{name}.{where}.{side}: no such file: {getattr(text, side)}"
                except DataError as error:
                    yield f"datasets.{name}.{where}: {error}"


def _annotator_problems(study: Study) -> Iterator[str]:
    """Texts and model files that a study's parsers and chunkers need and that nobody has."""
    for name, annotator in study.annotators.items():
        where = f"parsers.{name}" if name in study.parsers else f"chunkers.{name}"
        for place, text in annotator.texts:
            try:
                if text.corpus is not None and text.part is not None:
                    files_of(text.corpus, text.part, annotator.language)
                elif text.file is not None and not text.file.is_file():
                    yield f"{where}.{place}.file: no such file: {text.file}"
            except DataError as error:
                yield f"{where}.{place}: {error}"
        for role, file in annotator.files or ():
            if file is not None and not file.is_file():
                yield f"{where}.files.{role}: no such file: {file}"
        if isinstance(annotator, Parser) and annotator.published is not None:
            try:
                files_of_package(annotator.language, annotator.published)
            except DataError as error:
                yield f"{where}.published: {error}"


def _phrase_problems(study: Study) -> Iterator[str]:
    """Phrases of the user that a system needs and that nobody has."""
    for name, system in study.systems.items():
        segmentation = system.model.source_phrases
        if segmentation is None or segmentation.given is None:
            continue
        for dataset_name, dataset in study.datasets.items():
            for split in _splits(dataset):
                if not (file := segmentation.given / dataset_name / f"{split}.txt").is_file():
                    yield f"systems.{name}.model.phrase.given: no such file: {file}"


def _texts(dataset: Dataset) -> Iterator[tuple[str, ParallelText]]:
    """All texts that a data set names, with the place in the study."""
    if dataset.partition:
        yield "partition.text", dataset.partition.text
    if dataset.splits:
        for split in _splits(dataset):
            where = f"splits.{split}" if split in ("train", "dev") else f"splits.test.{split}"
            yield from ((f"{where}.{number}", text) for number, text in enumerate(_texts_of_split(dataset, split)))


def _splits(dataset: Dataset) -> tuple[str, ...]:
    return "train", "dev", *dataset.test_sets


def _language(dataset: Dataset, side: Side) -> str:
    return dataset.source_language if side == "source" else dataset.target_language


def _texts_of_split(dataset: Dataset, split: str) -> list[ParallelText]:
    assert dataset.splits is not None
    return {"train": dataset.splits.train, "dev": dataset.splits.dev, **dataset.splits.test}[split]


def _text_path(text: ParallelText, dataset: Dataset, side: Side) -> str:
    if isinstance(text, RegistryText):
        return f"resources/{text.corpus}/{text.part}.{_language(dataset, side)}"
    return str(getattr(text, side))
