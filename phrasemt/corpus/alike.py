"""What shows that the texts of a data set do not belong together: a text in lower case, without punctuation, with other
letters or with entities; sides that are exchanged, or shifted by lines against each other.

Nothing fails then: the models learn from one text and are tested on another. All measures are shares of lines, so real
texts of one origin agree, and a warning names both shares.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from phrasemt.files.lines import count_lines, read_parallel

_ENTITY = re.compile(r"&#?\w+;")
# Pairs of a block, whose neighbours show a shift, and blocks of a text, at equal distances.
_BLOCK, _BLOCKS = 500, 20
_LETTERS = 8  # the most frequent ones of each text
# A share of lines in one text, and the part of it that another text of this origin has at least. So many such lines are
# expected there that their absence is no chance.
_PART, _EXPECTED = 0.1, 12
_FREQUENT = 0.03  # part of the lines that hold a letter or a word
_SHIFTS = (-3, -2, -1, 1, 2, 3)
_MORE = 0.3  # by which the correlation of lengths is larger than with the lines as they stand

Pair = tuple[str, ...]
_MEASURES: Mapping[str, tuple[float, Callable[[str], bool]]] = {
    "lines without a capital": (0.2, lambda line: line == line.lower() != line.upper()),
    "lines in capitals": (0.2, lambda line: line == line.upper() != line.lower()),
    "lines that end in no punctuation": (0.2, lambda line: line[-1:].isalnum()),
    "lines that end in punctuation": (0.2, lambda line: unicodedata.category(line[-1:] or " ")[0] == "P"),
    "lines with entities such as &uuml;": (0.03, lambda line: "&" in line and _ENTITY.search(line) is not None),
}


def sample_of(*sides: Path) -> list[Pair]:
    """At most 10,000 pairs of a parallel text, in blocks at equal distances; of one file, each line is both sides."""
    step = max(1, count_lines(sides[0]) // (_BLOCK * _BLOCKS))
    numbered = enumerate(read_parallel(*dict.fromkeys(sides)))
    taken = (pair for number, pair in numbered if number // _BLOCK % step == 0)
    return [*islice(taken, _BLOCK * _BLOCKS)]


def doubts(texts: Mapping[str, Sequence[Pair]]) -> Iterator[tuple[str, str]]:
    """Yield what shows that texts do not belong together, as the name of a text and a sentence.

    texts: by name, the first of which the others are compared with; their first 10,000 pairs count.
    """
    texts = {name: [pair for pair in pairs[: _BLOCK * _BLOCKS] if all(pair)] for name, pairs in texts.items()}
    (first, base), *others = texts.items()
    features = _sides_of_words(base)
    for name, pairs in texts.items():
        if (share := _exchanged(pairs, features)) > _PART:
            yield name, f"in {share:.0%} of its pairs the sides look exchanged, compared with {first}"
        if shift := _shift(pairs):
            yield name, f"the sides look shifted against each other by {abs(shift)} lines"
    for name, pairs in others:
        for side, role in enumerate(("source", "target")[: len(base[0])] if base and pairs else ()):
            lines, known = ([pair[side] for pair in part] for part in (pairs, base))
            for what, one, other in _differences(lines, known):
                yield name, f"{role}: {one:.1%} {what}, {other:.1%} in {first}"


def _differences(lines: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    shares = [
        {what: sum(map(holds, part)) / len(part) for what, (_, holds) in _MEASURES.items()} for part in (lines, others)
    ]
    letters = [Counter(letter for line in part for letter in _letters(line)) for part in (lines, others)]
    least = {what: share for what, (share, _) in _MEASURES.items()}
    for letter in dict.fromkeys(letter for counts in letters for letter, _ in counts.most_common(_LETTERS)):
        what = f"lines with U+{ord(letter):04X} {unicodedata.name(letter, '')}".rstrip()
        least[what] = _FREQUENT
        for share, counts, part in zip(shares, letters, (lines, others), strict=True):
            share[what] = counts[letter] / len(part)
    fewest = min(len(lines), len(others))
    for what, frequent in least.items():
        low, high = sorted(share[what] for share in shares)
        if high >= frequent and low <= _PART * high and high * fewest >= _EXPECTED:
            yield what, shares[0][what], shares[1][what]


def _letters(line: str) -> set[str]:
    return (
        set() if line.isascii() else {char for char in line if char > "\x7f" and unicodedata.category(char)[0] in "LM"}
    )


def _words(line: str) -> set[str]:
    """The words of a line, and its letters that are not ASCII, for languages without spaces."""
    return {*line.lower().split(), *_letters(line)}


def _sides_of_words(pairs: Sequence[Pair]) -> dict[str, int]:
    """Words that one side has in many lines and the other one hardly has: 1 for the source, -1 for the target."""
    if not pairs or len(pairs[0]) < 2:
        return {}
    source, target = (Counter(word for pair in pairs for word in _words(pair[side])) for side in (0, 1))
    frequent = [
        (word, sign)
        for own, other, sign in ((source, target, 1), (target, source, -1))
        for word, count in own.items()
        if count >= max(_EXPECTED, _FREQUENT * len(pairs)) and other[word] <= _PART * count
    ]
    return dict(frequent)


def _exchanged(pairs: Sequence[Pair], features: Mapping[str, int]) -> float:
    """The share of exchanged pairs among those whose sides both hold words of one side only."""
    if not features:
        return 0.0
    votes = ([sum(features.get(word, 0) for word in _words(line)) for line in pair] for pair in pairs)
    found = Counter(source > 0 for source, target in votes if source * target < 0)
    return found[False] / found.total() if found.total() >= _EXPECTED else 0.0


def _shift(pairs: Sequence[Pair]) -> int:
    """By how many lines the sides are shifted, as the correlation of their lengths shows it; 0 if they are not."""
    if len(pairs) < 100 or len(pairs[0]) < 2:
        return 0
    lengths = np.log([[len(line) for line in pair] for pair in pairs])
    if not lengths.std(axis=0).all():
        return 0
    best, correlation = 0, float(np.corrcoef(lengths.T)[0, 1]) + _MORE
    for shift in _SHIFTS:
        source, target = lengths[max(0, shift) :, 0], lengths[max(0, -shift) :, 1]
        count = min(len(source), len(target))
        if (found := float(np.corrcoef(source[:count], target[:count])[0, 1])) > correlation:
            best, correlation = shift, found
    return best
