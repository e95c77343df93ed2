"""What a study file alone does not show: things that it names and that do not exist, and settings without effect."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from phrasemt.artefacts.scores import CONVENTIONS
from phrasemt.artefacts.table import DIFFERENCE
from phrasemt.corpus.clean import scripts_of
from phrasemt.errors import DataError, PhrasemtError, StudyError
from phrasemt.files.lines import read_lines
from phrasemt.files.preprocessing import Preprocessing
from phrasemt.files.source_file import MIRROR
from phrasemt.files.system import one_file
from phrasemt.languages import WITH_MOSES_RULES
from phrasemt.registry.corpora import contrasts_of, files_of
from phrasemt.registry.stanza_models import files_of_package
from phrasemt.study.annotators import Parser
from phrasemt.study.datasets import Dataset, RegistryText
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Adam, Study, Training
from phrasemt.study.tokenization import language_name, problem_of_language
from phrasemt.workflow.trained_system import initial_weights, read_manifest

# What the generator makes: pairs, or one side of them for a monolingual data set.
_GENERATED_LANGUAGES = (("en", "de"), ("en", "en"), ("de", "de"))
# Of each text that a study names, before a run. Stages check every line.
_LINES_READ = 100
_OF_PROGRAMS = (".jar", ".js", ".pl", ".py", ".r", ".R", ".rb", ".sh")
_CLOCKS_DIFFER = 60  # seconds, of the machines of a cluster, at most


def read_study(path: Path) -> Study:
    """A study whose texts exist: in the registry, or as files. Raises StudyError with all mistakes."""
    return checked(load_study(path), path)


def checked(study: Study, where: object) -> Study:
    """The study, if its texts exist. where: names it in errors. Raises StudyError with all mistakes."""
    checks = (
        _language_problems,
        _file_problems,
        _future_problems,
        _registry_problems,
        _metric_problems,
        _same_file_problems,
        _subword_problems,
    )
    if problems := list(dict.fromkeys(problem for check in checks for problem in check(study))):
        raise StudyError(where, problems)
    return study


def warnings_of(study: Study) -> Iterator[str]:
    """Settings that cannot have the effect that they name. A study with warnings runs."""
    mirror = os.environ.get(MIRROR)
    if mirror and not Path(mirror).is_dir():
        yield f"{MIRROR}: no such folder: {mirror}; all corpora are downloaded"
    for name in study.models:
        warnings = _warnings_of_training(study.models[name].training)
        yield from (f"systems.{name}.training: {warning}" for warning in warnings)
    for name, dataset in study.datasets.items():
        yield from (f"datasets.{name}.{warning}" for warning in _warnings_of_languages(dataset))
    for name, parser in study.parsers.items():
        missing = [str(file) for file in parser.trees or () if not file.is_file()]
        if missing:  # no mistake: the tokens that the trees are made of come from the same study
            yield (
                f"parsers.{name}.trees: no such file yet: {', '.join(missing)}; make the tokens first, and "
                "parse them (docs/syntax.md)"
            )


def _warnings_of_training(training: Training) -> Iterator[str]:
    updates = training.max_updates
    if training.evaluate_every > updates:
        yield (
            f"evaluate_every ({training.evaluate_every:,}) is above max_updates ({updates:,}): dev is scored after the "
            "last update only"
        )
    if training.average_best:
        key, wanted, every = "average_best", training.average_best, "evaluate_every"
    else:
        key, wanted, every = "average_last", training.average_last, "checkpoint_every"
    made = math.ceil(updates / getattr(training, every))  # the last update always makes one
    if made < wanted:
        yield (
            f"{key} is {wanted:,}, but {updates:,} updates with {every} {getattr(training, every):,} make "
            f"{made:,} checkpoint{'s' if made > 1 else ''}, which are then averaged"
        )
    elif key == "average_last" and 3 * (span := (wanted - 1) * training.checkpoint_every) > updates:
        lower = max(1, updates // 50)
        advice = f"checkpoint_every to {lower:,}, or average_last" if lower < training.checkpoint_every else key
        yield (
            f"average_last averages checkpoints over {span:,} of {updates:,} updates, and the early ones know little: "
            f"lower {advice}"
        )
    if isinstance(training.optimizer, Adam) and training.optimizer.warmup > updates:
        yield (
            f"optimizer.warmup ({training.optimizer.warmup:,}) is above max_updates ({updates:,}): the learning rate "
            "never reaches its highest value"
        )


def _warnings_of_languages(dataset: Dataset) -> Iterator[str]:
    for side in dataset.sides:
        tokenizer = dataset.tokenizer(side)
        if tokenizer.unit == "moses" and tokenizer.language not in WITH_MOSES_RULES:
            code = dataset.language_of(side)
            yield (
                f"{dataset.language_key(side)}: Moses has no rules for {language_name(code)} ({code}); the rules for "
                "all languages split punctuation off, with the abbreviations of English; an apostrophe between letters "
                "stays"
            )
        if not scripts_of(tokenizer.language):
            code = dataset.language_of(side)
            yield (
                f"{dataset.language_key(side)}: the script of {language_name(code)} ({code}) is not listed; cleaning "
                "keeps its lines in any script"
            )


def _language_problems(study: Study) -> Iterator[str]:
    places = [
        *(
            (f"datasets.{name}.{dataset.language_key(side)}", dataset.language_of(side))
            for name, dataset in study.datasets.items()
            for side in dataset.sides
        ),
        *((f"parsers.{name}.language", parser.language) for name, parser in study.parsers.items()),
        *((f"chunkers.{name}.language", chunker.language) for name, chunker in study.chunkers.items()),
    ]
    for where, code in places:
        if problem := problem_of_language(code):
            yield f"{where}: {problem}"


def _registry_problems(study: Study) -> Iterator[str]:
    """Registered texts and published models that a study names and that do not exist."""
    for name, dataset in study.datasets.items():
        if dataset.generator and dataset.languages not in _GENERATED_LANGUAGES:
            made = "language: en or de" if dataset.language else "source_language: en, target_language: de"
            yield f"datasets.{name}: the generator makes nothing but {made}"
        for where, pairs in dataset.contrast_texts:
            if isinstance(pairs, RegistryText):
                yield from _refusals(f"datasets.{name}.{where}", _check_contrasts, pairs, dataset)
        for where, text in dataset.texts:
            for side in dataset.sides if isinstance(text, RegistryText) else ():
                assert isinstance(text, RegistryText)
                part = (text.corpus, text.part, dataset.language_of(side))
                yield from _refusals(f"datasets.{name}.{where}", files_of, *part)
    for name, annotator in study.annotators.items():
        for where, annotated in annotator.texts:
            if annotated.corpus is not None and annotated.part is not None:
                part = (annotated.corpus, annotated.part, annotator.language)
                yield from _refusals(f"{_place(study, name)}.{where}", files_of, *part)
        if isinstance(annotator, Parser) and annotator.published is not None:
            package = (annotator.language, annotator.published)
            yield from _refusals(f"{_place(study, name)}.published", files_of_package, *package)


def _check_contrasts(pairs: RegistryText, dataset: Dataset) -> None:
    languages = contrasts_of(pairs.corpus, pairs.part).languages
    if languages != dataset.languages:
        raise DataError(f"these pairs are {'-'.join(languages)}, but the data set is {'-'.join(dataset.languages)}")


def _refusals(where: str, check: Callable[..., object], *arguments: object) -> Iterator[str]:
    """The error that a check raises, as a mistake at a place of the study."""
    try:
        check(*arguments)
    except PhrasemtError as error:
        yield f"{where}: {error}"


def _metric_problems(study: Study) -> Iterator[str]:
    """Metrics without a program, or with a column that could be taken for another one."""
    headings = [convention.heading for convention in CONVENTIONS.values()]
    taken = dict.fromkeys((*headings, DIFFERENCE), "a column of every table")
    for name, metric in study.metrics.items():
        if shutil.which(metric.words[0]) is None:
            next_step = ". Next: make comet" if metric.model else ""
            yield f"metrics.{name}.command: no such program: {metric.words[0]}{next_step}"
        elif metric.model and not metric.files[-1].is_file():
            next_step = "" if metric.model.endswith(".ckpt") else f". Next: make comet MODEL={metric.model}"
            yield f"metrics.{name}.model: no such file: {metric.files[-1]}{next_step}"
        for word in metric.words[1:]:
            if Path(word).suffix in _OF_PROGRAMS and not Path(word).is_file():
                yield f"metrics.{name}.command: no such file: {word}"
        heading = metric.heading or name
        if heading in taken:
            yield f"metrics.{name}: its heading {heading!r} is that of {taken[heading]}; give another `heading`"
        taken.setdefault(heading, f"metrics.{name}")


class _Use(NamedTuple):
    """What a study takes a file for. text: the place of its text; split: train, dev, or a word for all test sets."""

    text: str
    key: str
    role: Literal["source", "reference", "translation"]
    split: str


def _same_file_problems(study: Study) -> Iterator[str]:
    """Files, also behind links, that a data set uses for two things which must differ: sides, and splits."""
    for name, dataset in study.datasets.items():
        uses: list[tuple[_Use, Path]] = []
        for place, text in dataset.texts:
            section, split, *_ = place.split(".")
            for key, file in text.files.items() if not isinstance(text, RegistryText) else ():
                role: Literal["source", "reference"] = "source" if key in ("source", "text") else "reference"
                use = _Use(f"datasets.{name}.{place}", key, role, split if section == "splits" else section)
                uses.append((use, file))
        for system, outside in study.outside.items():
            for (of_dataset, _), file in outside.files(study.datasets).items():
                if of_dataset == name:
                    uses.append((_Use(f"systems.{system}", "translations", "translation", "test"), file))
        for one, two in one_file(uses):
            copied = (one.role, two.role) == ("source", "translation")  # a baseline that copies the source
            other_split = one.split != two.split and dataset.overlap == "refused"
            if one.text == two.text or other_split or (one.role != two.role and not copied):
                yield f"{two.text}.{two.key}: the same file as {one.text}.{one.key}"


def _files_of_the_user(study: Study) -> Iterator[tuple[str, Path]]:
    """The places of a study that name a file other than a text, and the file."""
    for name, metric in study.metrics.items():
        if not metric.model:
            yield from ((f"metrics.{name}.files", file) for file in metric.files)
    for name, system in study.models.items():
        segmentation = system.model.source_phrases
        given = segmentation.given if segmentation else None
        for dataset_name, dataset in study.datasets.items() if given else ():
            for split in (*dataset.split_names, *dataset.contrast_sets):
                yield f"systems.{name}.model.phrase.given", Path(f"{given}/{dataset_name}/{split}.txt")
        for seed in study.seeds_of(name):
            yield from ((f"systems.{name}.init_from", file) for file in initial_weights(system, seed))
    yield from _translations_of_the_user(study)


def _translations_of_the_user(study: Study) -> Iterator[tuple[str, Path]]:
    for name, outside in study.outside.items():
        yield from ((f"systems.{name}.translations", file) for file in outside.files(study.datasets).values())


def _place(study: Study, annotator: str) -> str:
    return f"{'parsers' if annotator in study.parsers else 'chunkers'}.{annotator}"


def missing_texts(study: Study) -> Iterator[str]:
    """Your own texts that are missing. A missing folder is one mistake."""
    missing: dict[Path, list[str]] = {}  # folder: its files
    for where, file in texts_of_the_user(study):
        if not file.is_file() and file.parent.is_dir():
            yield f"{where}: no such file: {file}"
        elif not file.is_file():
            missing.setdefault(file.parent, []).append(file.name)
    for folder, names in missing.items():
        yield f"no such folder: {folder}; the study reads {', '.join(dict.fromkeys(names))} there"


def _file_problems(study: Study) -> Iterator[str]:
    yield from missing_texts(study)
    for where, file in (*_sentences_of_the_user(study), *_translations_of_the_user(study)):
        if file.is_file():
            yield from _refusals(where, _check_text, file)
    for where, file in _files_of_the_user(study):
        if not file.is_file():
            yield f"{where}: no such file: {file}"
        elif file.suffix == ".safetensors":
            yield from _refusals(where, _check_weights, file)


def _future_problems(study: Study) -> Iterator[str]:
    """Files that are dated in the future, so outputs would be older than their inputs, which ends a run."""
    for where, file in (*texts_of_the_user(study), *_files_of_the_user(study)):
        if file.is_file() and (ahead := file.stat().st_mtime - time.time()) > _CLOCKS_DIFFER:
            yield f"{where}: {file} is dated {ahead / 60:,.0f} minutes ahead of this clock; next: touch {file}"


def _check_text(file: Path) -> None:
    Preprocessing.of(itertools.islice(read_lines(file), _LINES_READ)).check_plain_text(file)


def _check_weights(file: Path) -> None:
    import safetensors  # few studies name weights

    try:
        with safetensors.safe_open(file, framework="numpy"):
            pass
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError("not a readable weights file", where=file, found=str(error)) from None


def _sentences_of_the_user(study: Study) -> Iterator[tuple[str, Path]]:
    for name, dataset in study.datasets.items():
        for where, text in dataset.texts:
            if not isinstance(text, RegistryText):
                yield from ((f"datasets.{name}.{where}.{key}", file) for key, file in text.files.items())


def texts_of_the_user(study: Study) -> Iterator[tuple[str, Path]]:
    """The places of a study that name a file with text, and the file."""
    yield from _sentences_of_the_user(study)
    for name, dataset in study.datasets.items():
        for where, pairs in dataset.contrast_texts:
            if not isinstance(pairs, RegistryText):
                yield from ((f"datasets.{name}.{where}", file) for file in pairs.files)
    for name, annotator in study.annotators.items():
        for where, annotated in annotator.texts:
            if annotated.file is not None:
                yield f"{_place(study, name)}.{where}.file", annotated.file


def _subword_problems(study: Study) -> Iterator[str]:
    """Data sets that take over the subwords of a model that reads other text."""
    for name, dataset in study.datasets.items():
        if (folder := dataset.subwords.reuse) is None:
            continue
        where = f"datasets.{name}"
        try:
            known = read_manifest(folder).settings
        except PhrasemtError as error:
            yield f"{where}.subwords.reuse: {error}"
            continue
        cut = dataset.subwords.unit == "bpe"
        for key, wanted, found in (
            ("source_language", known.source_language, dataset.source_language),
            ("target_language", known.target_language, dataset.target_language),
            ("subwords.unit", "word" if known.vocabulary_threshold is None else "bpe", dataset.subwords.unit),
            (
                "subwords.vocabulary_threshold",
                known.vocabulary_threshold,
                dataset.subwords.vocabulary_threshold if cut else None,
            ),
            ("tokenization, source", known.source_tokenizer, dataset.tokenizer("source")),
            ("tokenization, target", known.target_tokenizer, dataset.tokenizer("target")),
        ):
            if wanted != found:
                yield f"{where}.{key} is {found}, but the model in {folder} reads {wanted}"
