"""The stage `compare_splits`: what dev and test sets share with the texts that systems learn from.

A score says little about new sentences when the sentences of the test set stand in train, or when dev, which selects
checkpoints, is the test set. Nor does it if one of the texts was tokenised before and the others were not, if a
reference is missing. Real corpora share a few short sentences between splits.

Texts that do not belong together fail nowhere either: a text in lower case, without punctuation, with other letters or
with entities; sides that are exchanged, or shifted by lines against each other (`doubts`). All measures are shares of
lines, so real texts of one origin agree, and a warning names both shares.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from phrasemt.artefacts.corpus import ComparedSplits, Shared, SplitCounts
from phrasemt.errors import DataError
from phrasemt.files.lines import count_lines, read_lines, read_parallel
from phrasemt.files.preprocessing import Preprocessing, check_same_preprocessing, comparable
from phrasemt.languages import FREQUENT_WORDS
from phrasemt.stages.corpus import CompareSplits
from phrasemt.symbols import LONGEST_SENTENCE

log = logging.getLogger("phrasemt.corpus.compare_splits")

MAX_SHARE = 0.1  # of pairs, sources or targets

Pair = tuple[str, str]


def compare_splits(
    *,
    settings: CompareSplits,
    cores: int,
    train_source: Path,
    train_target: Path,
    sources: list[Path],
    targets: list[Path],
    references: list[Path],
    source_subwords: list[Path],
    target_subwords: list[Path],
    counts: Path,
) -> None:
    """Count what dev and the test sets share with train, and the test sets with dev, and their unusual lines.

    sources, targets: the cleaned texts of the splits in `settings.splits`, dev first. source_subwords, target_subwords:
    the same texts as models read them. references: the further references of the splits, as many as
    `settings.references` says. Both sides of a monolingual text are one file. Sentences are equal if they have the same
    characters, composed or not. Memory grows with the dev and test sets, and not with train.

    Raises DataError if more than MAX_SHARE of the pairs or of a side of a split stand in train, or in dev, unless
    `settings.overlap` is "allowed"; for a sentence of which only some references are blank; and for texts of a side
    that are not prepared alike.
    """
    for texts in ((train_source, *sources), (train_target, *targets, *references)):
        check_same_preprocessing({str(path): Preprocessing.of(read_lines(path)) for path in texts})
    rest = iter(references)
    further = {name: [*islice(rest, n)] for name, n in zip(settings.splits, settings.references, strict=True)}
    held_out = {name: list(_pairs(*paths)) for name, *paths in zip(settings.splits, sources, targets, strict=True)}
    in_train = _shared(held_out, _pairs(train_source, train_target))
    has_sources = train_source != train_target
    in_dev = _shared(held_out, held_out["dev"])
    samples = {name: sample_of(*paths) for name, *paths in zip(settings.splits, sources, targets, strict=True)}
    named_doubts = [*doubts(samples | {"train": sample_of(train_source, train_target)}, settings.languages)]
    splits = {}
    for number, (name, pairs) in enumerate(held_out.items()):
        splits[name] = SplitCounts(
            pairs=len(pairs),
            in_train=in_train[name],
            in_dev=None if name == "dev" else in_dev[name],
            equal_sides=sum(source == target != "" for source, target in pairs),
            blank_sources=sum(not source for source, _ in pairs) if has_sources else 0,
            blank_targets=sum(not target for _, target in pairs) + _further_blanks(targets[number], further[name]),
            cut_sources=_too_long(source_subwords[number]) if has_sources else 0,
            cut_targets=_too_long(target_subwords[number]),
            doubts=[text for place, text in named_doubts if place == name]
            + [f"train: {text}" for place, text in named_doubts if (place, name) == ("train", "dev")]
            or None,
        )
        for doubt in splits[name].doubts or ():
            log.warning("compare_splits: warning: %s: %s", name, doubt)
        log.info("compare_splits: %s: %s", name, describe(splits[name], "pairs" if has_sources else "sentences"))
        if settings.overlap == "refused":
            _check_overlap(name, splits[name], sources[number])
    file = ComparedSplits(overlap=settings.overlap, splits=splits)
    file.write(counts)


def describe(counts: SplitCounts, unit: str = "pairs") -> str:
    """All counts of a split above 0, in words. unit: `sentences` of a monolingual text."""
    described = [
        f"{number:,} of {counts.pairs:,} {what} also in {split}"
        for split, shared in (("train", counts.in_train), ("dev", counts.in_dev))
        if shared is not None
        for what, number in shared
        if number
    ]
    others = {
        "pairs with equal sides": counts.equal_sides,
        "blank sources, whose translations are left empty": counts.blank_sources,
        "blank references": counts.blank_targets,
        f"sources cut after {LONGEST_SENTENCE:,} subwords": counts.cut_sources,
        f"references cut after {LONGEST_SENTENCE:,} subwords": counts.cut_targets,
    }
    described += [f"{number:,} {what}" for what, number in others.items() if number]
    described += counts.doubts or ()
    text = "; ".join(described) or f"{counts.pairs:,} pairs, nothing shared with other splits, no blank or cut lines"
    return text.replace("pairs", unit)


def _pairs(source: Path, target: Path) -> Iterator[Pair]:
    """The pairs of a text with composed letters; the source of a monolingual text is empty."""
    if source == target:
        yield from (("", comparable(line)) for line in read_lines(target))
    else:
        yield from (
            (comparable(source_line), comparable(target_line))
            for source_line, target_line in read_parallel(source, target)
        )


def _shared(held_out: Mapping[str, list[Pair]], others: Iterable[Pair]) -> dict[str, Shared]:
    """What each split shares with other pairs, which are read once."""
    all_pairs = {pair for pairs in held_out.values() for pair in pairs}
    all_sources, all_targets = ({pair[side] for pair in all_pairs} for side in (0, 1))
    pairs_found, sources_found, targets_found = set[Pair](), set[str](), set[str]()
    for pair in others:
        source, target = pair
        if pair in all_pairs:
            pairs_found.add(pair)
        if source in all_sources:
            sources_found.add(source)
        if target in all_targets:
            targets_found.add(target)
    return {
        name: Shared(
            pairs=sum(pair in pairs_found for pair in pairs if all(pair)),
            sources=sum(source in sources_found for source, _ in pairs if source),
            targets=sum(target in targets_found for _, target in pairs if target),
        )
        for name, pairs in held_out.items()
    }


def _further_blanks(first: Path, others: Sequence[Path]) -> int:
    """The blank lines of further references. Raises DataError if only some references of a sentence are blank."""
    blank = 0
    for number, lines in enumerate(read_parallel(first, *others) if others else (), start=1):
        if not all(lines) and any(lines):
            raise DataError(
                "a reference is blank, and BLEU would count it as the shortest one",
                where=f"{(first, *others)[lines.index('')]}, line {number}",
                expected="text in all references of a sentence, or in none",
                next_step="complete the references, or remove the sentence from all of them and from the source",
            )
        blank += len(others) if not any(lines) else 0
    return blank


def _too_long(path: Path) -> int:
    return sum(len(line.split()) > LONGEST_SENTENCE for line in read_lines(path))


def _check_overlap(name: str, counts: SplitCounts, where: Path) -> None:
    for other, shared in (("train", counts.in_train), ("dev", counts.in_dev)):
        for what, number in shared or ():
            if number > MAX_SHARE * counts.pairs:
                raise DataError(
                    f"{number / counts.pairs:.1%} of the {what} of {name} also stand in {other}, so scores on {name} "
                    "say little about new sentences",
                    where=where,
                    expected=f"at most {MAX_SHARE:.0%}",
                    found=f"{number:,} of {counts.pairs:,}",
                    next_step=f"take other texts for {name} or {other}, or cut one corpus with `partition`; "
                    "`overlap: allowed` in the data set lets the study run",
                )


_ENTITY = re.compile(r"&#?\w+;")
# Pairs of a block, whose neighbours show a shift, and blocks of a text, at equal distances.
_BLOCK, _BLOCKS = 500, 20
_LETTERS = 8  # the most frequent ones of each text
# A share of lines in one text, and the part of it that another text of this origin has at least. So many such lines are
# expected there that their absence is no chance.
_PART, _EXPECTED = 0.1, 12
_FREQUENT = 0.03  # part of the lines that hold a letter or a word
_SHIFTS = (-3, -2, -1, 1, 2, 3)
_MORE = 0.3  # by which the correlation of lengths is larger than without a shift

Sides = tuple[str, ...]  # the lines of a pair; one line in a monolingual text
_MEASURES: Mapping[str, tuple[float, Callable[[str], bool]]] = {
    "lines without a capital": (0.2, lambda line: line == line.lower() != line.upper()),
    "lines in capitals": (0.2, lambda line: line == line.upper() != line.lower()),
    "lines that end in no punctuation": (0.2, lambda line: line[-1:].isalnum()),
    "lines that end in punctuation": (0.2, lambda line: unicodedata.category(line[-1:] or " ")[0] == "P"),
    "lines with entities such as &uuml;": (0.03, lambda line: "&" in line and _ENTITY.search(line) is not None),
}


def sample_of(*sides: Path) -> list[Sides]:
    """At most 10,000 pairs of a parallel text, in blocks at equal distances; of one file, each line is both sides."""
    step = max(1, count_lines(sides[0]) // (_BLOCK * _BLOCKS))
    numbered = enumerate(read_parallel(*dict.fromkeys(sides)))
    taken = (pair for number, pair in numbered if number // _BLOCK % step == 0)
    return [*islice(taken, _BLOCK * _BLOCKS)]


def doubts(texts: Mapping[str, Sequence[Sides]], languages: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield what shows that texts do not belong together, as the name of a text and a sentence.

    texts: by name, the first of which the others are compared with; their first 10,000 pairs count. languages: of the
    sides, by whose frequent words exchanged sides are known if all texts have them.
    """
    texts = {
        name: [sides for pair in pairs[: _BLOCK * _BLOCKS] if all(sides := tuple(map(str.strip, pair)))]
        for name, pairs in texts.items()
    }
    (base_name, base), *others = texts.items()
    features = _sides_of_words(base)
    if _exchanged(base, _words_of_languages(languages)) > 1 - _PART:
        yield base_name, f"the source looks like {languages[1]} and the target like {languages[0]}, by frequent words"
    exchanged: dict[str, float] = {}
    for name, pairs in texts.items():
        exchanged[name] = share = _exchanged(pairs, features)
        if share > _PART:
            yield name, f"in {share:.0%} of its pairs the sides look exchanged, compared with {base_name}"
        if shift := _shift(pairs):
            yield name, f"the sides look shifted against each other by {abs(shift)} lines"
    for name, pairs in ((name, pairs) for name, pairs in others if exchanged[name] <= _PART):
        for side, role in enumerate(("source", "target")[: len(base[0])] if base and pairs else ()):
            lines, known = ([pair[side] for pair in part] for part in (pairs, base))
            for what, share, base_share in _differences(lines, known):
                yield name, f"{role}: {share:.1%} {what}, {base_share:.1%} in {base_name}"


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


def _sides_of_words(pairs: Sequence[Sides]) -> dict[str, int]:
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


def _words_of_languages(languages: Sequence[str]) -> dict[str, int]:
    """Frequent words of one language alone: 1 for the source, -1 for the target; none if they are not known of both."""
    if not {*languages} <= FREQUENT_WORDS.keys() or len({*languages}) < 2:
        return {}
    source, target = (FREQUENT_WORDS[language] for language in languages)
    return dict.fromkeys(source - target, 1) | dict.fromkeys(target - source, -1)


def _exchanged(pairs: Sequence[Sides], features: Mapping[str, int]) -> float:
    """The share of exchanged pairs among those whose sides both hold words of one side only."""
    if not features:
        return 0.0
    votes = ([sum(features.get(word, 0) for word in _words(line)) for line in pair] for pair in pairs)
    agrees = Counter(source > 0 for source, target in votes if source * target < 0)
    return agrees[False] / agrees.total() if agrees.total() >= _EXPECTED else 0.0


def _shift(pairs: Sequence[Sides]) -> int:
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
        if (shifted := float(np.corrcoef(source[:count], target[:count])[0, 1])) > correlation:
            best, correlation = shift, shifted
    return best
