"""`phrasemt scale STUDY SIZE --output FILE`: write a study at a smaller size, or its rehearsal; complete in itself.

Two sizes have the same systems with fewer and narrower layers, on texts that everybody has. `micro` runs on the
generated corpus within minutes and shows that every stage of a study works. `small` trains for about an hour a system
on one core with bfloat16 matrix units, on captions or short sentences of the language pair.

A `rehearsal` keeps models, batches, annotators and corpora, and does little of each: it shows that the study runs on
the user's machines, and how fast its models train there (`phrasemt plan --gpus`). Scores of none of the
three can be compared with a paper.

A larger model of a study stays the larger one: widths and heads are divided, they are not replaced.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from phrasemt.commands._arguments import Output, add_study
from phrasemt.errors import PhrasemtError, check_equal
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


@dataclass(frozen=True)
class Size:
    """What changes in the models and trainings of a study.

    narrower, shallower, fewer_heads: divisors. Stacks of one or two layers keep them, because two decoder layers are a
    system of their own (dl4mt-2).
    regularisation: values of models whose training text is small.
    training, by_tokens, by_sentences: values of all trainings, and of trainings with updates of so many tokens or
    sentences. warmup, factor: of Adam, which replaces other optimisers, because Adadelta needs many more updates.
    """

    narrower: int
    shallower: int
    fewer_heads: int
    regularisation: Values
    training: Values
    tokens: int
    sentences: int
    warmup: int
    factor: float


SIZES = {
    "micro": Size(
        narrower=16,
        shallower=6,
        fewer_heads=4,
        regularisation={},
        training={"max_updates": 20, "evaluate_every": 10, "checkpoint_every": 1, "precision": "float32"},
        tokens=400,
        sentences=32,
        warmup=10,
        factor=0.1,
    ),
    "small": Size(
        narrower=2,
        shallower=2,
        fewer_heads=2,
        regularisation={"dropout": 0.3, "initial_deviation": 0.05},
        training={"max_updates": 5400, "evaluate_every": 300, "checkpoint_every": 200, "precision": "bfloat16"},
        tokens=1900,
        sentences=80,
        warmup=1000,
        factor=0.5,
    ),
}

REHEARSAL = "rehearsal"
# Pairs of train. The vocabulary has the size of the study's: merges end early only when every word that occurs twice is
# one symbol, and 57,000 pairs of news and the Bible have 41,621 such words in German alone, more than 32,000 merges.
_REHEARSED_PAIRS, _REHEARSED_TEST = 60_000, 100
_REHEARSED_UPDATES = 60  # three reports of the training, of which the first one has the slow first updates
# Random weights never end a sentence, so outputs would have the longest length; these have that of their sources.
_OF_SOURCE_LENGTH: Values = {"max_length_factor": 1.0, "max_length_extra": 1}

# Data sets of the size `small`, by language pair, or by the language of a monolingual data set.
_CAPTIONS_TRAIN: Values = {"corpus": "multi30k", "part": "train"}
_CAPTIONS: Values = {
    "splits": {
        "train": [_CAPTIONS_TRAIN],
        "dev": [{"corpus": "multi30k", "part": "val"}],
        "test": {"test_2016_flickr": [{"corpus": "multi30k", "part": "test_2016_flickr"}]},
    }
}
_SMALL_TEXTS: dict[frozenset[str], Values] = {
    frozenset({"en"}): _CAPTIONS,
    frozenset({"en", "de"}): _CAPTIONS,
    frozenset({"en", "fr"}): _CAPTIONS,
    frozenset({"en", "zh"}): {
        "partition": {"text": {"corpus": "tatoeba-zh-en", "part": "all"}, "dev": 500, "test": 1000}
    },
}
# Parsers and chunkers of the size `small`, all of English, with word vectors of the English captions.
_SMALL_PARSER: Values = {
    **{part: [{"corpus": "treebank", "part": part}] for part in ("train", "dev", "test")},
    "text": [_CAPTIONS_TRAIN],
    "tagger_updates": 800,
}
_SMALL_CHUNKER: Values = {
    **{part: [{"corpus": "conll2000", "part": part}] for part in ("train", "test")},
    "text": [_CAPTIONS_TRAIN],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)
    parser.add_argument(
        "size",
        choices=[*SIZES, REHEARSAL],
        help="micro: generated corpus, minutes; small: about an hour a system; rehearsal: the models, batches and "
        "corpora of the study with little of each; then `phrasemt plan STUDY --gpus N` prices it",
    )
    parser.add_argument("--output", type=Output, metavar="FILE", help="the new study (default: standard output)")


def run(options: argparse.Namespace) -> None:
    """Write the study at the size. Raises StudyError for mistakes in it, and PhrasemtError for an existing file."""
    study = load_study(options.study)
    raw = parse_yaml(options.study.read_text(encoding="utf-8"))
    values = rehearsal(raw, study) if options.size == REHEARSAL else scaled(raw, study, options.size)
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


def scaled(raw: Mapping[str, Any], study: Study, size: str) -> Values:
    """Return the values of a study at another size.

    raw: the values of the study file, with merge keys resolved. study: the study that they make. Phrase-based systems
    have no size.
    Raises PhrasemtError if the size has no texts for a language pair, or no parser for a language.
    """
    values: Values = {**raw, "study": f"{study.study}-{size}", "title": f"{study.title or study.study} ({size})"}
    for key in ("datasets", "systems", "parsers", "chunkers"):
        values.pop(key, None)
    values |= _micro_datasets(study) if size == "micro" else _small_datasets(study)
    values["systems"] = _systems(raw, study, lambda row, system: _system(row, system, SIZES[size]))
    return values


def rehearsal(raw: Mapping[str, Any], study: Study) -> Values:
    """Return the values of the rehearsal of a study.

    raw, study: as in `scaled`. A part of the pairs, one seed, few updates with one evaluation, searches with outputs as
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


def _system(raw: Mapping[str, Any], system: System, size: Size) -> Values:
    """Return the values of a row, without initial weights, which have another size."""
    model = {**raw.get("model", {}), **_model(system, size)}
    training: Values = {**raw.get("training", {}), **size.training}
    if system.training.average_best is None:
        training["average_last"] = min(system.training.average_last, 5)
    unit, number = (
        ("sentences_per_update", size.sentences)
        if system.training.sentences_per_update
        else ("tokens_per_update", size.tokens)
    )
    training |= {unit: number, "optimizer": {"name": "adam", "warmup": size.warmup, "factor": size.factor}}
    return {**{key: value for key, value in raw.items() if key != "init_from"}, "model": model, "training": training}


def _model(system: System, size: Size) -> Values:
    """Return the sizes of a model that the size changes, for the settings that its family has."""
    present = {name: getattr(system.model, name) for name in type(system.model).model_fields}
    new: Values = {}
    for name in _WIDTHS:
        if present.get(name) is not None:
            new[name] = max(1, round(present[name] / size.narrower / _MULTIPLE)) * _MULTIPLE
    for name in _DEPTHS:
        if present.get(name, 0) > 2:
            new[name] = max(1, present[name] // size.shallower)
    if "heads" in present:
        new["heads"] = max(1, present["heads"] // size.fewer_heads)
    return new | {name: value for name, value in size.regularisation.items() if name in present}


def _micro_datasets(study: Study) -> Values:
    """Return the generated corpus for each data set, with a parser of its trees where the study has a parser."""
    parser = "english"
    datasets = {
        name: _kept(dataset, merges=300)
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


def _small_datasets(study: Study) -> Values:
    """Return a small corpus of the same language pair for each data set, and annotators that learn from small data."""
    datasets: Values = {}
    for name, dataset in study.datasets.items():
        if dataset.generator:
            problem = "the generated corpus has no other size than the study gives it"
            next_step = "use the size micro, or change the numbers of the generator"
            raise PhrasemtError(problem, where=f"datasets.{name}", next_step=next_step)
        texts = _SMALL_TEXTS.get(frozenset(dataset.languages))
        if texts is None:
            pairs = ", ".join("-".join(sorted(pair)) for pair in _SMALL_TEXTS)
            raise PhrasemtError(
                "no small corpus of this language pair is registered",
                where=f"datasets.{name}",
                expected=f"one of {pairs}, in either direction",
                found="-".join(dataset.languages),
                next_step="use the size micro, or write a study with texts of your own",
            )
        datasets[name] = {
            **_kept(dataset, merges=10_000, vocabulary_threshold=2),
            **{key: getattr(dataset, key) for key in map(dataset.language_key, dataset.sides)},
            **texts,
            **({"source_parser": dataset.source_parser} if dataset.source_parser else {}),
            **({"target_chunks": dataset.target_chunks.model_dump(exclude_none=True)} if dataset.target_chunks else {}),
        }
    values: Values = {"datasets": datasets}
    for section, training in (("parsers", _SMALL_PARSER), ("chunkers", _SMALL_CHUNKER)):
        for name, annotator in getattr(study, section).items():
            what = "no small corpus of annotated sentences of this language is registered"
            where = f"{section}.{name}"
            check_equal("en", annotator.language, what, where=where, next_step="use the size micro")
            values.setdefault(section, {})[name] = {"language": "en", "train": training}
    return values


def _kept(dataset: Dataset, **subwords: int) -> Values:
    """Return the units of a data set, with other numbers where the unit is the subword."""
    units = dataset.subwords.model_dump(exclude_defaults=True, exclude={"reuse", "symbols"})
    if dataset.subwords.unit == "bpe":
        units |= {"vocabulary_threshold": 0, **subwords}
    return {"subwords": units}
