"""`phrasemt tree`: the parse of a source sentence, its phrases by every segmentation, and the chunks of its target."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.files.columns import ColumnFile
from phrasemt.study.schema import Side
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.store.annotations import Annotations
from phrasemt.syntax.trees import Tree, parse_tree
from phrasemt.verbs import _pair
from phrasemt.workflow.flow import model_text_of, source_parses

_END = "</s>"


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("tree", help="draw the parse, the phrases and the chunks of a sentence")
    _pair.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints what there is of a pair; raises PhrasemtError for a pair that is not there."""
    pair = _pair.chosen_pair(options)
    tokens = pair.paths.tokens.at(split=pair.split, language=pair.study.datasets[pair.dataset].source_language)
    for line in _parse(pair, _pair.nth(Path(tokens), pair.line)):
        print(line)
    subwords = _subwords(pair, "source")
    for segmenter in pair.study.segmentations:
        path = Path(pair.paths.phrases.at(segmenter=segmenter, split=pair.split))
        if path.exists():
            ends = ColumnFile.open(path, ["ends"]).values("ends", pair.line).tolist()
            print(f"\nphrases: {segmenter}\n  {_bracketed([*subwords, _END], ends)}")
    path = Path(pair.paths.chunks.at(split=pair.split))
    if path.exists():
        subwords = _subwords(pair, "target")
        columns = ColumnFile.open(path, ["starts", "labels"])
        _, *ends = columns.values("starts", pair.line).tolist()
        labels = [columns.description["labels"][label] for label in columns.values("labels", pair.line)]
        print(f"\nchunks of the target\n  {_bracketed([*subwords, _END], [*ends, len(subwords) + 1], labels)}")


def _subwords(pair: _pair.Pair, side: Side) -> list[str]:
    line = _pair.nth(Path(model_text_of(pair.study, pair.dataset, side).at(split=pair.split)), pair.line)
    return [*filter(None, line.split(" "))]


def _parse(pair: _pair.Pair, tokens: str) -> Iterator[str]:
    paths = [Path(file) for file in source_parses(pair.study, pair.dataset, pair.split)]
    words = parser_tokens(tokens)
    if not (words and paths and all(path.exists() for path in paths)):
        yield " ".join(words)
        return
    annotations = Annotations.open(paths)
    (annotation,) = annotations.find([sentence_key(words)])
    if annotation is None or annotation.text is None:
        yield f"{' '.join(words)}\n  no parse: {annotation.failure if annotation else 'not among these'}"
        return
    yield from draw(parse_tree(annotation.text, paths[0]), words)


def draw(tree: Tree, words: list[str]) -> Iterator[str]:
    """A line for every node, the branches to the left of it; a leaf says its word."""
    waiting: list[tuple[Tree, str, str]] = [(tree, "", "")]  # node, what stands before it, and before what is below it
    while waiting:  # no recursion: trees of long sentences are deep
        node, before, below = waiting.pop()
        if node.word is not None:
            yield f"{before}{node.label} {words[int(node.word)]}"
            continue
        yield f"{before}{node.label}"
        last = len(node.children) - 1
        waiting += [
            (child, f"{below}{'└─ ' if number == last else '├─ '}", f"{below}{'   ' if number == last else '│  '}")
            for number, child in reversed([*enumerate(node.children)])
        ]


def _bracketed(subwords: list[str], ends: list[int], labels: list[str] | None = None) -> str:
    spans = [" ".join(subwords[start:end]) for start, end in itertools.pairwise([0, *ends])]
    named = [f"{label} {span}" for label, span in zip(labels, spans, strict=True)] if labels else spans
    return " ".join(f"[{span}]" for span in named)
