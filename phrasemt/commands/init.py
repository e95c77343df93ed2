"""`phrasemt init STUDY`: write a commented study for own texts, with what cleaning finds in them."""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from phrasemt.commands._arguments import Output
from phrasemt.corpus.clean import WrittenLanguage, survey
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.stages.corpus import CleanPairs
from phrasemt.study.datasets import CleaningFilters
from phrasemt.study.tokenization import common_code, problem_of_language

log = logging.getLogger("phrasemt.init")

_LARGE = 100_000  # pairs from which the sizes of the papers fit
_FEW = 20_000  # pairs below which thousands of merges make rare subwords
_EPOCHS, _WORDS_PER_UPDATE = 30, 1500
_SMALL_MODEL = """\
    model: &model {{family: transformer, encoder_layers: 3, decoder_layers: 3, width: 256, heads: 4, ffn_width: 1024}}
    training: &training
      tokens_per_update: 2000
      max_updates: {updates}  # about 30 times the training text
      optimizer: {{warmup: {warmup}, factor: {factor:.2f}}}  # the learning rate grows for {warmup} updates, to 0.001
      evaluate_every: {tenth}
      checkpoint_every: {twentieth}"""
_LARGE_MODEL = """\
    preset: xu-base  # base of Vaswani et al. (2017): 6 + 6 layers, width 512, 100,000 updates of 25,000 tokens
    model: &model {family: transformer}
    training: &training {}"""


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
        "--languages", nargs=2, metavar=("SOURCE", "TARGET"), help="codes (default: the ends of the names of the texts)"
    )


def run(options: argparse.Namespace) -> None:
    """Write the study. Raises PhrasemtError for an existing file and unknown languages, DataError for unfit texts."""
    if options.study.exists():
        raise PhrasemtError("the file exists", where=options.study, next_step="name another file, or remove this one")
    languages = options.languages or [path.suffix.removeprefix(".") for path in options.train]
    for language in languages:
        if problem := problem_of_language(language):
            raise PhrasemtError(problem, where=language, next_step="give both with --languages, e.g. --languages en de")
    write_text(options.study, "\n".join(_lines(options, languages)) + "\n")
    log.info("phrasemt init: %s; next: phrasemt check %s, then make study STUDY=%s", *[options.study] * 3)


def _lines(options: argparse.Namespace, languages: Sequence[str]) -> Iterator[str]:
    source, target = languages
    dropped, train = survey(_cleaning(languages, CleaningFilters()), *options.train)
    held_out = {name: texts for name in ("dev", "test") if (texts := getattr(options, name))}
    read = {name: survey(_cleaning(languages, None), *texts)[1] for name, texts in held_out.items()}
    yield "# Written by `phrasemt init`. config/README.md explains every key."
    yield f"study: {re.sub(r'[^a-zA-Z0-9_+-]', '-', options.study.stem)}"
    yield "seeds: [1]  # of each system; one training proves little, three show what the choice of a seed does"
    yield ""
    yield "datasets:"
    yield "  texts:"
    yield f"    source_language: {source}"
    yield f"    target_language: {target}"
    yield "    splits:"
    yield from (f"      {line}" for line in _found("train", train, languages))
    yield f"      # the filters (`cleaning`) drop {sum(dropped.values()):,} more: {_counted(dropped)}"
    yield f"      train: [{_pair(options.train)}]"
    if "dev" in read:
        yield from (f"      {line}" for line in _found("dev", read["dev"], languages, train))
        yield f"      dev: [{_pair(options.dev)}]"
    else:
        yield f"      dev: {{sample: {min(1000, max(1, len(train) // 20))}}}  # pairs that leave train"
    yield from (f"      {line}" for line in _found("test", read["test"], languages, train))
    yield f"      test: {{test: [{_pair(options.test)}]}}"
    large = len(train) >= _LARGE
    merges = 32_000 if large else 8_000 if len(train) >= _FEW else 2_000
    yield f"    subwords: {{merges: {merges}}}  # learned on both languages together"
    yield ""
    yield "systems:"
    yield "  base:  # the first system is the baseline"
    yield "    title: Transformer"
    yield _LARGE_MODEL if large else _small_model(sum(_lengths(target, (pair[1] for pair in train))))
    yield "  phrases:"
    yield "    title: Transformer + phrases (Xu et al. 2020)"
    if large:
        yield "    preset: xu-paper"
    yield "    model: {<<: *model, family: phrase_representation, pool: attn, ta: on}"
    yield "    training: *training"


def _small_model(words: int) -> str:
    """The settings for a text with this number of words on its target side."""
    updates = min(5000, max(500, round(_EPOCHS * words // _WORDS_PER_UPDATE, -2)))
    warmup = updates // 5
    # the peak is factor / sqrt(width * warmup)
    rate = {"warmup": warmup, "factor": 0.001 * (256 * warmup) ** 0.5}
    return _SMALL_MODEL.format(updates=updates, tenth=updates // 10, twentieth=updates // 20, **rate)


def _cleaning(languages: Sequence[str], filters: CleaningFilters | None) -> CleanPairs:
    source, target = map(common_code, languages)
    return CleanPairs(source_language=source, target_language=target, filters=filters)


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


def _lengths(language: str, lines: Iterable[str]) -> list[int]:
    return list(map(WrittenLanguage(common_code(language)).words, lines))


def _counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items()) or "none"


def _pair(texts: Sequence[Path]) -> str:
    source, target = (json.dumps(str(path), ensure_ascii=False) for path in texts)
    return f"{{source: {source}, target: {target}}}"
