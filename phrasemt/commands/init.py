"""`phrasemt init STUDY`: write a commented study for own texts, with what cleaning finds in them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phrasemt.commands._arguments import Output, in_range
from phrasemt.corpus.clean import Cleaning, WrittenLanguage
from phrasemt.corpus.compare_splits import MAX_SHARE, doubts
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.runs.site import of_checkout
from phrasemt.stages.corpus import CleanPairs
from phrasemt.study.datasets import CleaningFilters
from phrasemt.study.schema import System
from phrasemt.study.tokenization import common_code, problem_of_language
from phrasemt.symbols import SPECIAL_TOKENS

log = logging.getLogger("phrasemt.init")

_MANY, _FEW = 100_000, 20_000  # pairs from which more merges do not make rare subwords
_SUBWORDS_PER_WORD = 1.4
_UPDATE = 1000  # target tokens of an update
_EPOCHS, _LEAST = 30, 1000  # epochs and updates after which a training of a small model gains little
_LEARNS = 300  # updates below which BLEU hardly leaves 0
_OF_THE_TIME = 0.6  # for the updates; the rest is for texts, evaluations on dev and translations
_HIGHEST_RATE = 0.002
_MEASURED = 4  # updates, the first of which is slower
_KINDS_OF_FILES = ("csv", "raw", "src", "tgt", "tok", "tsv", "txt", "xml")  # codes of small languages, too
_WIDTHS = {128: 2, 256: 3, 512: 6}  # with their layers
Sizes = tuple[int, int, int]  # what a system has time for: width, layers, updates


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a study of two systems, a Transformer and one with phrases, for texts with one sentence per line. The "
        "texts are read and cleaned as the study will do it; comments of the study say what was found."
    )
    sides: dict[str, Any] = {"nargs": 2, "type": Path, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument("study", type=Output, metavar="STUDY", help="the new study file, e.g. mine.yaml")
    parser.add_argument("--train", required=True, help="training texts", **sides)
    parser.add_argument("--dev", help="development texts (default: a sample that leaves the training texts)", **sides)
    parser.add_argument("--test", required=True, help="test texts", **sides)
    parser.add_argument(
        "--minutes", type=in_range(float, 1, 100_000), default=15, metavar="N",
        help="for which sizes are chosen, after a training of seconds that measures this machine (default: 15)",
    )  # fmt: skip
    parser.add_argument(
        "--languages", nargs=2, metavar=("SOURCE", "TARGET"), help="codes (default: the ends of the names of the texts)"
    )


def run(options: argparse.Namespace) -> None:
    """Write the study. Raises PhrasemtError for an existing file and unknown languages, DataError for unfit texts."""
    if options.study.exists():
        raise PhrasemtError("the file exists", where=options.study, next_step="name another file, or remove this one")
    for name in ("train", "dev", "test"):
        source, target = getattr(options, name) or (None, "")
        if source == target:
            what = f"--{name} names one file for both sides"
            raise PhrasemtError(what, where=source, next_step="give the source text, then its translation")
    names = options.languages or [path.suffix.removeprefix(".") for path in options.train]
    for language, path in zip(names, options.train, strict=True):
        problem = problem_of_language(language)
        if problem or (language in _KINDS_OF_FILES and not options.languages):
            raise PhrasemtError(
                "unknown language" if options.languages else "its name does not end with a language",
                where=language if options.languages else path,
                expected="a code such as en or deu" if options.languages else "an end such as .en or .deu",
                found=language or path.name,
                next_step="give both codes with --languages, e.g. --languages en de",
            )
    write_text(options.study, "\n".join(_lines(options, names)) + "\n")
    log.info("phrasemt init: %s; next: phrasemt check %s, then phrasemt run %s", *[options.study] * 3)


def _lines(options: argparse.Namespace, languages: Sequence[str]) -> Iterator[str]:
    source, target = languages
    cleaning = _cleaning(languages, CleaningFilters(), options.train)
    train = _pairs(cleaning)
    if not train:
        what, next_step = "cleaning drops all pairs of the training texts", "check that these are the texts you mean"
        where, found = ", ".join(map(str, options.train)), _counted(cleaning.by_filter)
        raise DataError(what, where=where, expected="pairs with two sides", found=found, next_step=next_step)
    held_out = {name: texts for name in ("dev", "test") if (texts := getattr(options, name))}
    read = {name: _pairs(_cleaning(languages, None, texts)) for name, texts in held_out.items()}
    for name, doubt in doubts({**read, "train": train}, languages):
        files = ", ".join(map(str, getattr(options, name)))
        log.warning("phrasemt init: warning: --%s %s: %s; next: check these files and their order", name, files, doubt)
    yield f"# Written by `phrasemt init` for {options.minutes:g} minutes of this machine, if nothing else runs there."
    schema = Path(of_checkout("workflow/schemas/study.schema.json"))
    place = schema if schema.is_absolute() else Path(os.path.relpath(schema, options.study.parent))
    yield f"# yaml-language-server: $schema={place}"
    yield "# config/README.md explains every key."
    yield f"study: {re.sub(r'[^a-zA-Z0-9_+-]', '-', options.study.stem)}"
    yield "seeds: [1]  # of each system; one training proves little, three show what the choice of a seed does"
    yield ""
    yield "datasets:"
    yield "  texts:"
    yield f"    source_language: {source}"
    yield f"    target_language: {target}"
    yield "    splits:"
    yield from (f"      {line}" for line in _found("train", train, languages))
    yield f"      # the filters (`cleaning`) drop {len(cleaning.dropped):,} more: {_counted(cleaning.by_filter)}"
    yield f"      train: [{_pair(options.train)}]"
    if "dev" in read:
        yield from (f"      {line}" for line in _found("dev", read["dev"], languages, train))
        yield f"      dev: [{_pair(options.dev)}]"
    else:
        yield f"      dev: {{sample: {min(500, max(1, len(train) // 20))}}}  # pairs held out from train"
    yield from (f"      {line}" for line in _found("test", read["test"], languages, train))
    yield f"      test: {{test: [{_pair(options.test)}]}}"
    merges = 2_000 if len(train) < _FEW else 8_000 if len(train) < _MANY else 32_000
    yield f"    subwords: {{merges: {merges}}}  # learned on both languages together"
    words = statistics.fmean(_lengths(target, (pair[1] for pair in train)))
    yield from _systems(len(train) * words, sizes_for(options.minutes, len(train), words, merges))


def _systems(words: float, sizes: Sizes) -> Iterator[str]:
    """Yield the systems. words: of the target side of the training text."""
    width, layers, updates = sizes
    epochs = updates * _UPDATE / (words * _SUBWORDS_PER_WORD)
    warmup = updates // 5
    factor = _HIGHEST_RATE * (width * warmup) ** 0.5  # the highest rate is factor / sqrt(width * warmup)
    model = {"family": "transformer", **_model(width, layers), "dropout": 0.1 if epochs < 10 else 0.3}
    yield ""
    yield "systems:"
    yield "  base:  # the first system is the baseline"
    yield "    title: Transformer"
    yield f"    model: &model {{{', '.join(f'{key}: {value}' for key, value in model.items())}}}"
    yield "    training: &training"
    yield f"      tokens_per_update: {_UPDATE}"
    yield f"      max_updates: {updates}  # about {epochs:.1f} times the training text"
    yield f"      optimizer: {{warmup: {warmup}, factor: {factor:.2f}}}  # the learning rate grows to {_HIGHEST_RATE}"
    yield f"      evaluate_every: {updates // 5}"
    yield f"      checkpoint_every: {updates // 50}  # the last five are averaged: a tenth of the training"
    yield "  phrases:"
    yield "    title: Transformer + phrases (Xu et al. 2020)"
    yield "    model: {<<: *model, family: phrase_representation, pool: attn, ta: on}"
    yield "    training: *training"


def _model(width: int, layers: int) -> dict[str, Any]:
    sizes = {"encoder_layers": layers, "decoder_layers": layers, "width": width, "heads": width // 32}
    return sizes | {"ffn_width": 4 * width, "norm": "pre", "tie": "all"}


def sizes_for(minutes: float, pairs: int, words: float, vocabulary: int) -> Sizes:
    """Return the largest model that this machine trains well in this time. words: mean of a target sentence.

    Two systems are trained, each on one core. A model that is not the smallest gets all updates that it can use.
    """
    length = max(2, round(words * _SUBWORDS_PER_WORD))
    wanted = max(_LEAST, _EPOCHS * pairs * length // _UPDATE)
    available = _OF_THE_TIME * 60 * minutes / (1 if (os.cpu_count() or 1) > 1 else 2)
    chosen: Sizes | None = None
    for width, layers in _WIDTHS.items():
        updates = int(available / _seconds_of_update(width, layers, length, vocabulary))
        if chosen is None or updates >= wanted:
            chosen = width, layers, max(1, min(updates, wanted) // 50) * 50
        if updates < wanted:
            break
    assert chosen is not None
    *_, updates = chosen
    if updates < _LEARNS:
        log.warning("phrasemt init: warning: %d updates teach little; next: give --minutes more", updates)
    return chosen


def _seconds_of_update(width: int, layers: int, length: int, vocabulary: int) -> float:
    """Train a system with phrases for some updates on random sentences of this length, on one core.

    Seconds of the processor: other work on the machine does not count.
    """
    import torch

    from phrasemt.batching.batch import Batch, collate_target
    from phrasemt.batching.reader import SourceCollator
    from phrasemt.models.interface import build_model

    phrases = {"family": "phrase_representation", **_model(width, layers), "pool": "attn", "ta": "on"}
    settings = System.model_validate({"model": phrases}).model
    torch.set_num_threads(1)
    model = build_model(settings, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    count = max(1, _UPDATE // length)
    sides = np.random.default_rng(1).integers(
        len(SPECIAL_TOKENS), vocabulary, size=(2, count, length - 1), dtype=np.int32
    )
    source = SourceCollator(settings.model_inputs)(list(sides[0]), range(count))
    batch = Batch(rows=tuple(range(count)), source=source, target=collate_target(list(sides[1])))
    seconds = []
    for _ in range(_MEASURED):
        began = time.process_time()
        optimizer.zero_grad()
        loss = model.loss(batch, label_smoothing=0.1)
        (loss.objective / loss.tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds[1:])


def _cleaning(languages: Sequence[str], filters: CleaningFilters | None, texts: Sequence[Path]) -> Cleaning:
    source, target = map(common_code, languages)
    settings = CleanPairs(source_language=source, target_language=target, filters=filters)
    return Cleaning(settings, *([text] for text in texts), cores=1)


def _pairs(cleaning: Cleaning) -> list[tuple[str, ...]]:
    return [pair for part in cleaning for _, pair in part]


def _found(
    name: str, pairs: Sequence[tuple[str, ...]], languages: Sequence[str], train: Sequence[tuple[str, ...]] = ()
) -> Iterator[str]:
    """Yield comments about a text: pairs, words of a sentence, and its overlap with the training text."""
    for language, side in zip(languages, zip(*pairs, strict=True), strict=True):
        lengths = _lengths(language, side)
        words = f"{statistics.fmean(lengths):.1f} words, at most {max(lengths)}"
        yield f"# {name}, {language}: {len(side):,} sentences of {words}"
    if train:
        shared = len(set(pairs) & set(train))
        sources = len({pair[0] for pair in pairs} & {pair[0] for pair in train})
        yield f"# {name} shares {shared:,} pairs and {sources:,} sources with train"
        if shared > MAX_SHARE * len(pairs):
            of_pairs = f"{shared:,} of {len(pairs):,} pairs with train, and the run refuses more than {MAX_SHARE:.0%}"
            log.warning("phrasemt init: warning: --%s shares %s; next: take other texts", name, of_pairs)


def _lengths(language: str, lines: Iterable[str]) -> list[int]:
    return list(map(WrittenLanguage(common_code(language)).words, lines))


def _counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items()) or "none"


def _pair(texts: Sequence[Path]) -> str:
    source, target = (json.dumps(str(path), ensure_ascii=False) for path in texts)
    return f"{{source: {source}, target: {target}}}"
