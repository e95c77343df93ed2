"""Which files a job reads: two tables that the rules ask by name (phrasemt/workflow/flow.py)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.files.source_file import MIRROR
from phrasemt.registry.corpora import contrasts_of, files_of
from phrasemt.registry.stanza_models import files_of_package
from phrasemt.stages import STAGES
from phrasemt.study.annotators import AnnotatedText
from phrasemt.study.datasets import SIDES, Dataset, DatasetText, RegistryText
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Side
from phrasemt.workflow.trained_system import PLACES, initial_weights

# Snakemake's wildcards of a job: an object with items().
Wildcards = Any
Names = dict[str, object]


def _splits(splits: Iterable[str]) -> list[Names]:
    return [{"split": split} for split in splits]


def _seeds(study: Study, system: str) -> list[Names]:
    return [{"system": system, "seed": seed} for seed in study.seeds_of(system)]


def _forced_seeds(study: Study, job: Wildcards) -> list[Names]:
    """Those of both sides of a comparison, if both have nats of the references."""
    sides = [study.baseline_of(job.system), job.system]
    return [seed for system in sides for seed in _seeds(study, system)] if {*sides} <= {*study.forced} else []


def _if(condition: object) -> list[Names]:
    return [{}] if condition else []


def _phrases(study: Study, job: Wildcards) -> list[Names]:
    segmentation = study.models[job.system].model.source_phrases
    return [{"segmenter": segmentation.folder_name}] if segmentation and segmentation.has_columns else []


def _annotations(study: Study, job: Wildcards, annotator: str | None) -> list[Names]:
    jobs = study.datasets[job.dataset].annotation_jobs(job.split) if annotator else 0
    return [{"annotator": annotator, "job": number} for number in range(jobs)]


# Files of one pattern: the names that take the place of the job's own wildcards, for each file; none: it reads no such
# file.
CHOICES: dict[str, Callable[[Study, Wildcards], list[Names]]] = {
    "test sets": lambda study, job: _splits(study.datasets[job.dataset].test_sets),
    "dev and test sets": lambda study, job: _splits(study.datasets[job.dataset].held_out),
    "references": lambda study, job: _splits(study.datasets[job.dataset].all_references),
    "further references": lambda study, job: _splits(study.datasets[job.dataset].further_references),
    "metrics": lambda study, job: [{"metric": metric} for metric in study.metrics],
    "seeds": lambda study, job: _seeds(study, job.system),
    "seeds of the baseline": lambda study, job: _seeds(study, study.baseline_of(job.system)),
    # Of all systems with several; they show how much trainings differ.
    "repeated seeds": lambda study, job: [seed for system in study.repeated for seed in _seeds(study, system)],
    "forced seeds": _forced_seeds,
    "repeated forced seeds": lambda study, job: [
        seed for system in study.repeated if system in study.forced for seed in _seeds(study, system)
    ],
    "repeated": lambda study, job: _if(study.repeated),
    "subwords": lambda study, job: _if(study.datasets[job.dataset].subwords.unit != "word"),
    "phrases": _phrases,  # of a system
    "chunks": lambda study, job: _if(study.models[job.system].model.reads_chunks),
    "annotator": lambda study, job: [{"language": study.annotators[job.annotator].language}],
    "given phrases": lambda study, job: _if(study.segmentations[job.segmenter].given),
    "phrase model": lambda study, job: [{"phrase_model": study.phrase_based[job.system].model.folder_name}],
    "source parses": lambda study, job: _annotations(study, job, study.datasets[job.dataset].source_parser),
    "true case": lambda study, job: _if(study.phrase_models[job.phrase_model].case == "truecase"),
    "tuned weights": lambda study, job: _if(study.phrase_based[job.system].tuning),
}


def _raw_texts(study: Study, job: Wildcards, side: Side) -> list[str]:
    """One side of a split before cleaning: registered texts, your files, or what the workflow makes."""
    dataset = study.datasets[job.dataset]
    texts = dataset.texts_of_split(job.split)
    if texts and not (dataset.cut and job.split in dataset.cut.splits):
        return [_text_path(text, dataset, side) for text in texts]
    return [Paths.of(study, job.dataset).raw_text.at(split=job.split, language=dataset.language_of(side))]


def _whole_texts(study: Study, job: Wildcards, side: Side) -> list[str]:
    """One side of the texts that are cut into splits."""
    dataset = study.datasets[job.dataset]
    return [_text_path(text, dataset, side) for text in dataset.cut.texts] if dataset.cut else []


def _original_files(study: Study, job: Wildcards) -> list[str]:
    """The fetched files that hold one side of a part of a registered corpus."""
    files = files_of(job.corpus, job.part, job.language, functools.partial(file_at_hand, job.corpus))
    return [Paths.original_file.at(corpus=job.corpus, file=file) for file in files]


def _contrasts(study: Study, job: Wildcards) -> list[str]:
    """The files of a set of contrastive pairs, registered or your own."""
    found: list[str] = []
    for text in study.datasets[job.dataset].contrast_sets[job.split]:
        if isinstance(text, RegistryText):
            files = contrasts_of(text.corpus, text.part).files
            found += [Paths.original_file.at(corpus=text.corpus, file=file) for file in files]
        else:
            found += map(str, text.files)
    return found


def _model_files(study: Study, job: Wildcards, role: str) -> list[str]:
    """The file of a role (constituency, tagger, ...) of a published parser, if it has one."""
    parser = study.parsers[job.annotator]
    assert parser.published is not None
    files = files_of_package(parser.language, parser.published)
    return [Paths.stanza_file.at(language=parser.language, file=files[role])] if role in files else []


def _training_texts(
    study: Study, job: Wildcards, part: str, kind: Literal["trees", "chunks"] | None = None
) -> list[str]:
    """The texts of one part that an annotator is trained on; with a kind, only for annotators of that kind."""
    annotator = study.annotators[job.annotator]
    annotation: Literal["trees", "chunks"] = "trees" if job.annotator in study.parsers else "chunks"
    if annotator.train is None or kind not in (None, annotation):
        return []
    texts: list[AnnotatedText] = getattr(annotator.train, part)
    wanted = None if part == "text" else annotation
    return [_annotated_text(study, text, annotator.language, wanted) for text in texts]


def _reused(study: Study, job: Wildcards, roles: Sequence[str]) -> list[str]:
    """Files of the exported model whose subwords a data set takes over; no files where it learns its own."""
    folder = study.datasets[job.dataset].subwords.reuse
    return [str(folder / PLACES[role]) for role in roles] if folder else []


def _given_phrases(study: Study, job: Wildcards) -> list[str]:
    """The phrases that the user gives, if the segmentation reads them."""
    folder = study.segmentations[job.segmenter].given
    return [str(folder / job.dataset / f"{job.split}.txt")] if folder else []


def _given_trees(study: Study, job: Wildcards) -> list[str]:
    parser = study.parsers[job.annotator]
    if parser.generated is None:
        return list(map(str, parser.trees or ()))
    dataset = study.datasets[parser.generated]
    return [Paths.of(study, parser.generated).raw_trees.at(split=split) for split in dataset.split_names]


def _source_parses(study: Study, job: Wildcards) -> list[str]:
    names = CHOICES["source parses"](study, job)
    return [Paths.of(study, job.dataset).parses.at(split=job.split, **one) for one in names]


def _parses_for_phrases(study: Study, job: Wildcards) -> list[str]:
    return _source_parses(study, job) if study.segmentations[job.segmenter].reads_parses else []


def _target_tags(study: Study, job: Wildcards) -> list[str]:
    chunks = study.datasets[job.dataset].target_chunks
    names = _annotations(study, job, chunks.chunker if chunks else None)
    return [Paths.of(study, job.dataset).tags.at(split=job.split, **one) for one in names]


def _gold_chunks(study: Study, job: Wildcards) -> list[str]:
    dataset = study.datasets[job.dataset]
    if dataset.generator is None or dataset.texts_of_split(job.split):
        return []
    return [Paths.of(study, job.dataset).raw_chunks.at(split=job.split, language=dataset.target_language)]


_Files = Callable[[Study, Wildcards], list[str]]
_OF_PARTS: dict[str, _Files] = {
    part: functools.partial(_training_texts, part=part) for part in ("train", "dev", "test")
}
# Files that the study decides about, although no setting of their stage names them: yours, registered ones, those of an
# annotator that the study chooses. By stage and input.
FILES: dict[str, dict[str, _Files]] = {
    "extract_text": {"files": _original_files},
    "partition_corpus": {side: functools.partial(_whole_texts, side=side) for side in SIDES},
    "extract_contrasts": {"files": _contrasts},
    "clean_pairs": {f"raw_{side}": functools.partial(_raw_texts, side=side) for side in SIDES},
    "describe_annotator": {
        role: functools.partial(_model_files, role=role) for role in STAGES["describe_annotator"].inputs
    },
    "train_vectors": {
        "texts": functools.partial(_training_texts, part="text"),
        "trees": functools.partial(_training_texts, part="train", kind="trees"),
        "chunks": functools.partial(_training_texts, part="train", kind="chunks"),
    },
    "train_tagger": _OF_PARTS,
    "train_parser": _OF_PARTS,
    "train_chunker": _OF_PARTS,
    "collect_trees": {"files": _given_trees},
    "learn_subwords": {"given": functools.partial(_reused, roles=("codes", "source_counts", "target_counts"))},
    "build_vocabulary": {"given": functools.partial(_reused, roles=("source_vocabulary", "target_vocabulary"))},
    "extract_phrases": {"parses": _parses_for_phrases, "given": _given_phrases},
    "measure_phrases": {"parses": _source_parses},
    "extract_chunks": {"gold": _gold_chunks, "tags": _target_tags},
    "train_model": {
        "initial_weights": lambda study, job: list(map(str, initial_weights(study.models[job.system], job.seed)))
    },
    "import_translations": {
        "translations": lambda study, job: [
            str(study.outside[job.system].files(study.datasets)[job.dataset, job.split])
        ]
    },
    "score_metric": {"files": lambda study, job: list(map(str, study.metrics[job.metric].files_read))},
}


def file_at_hand(corpus: str, file: str) -> Path | None:
    """A file of a corpus that was fetched, or lies in the mirror that the environment names."""
    places = [Path(Paths.original_file.at(corpus=corpus, file=file))]
    places += [Path(mirror, corpus, file)] if (mirror := os.environ.get(MIRROR)) else []
    return next((place for place in places if place.is_file()), None)


def _text_path(text: DatasetText, dataset: Dataset, side: Side) -> str:
    if isinstance(text, RegistryText):
        return Paths.registered_text.at(corpus=text.corpus, part=text.part, language=dataset.language_of(side))
    return str(getattr(text, side))


def _annotated_text(study: Study, text: AnnotatedText, language: str, kind: Literal["trees", "chunks"] | None) -> str:
    if text.corpus is not None:
        return Paths.registered_text.at(corpus=text.corpus, part=text.part, language=language)
    if text.generated is not None:
        paths = Paths.of(study, text.generated)
        if kind == "trees":
            return paths.raw_trees.at(split=text.split)
        return (paths.raw_chunks if kind else paths.raw_text).at(split=text.split, language=language)
    return str(text.file)
