"""Cutting a source sentence into phrases: the stage `extract_phrases`.

A segmentation is the increasing ends of its phrases; a phrase begins where the last one ended and the last end is the
sentence's number of encoder positions (`</s>` included).

Phrases from a tree are those of algorithm 1 of Xu et al. (2020) as docs/syntax.md restates it. What remains of a
sentence is always its beginning, so nothing is removed from the tree: above the last remaining token, a node that
begins at start(v) has the remaining size e - start(v) when e positions remain.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.columns import Lists, write_columns
from phrasemt.config import PhraseSegmentation
from phrasemt.errors import DamagedFileError, DataError
from phrasemt.lines import Block, read_lines, read_parallel_blocks
from phrasemt.parallel import map_in_order
from phrasemt.settings import PhrasesSettings
from phrasemt.syntax.annotations import Annotation, Annotations
from phrasemt.syntax.ngrams import ngram_ends, phrase_tokens
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.words import offsets_of_block, row_numbers

log = logging.getLogger("phrasemt.extract_phrases")

_LINES_PER_CHUNK = 8192


# --------------------------------------------------------------------------------------------------------- algorithm 1


@dataclass(frozen=True, slots=True)
class Nodes:
    """A tree over positions, as algorithm 1 reads it.

    parents, starts, depths: of each node the node above it, its first position and its level. Node 0 stands above the
    root and never fits into a phrase; node 1 is the root, at level 0. leaves: the lowest node above each position.
    """

    parents: list[int]
    starts: list[int]
    depths: list[int]
    leaves: list[int]


_ABOVE_ALL = -(1 << 60)  # start of node 0


def tree_nodes(text: str, offsets: Sequence[int]) -> Nodes:
    """The nodes of a tree in the short text of `phrasemt.syntax.trees`, with subwords hung under their words.

    offsets: first position of each word, and at the end the number of positions. A word of one subword stays a leaf;
    the subwords of a longer one become nodes below its own. With offsets 0, 1, 2, ... positions are words.
    Raises ValueError when the tree does not have as many leaves as there are words, or its brackets do not match.
    """
    parents, starts, depths, leaves = [0], [_ABOVE_ALL], [-1], []
    node = word = start = 0
    depth = 0  # of the next node
    try:
        for piece in text.split(" "):
            if piece[0] == "(":
                parents.append(node)
                starts.append(start)
                depths.append(depth)
                node = len(parents) - 1
                depth += 1
                continue
            word += 1
            end = offsets[word]
            if end == start + 1:
                leaves.append(node)
            else:
                for position in range(start, end):
                    leaves.append(len(parents))
                    parents.append(node)
                    starts.append(position)
                    depths.append(depth)
            start = end
            for _ in range(len(piece) - len(piece.rstrip(")"))):
                node = parents[node]
                depth -= 1
    except IndexError:
        word = -1
    if depth or parents.count(0) != 2 or word != len(offsets) - 1:  # below node 0 there are itself and the root
        raise ValueError(f"not a tree over {len(offsets) - 1} words: {text[:80]}")
    return Nodes(parents, starts, depths, leaves)


def hang_end(nodes: Nodes) -> Nodes:
    """`</s>`, one position more, as the root's last child; changes the nodes and returns them."""
    nodes.parents.append(1)
    nodes.starts.append(len(nodes.leaves))
    nodes.depths.append(1)
    nodes.leaves.append(len(nodes.parents) - 1)
    return nodes


def phrase_ends(nodes: Nodes, size: int) -> list[int]:
    """Algorithm 1: the ends of the phrases of a tree, none of them longer than size >= 1."""
    parents, starts, depths, leaves = nodes.parents, nodes.starts, nodes.depths, nodes.leaves
    ends = []
    end = len(leaves)
    while end:
        ends.append(end)
        node = leaves[end - 1]
        # The highest node on the right edge of what remains that fits.
        while end - starts[parents[node]] <= size:
            node = parents[node]
        level = depths[node]
        room = size - end + starts[node]
        end = starts[node]
        # Its neighbours of the same level, from right to left, while they fit.
        while room and end:
            node = leaves[end - 1]
            while depths[node] > level and end - starts[node] <= room:
                node = parents[node]
            if depths[node] != level or end - starts[node] > room:
                break
            room += starts[node] - end
            end = starts[node]
    ends.reverse()
    return ends


# ---------------------------------------------------------------------------------------------------------- segmenters


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a segmenter may look at.

    offsets: position of each word's first subword, then that of `</s>`; key: of its tokens; tree: its parse, if the
    segmentation needs one; given: the user's ends of phrases in words, if there are any.
    """

    offsets: list[int]
    key: bytes
    tree: str
    given: Sequence[int]

    @property
    def words(self) -> int:
        return len(self.offsets) - 1

    @property
    def length(self) -> int:
        """Encoder positions, `</s>` included."""
        return self.offsets[-1] + 1

    def random(self, settings: PhraseSegmentation) -> random.Random:
        """Random numbers of the seed and of what the sentence says, wherever it stands."""
        digest = blake2b(self.key, key=settings.seed.to_bytes(8, "big"), digest_size=8).digest()
        return random.Random(int.from_bytes(digest, "big"))


def _ngram(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    ends: list[int] = ngram_ends(sentence.length, settings).tolist()
    return ends


def _parse(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return _cut_tree(sentence.tree, sentence, settings)


def _random(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return _cut_tree(random_tree(sentence.words, sentence.random(settings)), sentence, settings)


def _right(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return _cut_tree(right_tree(sentence.words), sentence, settings)


def _shuffled(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    ends = _parse(sentence, settings)
    lengths = [end - start for start, end in itertools.pairwise([0, *ends])]
    # Of Python's generators only random() gives the same numbers in every version.
    numbers = sentence.random(settings)
    return list(itertools.accumulate(sorted(lengths, key=lambda _: numbers.random())))


def _given(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    return [*(sentence.offsets[end] for end in sentence.given[:-1]), sentence.length]


Segmenter = Callable[[Sentence, PhraseSegmentation], Sequence[int]]

SEGMENTERS: Mapping[str, Segmenter] = {
    "ngram": _ngram,
    "parse": _parse,
    "random": _random,
    "right": _right,
    "shuffled": _shuffled,
    "given": _given,
}


def _cut_tree(tree: str, sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    size = phrase_tokens(sentence.length, settings)
    if settings.parse_unit == "subword":
        return phrase_ends(hang_end(tree_nodes(tree, sentence.offsets)), size)
    *ends, _ = phrase_ends(hang_end(tree_nodes(tree, range(sentence.words + 1))), size)
    return [*(sentence.offsets[end] for end in ends), sentence.length]


def right_tree(words: int) -> str:
    """The tree over words >= 1 in which each word is followed by the tree of all words after it."""
    if words == 1:
        return "(X (W 0))"
    return " ".join(f"(X (W {word})" for word in range(words - 1)) + f" (W {words - 1})" + ")" * (words - 1)


def random_tree(words: int, numbers: random.Random) -> str:
    """A binary tree over words >= 1 in which every place to cut a span in two is as likely as any other."""
    pieces = []
    waiting = [(0, words, 0)]  # span and how many brackets close after it; a stack, from left to right
    while waiting:
        start, end, closing = waiting.pop()
        if end - start == 1:
            pieces.append(f"(W {start}){')' * closing}")
            continue
        middle = start + 1 + int(numbers.random() * (end - start - 1))
        pieces.append("(X")
        waiting += [(middle, end, closing + 1), (start, middle, 0)]
    tree = " ".join(pieces)
    return tree if words > 1 else f"(X {tree})"


# --------------------------------------------------------------------------------------------------------------- stage


@dataclass(frozen=True)
class _Chunk:
    """Some lines of a split. given: the user's phrases of each, if there are any."""

    rows: list[int]
    tokens: Block
    subwords: Block
    given: list[str] | None


@dataclass(frozen=True)
class _Cut:
    """Their phrases, and the sentences that were cut into n-grams for want of a parse, by reason."""

    rows: NDArray[np.int64]
    ends: Lists
    fallbacks: Counter[str]


def extract_phrases(
    *,
    settings: PhrasesSettings,
    cores: int,
    rows: Path,
    tokens: Path,
    subwords: Path,
    parses: list[Path],
    given: list[Path],
    phrases: Path,
) -> None:
    """Write the ends of each sentence's phrases, in encoder positions, as column `ends` over the rows of a split.

    A sentence without the parse that its segmentation needs is cut into n-grams. Phrases depend on the sentence, its
    parse and the settings alone. Raises DataError naming file and line when rows do not increase, when words and
    subwords do not belong together, or when the user's phrases do not fit their sentence; DamagedFileError for a parse
    that is no tree over its sentence.
    """
    segmentation = settings.segmentation
    for name, paths, needed in (
        ("--parses", parses, segmentation.needs_parses),
        ("--given", given, segmentation.mode == "given"),
    ):
        if needed and not paths:
            raise DataError(
                f"segmentation {segmentation.name} needs {name}, and there is no file", where="extract_phrases"
            )
    cuts = map_in_order(
        _cut_chunk,
        _read_chunks(rows, tokens, subwords, given),
        jobs=cores,
        prepare=_Cutter,
        arguments=(segmentation, parses, given),
    )
    phrase_count, fallbacks = 0, Counter[str]()

    def chunks() -> Iterator[tuple[NDArray[np.int64], dict[str, Lists]]]:
        nonlocal phrase_count
        for cut in cuts:
            phrase_count += len(cut.ends.values)
            fallbacks.update(cut.fallbacks)
            yield cut.rows, {"ends": cut.ends}

    description = {"segmentation": segmentation.model_dump(mode="json")}
    sentences = write_columns(phrases, columns=["ends"], description=description, chunks=chunks())
    log.info("extract_phrases: %s: %s sentences, %s phrases", segmentation.name, f"{sentences:,}", f"{phrase_count:,}")
    for reason, count in fallbacks.most_common():
        log.info("extract_phrases: %s sentences cut into n-grams: %s", f"{count:,}", reason)


def _read_chunks(rows: Path, tokens: Path, subwords: Path, given: Sequence[Path]) -> Iterator[_Chunk]:
    user_lines = itertools.chain.from_iterable(map(read_lines, given))
    last = -1
    for blocks in read_parallel_blocks(rows, tokens, subwords, lines=_LINES_PER_CHUNK):
        numbers = row_numbers(blocks[0], after=last)
        # The user's file has a line for every raw pair, also for those that were dropped.
        steps = itertools.pairwise([last, *numbers])
        lines = [line for row, after in steps for line in itertools.islice(user_lines, after - row - 1, after - row)]
        if given and len(lines) < len(numbers):
            raise DataError(
                "phrases are missing at the end",
                where=given[-1],
                expected=f"a line for each of {numbers[-1] + 1} raw pairs",
                next_step="give the ends of phrases of every raw sentence, also of dropped ones",
            )
        yield _Chunk(numbers, blocks[1], blocks[2], lines if given else None)
        last = numbers[-1]


class _Cutter:
    """A segmentation with what it needs, as `map_in_order` prepares it in each process."""

    def __init__(self, settings: PhraseSegmentation, parses: Sequence[Path], given: Sequence[Path]) -> None:
        self.settings = settings
        self.parses = Annotations.open(parses) if settings.needs_parses else None
        self.given = ", ".join(map(str, given))

    def trees(self, keys: Sequence[bytes]) -> list[Annotation | None]:
        return self.parses.find(keys) if self.parses else [Annotation("", None)] * len(keys)


def _cut_chunk(cutter: _Cutter, chunk: _Chunk) -> _Cut:
    settings = cutter.settings
    segment = SEGMENTERS[settings.mode]
    ends: list[int] = []
    lengths: list[int] = []
    fallbacks: Counter[str] = Counter()
    lines, offsets = offsets_of_block(chunk.tokens, chunk.subwords)
    keys = [sentence_key(parser_tokens(line)) for line in lines]
    given = (
        [
            _given_ends(line, len(of_line) - 1, f"{cutter.given}, line {row + 1}")
            for row, line, of_line in zip(chunk.rows, chunk.given, offsets, strict=True)
        ]
        if chunk.given is not None
        else [()] * len(lines)
    )
    for number, (key, annotation) in enumerate(zip(keys, cutter.trees(keys), strict=True)):
        tree = annotation.text if annotation else None
        sentence = Sentence(offsets[number], key, tree or "", given[number])
        if sentence.length == 1:
            found: Sequence[int] = [1]
        elif tree is None:
            fallbacks[reason_of(annotation)] += 1
            found = _ngram(sentence, settings)
        else:
            try:
                found = segment(sentence, settings)
            except ValueError as error:
                raise damaged_parse(f"{chunk.tokens.path}, line {chunk.tokens.first + number}", error) from None
        lengths.append(len(found))
        ends += found
    return _Cut(np.array(chunk.rows, np.int64), Lists(np.array(lengths, np.int32), np.array(ends, np.int32)), fallbacks)


def reason_of(annotation: Annotation | None) -> str:
    """Why a sentence has no parse."""
    return (annotation.failure if annotation else None) or "not parsed"


def damaged_parse(where: str, error: Exception) -> DamagedFileError:
    """The error for a parse that is none of its sentence."""
    return DamagedFileError(
        "the parse is no tree over this sentence",
        where=where,
        found=error,
        next_step="delete the parses of this data set and run again",
    )


def _given_ends(line: str, words: int, where: str) -> list[int]:
    ends = [int(end) if end.isascii() and end.isdigit() else -1 for end in line.split(" ")] if line else []
    if any(end <= start for start, end in itertools.pairwise([0, *ends])) or (ends[-1] if ends else 0) != words:
        raise DataError(
            "these are no phrases of the sentence",
            where=where,
            expected=f"increasing ends, the last of them {words}" if words else "an empty line",
            found=repr(line[:80]),
            next_step="give the ends of phrases in words, with spaces between them",
        )
    return ends
