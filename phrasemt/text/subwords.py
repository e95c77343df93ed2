"""The stages `learn_subwords` and `apply_subwords`, joint byte-pair encoding by subword-nmt (Sennrich et al. 2016), and
`build_vocabulary`, the ids of the subwords of the training text.

The first two write the files of subword-nmt's commands `learn-joint-bpe-and-vocab` and `apply-bpe`, byte for byte.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.files.parallel import convert_lines, count_tokens
from phrasemt.stages.subwords import ApplySubwords, BuildVocabulary, LearnSubwords
from phrasemt.symbols import SEPARATOR, SPECIAL_TOKENS

log = logging.getLogger("phrasemt.subwords")

_VERSION = "#version: 0.2"
# Size of the cache of a process in words (about 100 MB). A full cache is emptied.
_REMEMBERED_WORDS = 1 << 19


def learn_subwords(
    *,
    settings: LearnSubwords,
    cores: int,
    source: Path,
    target: Path,
    codes: Path,
    source_counts: Path,
    target_counts: Path,
    given: Sequence[Path] = (),
) -> None:
    """Learn merges on the words of both sides together, and count the resulting subwords of each side.

    source, target: one file of a monolingual text, whose words are counted once.
    given: codes and counts of both sides, which are taken over in place of that; or nothing.
    Raises DataError if there are no words, DamagedFileError for given files of another kind.
    """
    if given:
        given_codes, *given_counts = given
        _read_merges(given_codes)
        for path, output in zip((given_codes, *given_counts), (codes, source_counts, target_counts), strict=True):
            write_lines(output, read_lines(path))
        log.info("learn_subwords: took the subwords of %s", given_codes.parent)
        return
    sides = {source: source_counts, target: target_counts}
    words = [count_tokens(side, cores=cores) for side in sides]
    together = sum(words, Counter[str]())
    if not together:
        raise DataError(
            "no words to learn subwords from", where=", ".join(map(str, sides)), next_step="check the training text"
        )
    wanted = settings.merges or 0
    if settings.symbols is not None:
        # subword-nmt tells apart a character at the end of a word from the same one before it.
        characters = len({char for word in together for char in word[:-1]}) + len({word[-1] for word in together})
        wanted = settings.symbols - characters
        if wanted < 1:
            raise DataError(
                "no symbols are left for merges",
                where="subwords.symbols",
                expected=f"more than the {characters:,} characters of the text",
                found=settings.symbols,
                next_step="ask for more symbols",
            )
    merges = _learn_merges(together, wanted)
    write_lines(codes, [_VERSION, *merges])
    cutter = _SubwordCutter(merges, vocabulary=None)
    types = 0
    # Subwords first appear in the order of the words that contain them, so the text is not read a second time.
    for words_of_side, path in zip(words, sides.values(), strict=True):
        counts: Counter[str] = Counter()
        for word, frequency in words_of_side.items():
            for subword in cutter[word].split(" "):
                counts[subword] += frequency
        types += write_lines(path, (f"{subword} {count}" for subword, count in counts.most_common()))
    learned = f"{len(merges):,} of {wanted:,} merges from {len(together):,} word types"
    log.info("learn_subwords: learned %s; %s subword types", learned, f"{types:,}")


def apply_subwords(
    *, settings: ApplySubwords, cores: int, tokens: Path, codes: Path, counts: Path, subwords: Path
) -> None:
    """Cut each token into subwords. Subwords that are rarer than the threshold in train are cut further."""
    arguments = (_read_merges(codes), _read_vocabulary(counts, settings.vocabulary_threshold))
    lines, count = convert_lines(tokens, subwords, cores=cores, prepare=_SubwordCutter, arguments=arguments)
    log.info("apply_subwords: %s lines, %s subwords", f"{lines:,}", f"{count:,}")


def subword_cutter(codes: Path, counts: Path, threshold: int) -> Callable[[str], str]:
    """A function from a line of tokens to its subwords; every subword of a word but the last one ends in `@@`.

    threshold: `vocabulary_threshold` of the study. Raises DamagedFileError if codes or counts are not files of
    `learn_subwords`.
    """
    return _SubwordCutter(_read_merges(codes), _read_vocabulary(counts, threshold))


def join_subwords(line: str) -> str:
    """The tokens of a line of subwords. A `@@` at the end of the line is removed, too."""
    return line.replace(f"{SEPARATOR} ", "").removesuffix(SEPARATOR)


class _SubwordCutter(dict[str, str]):
    """A cache of subword-nmt's segmentation: word -> its subwords, separated by spaces."""

    def __init__(self, merges: Sequence[str], vocabulary: set[str] | None) -> None:
        super().__init__()
        stream = io.StringIO("\n".join([_VERSION, *merges]))
        # Without merges subword-nmt takes the end of the file for a damaged line, unless it reads 0 merges.
        self._bpe = BPE(stream, merges=-1 if merges else 0, separator=SEPARATOR, vocab=vocabulary)

    def __call__(self, line: str) -> str:
        return " ".join(filter(None, map(self.__getitem__, line.split(" "))))

    def __missing__(self, word: str) -> str:
        if len(self) >= _REMEMBERED_WORDS:
            self.clear()
        subwords = self[word] = " ".join(self._bpe.segment_tokens([word]))
        self._bpe.cache.clear()  # its own cache would duplicate this one
        return subwords


def _learn_merges(words: Counter[str], merges: int) -> list[str]:
    """The merges that subword-nmt learns from words and their frequencies, as lines of its codes file."""
    if all(len(word) == 1 for word in words):
        return []  # subword-nmt fails without any pair
    codes = io.StringIO()
    # Its progress bar and its message "Stopping" go to stderr. The log states the number of merges.
    with contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO()):
        learn_bpe((f"{word} {frequency}" for word, frequency in words.items()), codes, merges, is_dict=True)
    version, *lines = codes.getvalue().removesuffix("\n").split("\n")
    assert version == _VERSION, version
    return lines


def _read_merges(codes: Path) -> list[str]:
    lines = read_lines(codes)
    if (version := next(lines, "")) != _VERSION:
        raise _damaged(codes, 1, expected=repr(_VERSION), found=version)
    merges = []
    for number, line in enumerate(lines, start=2):
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise _damaged(codes, number, expected="two subwords", found=line)
        merges.append(line)
    return merges


def _read_vocabulary(counts: Path, threshold: int) -> set[str] | None:
    """The subwords that occur at least `threshold` times; None, which means no limit, for threshold 0."""
    frequent = set()
    for number, line in enumerate(read_lines(counts), start=1):
        subword, _, count = line.rpartition(" ")
        if not subword or not count.isdecimal():
            raise _damaged(counts, number, expected="a subword and its count", found=line)
        if int(count) >= threshold:
            frequent.add(subword)
    return frequent if threshold else None


def _damaged(path: Path, number: int, *, expected: str, found: str) -> DamagedFileError:
    what, next_step = "not a file of learn_subwords", f"delete {path} and run again"
    return DamagedFileError(
        what, where=f"{path}, line {number}", expected=expected, found=repr(found[:80]), next_step=next_step
    )


def build_vocabulary(
    *,
    settings: BuildVocabulary,
    cores: int,
    source: Path,
    target: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    given: Sequence[Path] = (),
) -> None:
    """Give ids to the subwords of each side of the training text, or of both sides together (`settings.shared`).

    source, target: one file of a monolingual text, whose subwords are counted once.
    settings.words: largest number of whole words in a vocabulary; None for subwords, which all get ids.
    given: vocabularies of both sides, which are taken over in place of that; or nothing.
    Raises DataError if a side is empty, DamagedFileError for given files of another kind.
    """
    if given:
        for path, output in zip(given, (source_vocabulary, target_vocabulary), strict=True):
            Vocabulary.read(path)
            write_lines(output, read_lines(path))
        log.info("build_vocabulary: took the vocabularies of %s", given[0].parent)
        return
    sides = {source: source_vocabulary, target: target_vocabulary}
    counts = [count_tokens(side, cores=cores) for side in sides]
    for side, counts_of_side in zip(sides, counts, strict=True):
        if not counts_of_side:
            raise DataError("the text has no subwords", where=side, next_step="check the training text")
    if settings.shared:
        counts = [sum(counts, Counter[str]())] * len(sides)
    sizes = [
        Vocabulary.write(path, _ranked(counts_of_side, settings.words))
        for path, counts_of_side in zip(sides.values(), counts, strict=True)
    ]
    shared = ", one vocabulary for both" if settings.shared and len(sizes) == 2 else ""
    log.info("build_vocabulary: %s symbols%s", " and ".join(f"{size:,}" for size in sizes), shared)


def _ranked(counts: Counter[str], words: int | None) -> list[tuple[str, int]]:
    """The entries of a vocabulary with their counts, in the order of their ids. words: as `settings.words`."""
    # A text may contain "</s>" as a word. This word is not the special symbol: it gets no id and is read as <unk>.
    ordinary = ((subword, count) for subword, count in counts.items() if subword not in SPECIAL_TOKENS)
    ranked = sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))
    if words is None:
        return ranked
    # A whole word that ends in the mark of subwords gets no id either: after translation it would join the next word.
    return [(word, count) for word, count in ranked if not word.endswith(SEPARATOR)][:words]
