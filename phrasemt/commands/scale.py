"""`phrasemt scale STUDY SIZE --output FILE`: write a study at a smaller size, or its rehearsal; complete in itself.

`micro` has the same systems with fewer and narrower layers. It runs on the generated corpus within minutes and shows
that every stage of a study works.

A `rehearsal` keeps models, batches, annotators and corpora, and does little of each: it shows that the study runs on
the user's machines, and how fast its models train there (`phrasemt plan --gpus`). Scores of neither can be compared
with a paper.

A larger model of a study stays the larger one: widths and heads are divided, they are not replaced.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from phrasemt.commands._arguments import Output, add_study
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.study.datasets import Dataset
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study, System

log = logging.getLogger("phrasemt.scale")

Values = dict[str, Any]

_WIDTHS = ["width", "ffn_width", "embedding", "hidden", "attention_width"]
_WIDTHS += ["readout_width", "chunk_hidden", "chunk_embedding"]
_DEPTHS = ("encoder_layers", "decoder_layers", "layers")
_MULTIPLE = 8  # widths stay multiples of it, so that heads and pairs divide them

# What `micro` changes: divisors of widths, of the layers of deeper stacks than two, because two decoder layers are a
# system of their own (dl4mt-2), and of heads; values of all trainings. Adam replaces other optimisers, because Adadelta
# needs many more updates.
MICRO = "micro"
_NARROWER, _SHALLOWER, _FEWER_HEADS = 16, 6, 4
_MICRO_TRAINING: Values = {
    "max_updates": 20,
    "evaluate_every": 10,
    "checkpoint_every": 1,
    "precision": "float32",
    "optimizer": {"name": "adam", "warmup": 10, "factor": 0.1},
}
_MICRO_TOKENS, _MICRO_SENTENCES = 400, 32  # of an update

REHEARSAL = "rehearsal"
# Pairs of train. The vocabulary has the size of the study's: merges end early only when every word that occurs twice is
# one symbol, and 57,000 pairs of news and the Bible have 41,621 such words in German alone, more than 32,000 merges.
_REHEARSED_PAIRS, _REHEARSED_TEST = 60_000, 100
_REHEARSED_UPDATES = 60  # three reports of the training, of which the first one has the slow first updates
# Random weights never end a sentence, so outputs would have the longest length; these have that of their sources.
_OF_SOURCE_LENGTH: Values = {"max_length_factor": 1.0, "max_length_extra": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)
    parser.add_argument(
        "size",
        choices=[MICRO, REHEARSAL],
        help="micro: generated corpus, minutes; rehearsal: the models, batches and corpora of the study with little of "
        "each; then `phrasemt plan STUDY --gpus N` prices it",
    )
    parser.add_argument("--output", type=Output, metavar="FILE", help="the new study (default: standard output)")


def run(options: argparse.Namespace) -> None:
    """Write the study at the size. Raises StudyError for mistakes in it, and PhrasemtError for an existing file."""
    study = load_study(options.study)
    raw = parse_yaml(options.study.read_text(encoding="utf-8"))
    values = rehearsal(raw, study) if options.size == REHEARSAL else micro(raw, study)
    text = f"# {options.study.name} at the size {options.size}, written by `phrasemt scale`.\n\n{format_yaml(values)}"
    if options.output is None:
        sys.stdout.write(text)
        return
    if options.output.exists():
        raise PhrasemtError(
            "the file exists", where=options.output, next_step="name another file with --output, or remove this one"
        )
    write_text(options.output, text)
    log.info("phrasemt scale: %s; next: phrasemt run %s", options.output, options.output)


def micro(raw: Mapping[str, Any], study: Study) -> Values:
    """Return the values of a study at the size `micro`.

    raw: the values of the study file, with merge keys resolved. study: the study that they make. Phrase-based systems
    have no size.
    """
    values: Values = {**raw, "study": f"{study.study}-{MICRO}", "title": f"{study.title or study.study} ({MICRO})"}
    for key in ("datasets", "systems", "parsers", "chunkers"):
        values.pop(key, None)
    return values | _micro_datasets(study) | {"systems": _systems(raw, study, _system)}


def rehearsal(raw: Mapping[str, Any], study: Study) -> Values:
    """Return the values of the rehearsal of a study.

    raw, study: as in `micro`. A part of the pairs, one seed, few updates with one evaluation, searches with outputs as
    long as the sources. Everything else is the study's own.
    """
    return {
        **raw,
        "study": f"{study.study}-{REHEARSAL}",
        "title": f"{study.title or study.study} ({REHEARSAL})",
        "seeds": study.seeds[:1],
        "datasets": {name: _sampled(raw["datasets"][name], dataset) for name, dataset in study.datasets.items()},
        "systems": _systems(raw, study, _rehearsed),
    }


def _systems(raw: Mapping[str, Any], study: Study, changed: Callable[[Values, System], Values]) -> Values:
    """Return the rows. Translations of other programs are of other test sets, so their rows are left out."""
    rows = {name: values for name, values in raw["systems"].items() if name not in study.outside}
    return {name: changed(row, study.models[name]) if name in study.models else row for name, row in rows.items()}


def _sampled(raw: Mapping[str, Any], dataset: Dataset) -> Values:
    """Return the values of a data set with a part of its pairs, whose subwords are all kept, as rare as they are."""
    values = {key: value for key, value in raw.items() if key != "stands_for"}
    if dataset.subwords.unit == "bpe":
        values["subwords"] = {**raw.get("subwords", {}), "vocabulary_threshold": 0}
    return {**values, "sample": {"train": _REHEARSED_PAIRS, "test": _REHEARSED_TEST}, "overlap": "allowed"}


def _rehearsed(raw: Mapping[str, Any], system: System) -> Values:
    """Return the values of a row with few updates."""
    values = {key: value for key, value in raw.items() if key not in ("init_from", "seeds")}
    if system.translates:
        values["decoding"] = {**raw.get("decoding", {}), **_OF_SOURCE_LENGTH}
    updates = min(_REHEARSED_UPDATES, system.training.max_updates)
    few = {"max_updates": updates, "evaluate_every": updates, "checkpoint_every": updates, "early_stopping": None}
    last = {} if system.training.average_best else {"average_last": 1}
    return {**values, "training": {**raw.get("training", {}), **few, **last}}


def _system(raw: Mapping[str, Any], system: System) -> Values:
    """Return the values of a row, without initial weights, which have another size."""
    training: Values = {**raw.get("training", {}), **_MICRO_TRAINING}
    if system.training.average_best is None:
        training["average_last"] = min(system.training.average_last, 5)
    if system.training.sentences_per_update:
        training["sentences_per_update"] = _MICRO_SENTENCES
    else:
        training["tokens_per_update"] = _MICRO_TOKENS
    row = {key: value for key, value in raw.items() if key != "init_from"}
    return {**row, "model": {**raw.get("model", {}), **_sizes(system)}, "training": training}


def _sizes(system: System) -> Values:
    """Return the sizes of a model that change, for the settings that its family has."""
    present = {name: getattr(system.model, name) for name in type(system.model).model_fields}
    new: Values = {}
    for name in _WIDTHS:
        if present.get(name) is not None:
            new[name] = max(1, round(present[name] / _NARROWER / _MULTIPLE)) * _MULTIPLE
    for name in _DEPTHS:
        if present.get(name, 0) > 2:
            new[name] = max(1, present[name] // _SHALLOWER)
    if "heads" in present:
        new["heads"] = max(1, present["heads"] // _FEWER_HEADS)
    return new


def _micro_datasets(study: Study) -> Values:
    """Return the generated corpus for each data set, with a parser of its trees where the study has a parser."""
    parser = "english"
    datasets = {
        name: {"subwords": _micro_subwords(dataset)}
        | ({"language": "en"} if dataset.language else {"source_language": "en", "target_language": "de"})
        | {
            "generator": {"train": 600, "dev": 20, "test": 40},
            **({"source_parser": parser} if dataset.source_parser else {}),
            **({"target_chunks": {"origin": "gold"}} if dataset.target_chunks else {}),
        }
        for name, dataset in study.datasets.items()
    }
    first = next(iter(datasets))
    trees = {part: [{"generated": first, "split": part}] for part in ("train", "dev", "test")}
    training = {**trees, "sentences": 200, "vectors": 0, "hidden": 16, "tagger_updates": 40, "epochs": 1}
    parses = any(dataset.source_parser for dataset in study.datasets.values())
    return {"datasets": datasets, **({"parsers": {parser: {"language": "en", "train": training}}} if parses else {})}


def _micro_subwords(dataset: Dataset) -> Values:
    """Return the units of a data set, with fewer merges where the unit is the subword."""
    units = dataset.subwords.model_dump(exclude_defaults=True, exclude={"reuse", "symbols"})
    return units | ({"vocabulary_threshold": 0, "merges": 300} if dataset.subwords.unit == "bpe" else {})
