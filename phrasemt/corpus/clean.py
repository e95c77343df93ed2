"""The stage `clean_pairs`: check a parallel text, and drop training pairs that no system should learn from.

The outputs account for every pair. Dev and test sets are checked but never filtered; in every split, each run of white
space and control characters becomes one space (phrasemt/files/preprocessing.py).

A monolingual text stands on both sides: `raw_source` and `raw_target` name the same files, and so do `source` and
`target`. Its lines are judged like pairs, without the filters that compare two sides.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import itertools
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from phrasemt.artefacts.corpus import DroppedPair, DroppedPairs
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel, write_atomic
from phrasemt.files.parallel import batched, map_in_order
from phrasemt.files.preprocessing import Preprocessing, comparable, form_of, normalise_spaces
from phrasemt.languages import CHINESE, WITHOUT_SPACES
from phrasemt.stages.corpus import CleanPairs

log = logging.getLogger("phrasemt.corpus.clean")

PAIRS_PER_BATCH = 2000  # pairs sent to a process at once
_FIRST, _FEW = 400, 50  # lines that are read for the script of a text, and lines that show none
Row = tuple[int, tuple[str, ...]]  # row and pair


def clean_pairs(
    *,
    settings: CleanPairs,
    cores: int,
    raw_source: list[Path],
    raw_target: list[Path],
    source: Path,
    target: Path,
    rows: Path,
    dropped: Path,
) -> None:
    """Write the normalised pairs of the raw texts that pass all filters.

    rows: for each kept pair its row (from 0) in the concatenation of the raw texts. dropped: `# read N kept K dropped
    D` (with a sample also `left out L`), a header, then row, filter and value of each dropped pair, tab-separated, in
    the order of the rows. The result does not depend on the number of cores. Memory: about 150 bytes for each pair.
    settings.sample: keep at most this number of these pairs, those whose sources have the smallest hash, in the order
    of their rows. So the references of a test set, each with the same sources, keep the same pairs.
    Raises DataError for sides with unequal numbers of lines, bytes that are not UTF-8, an empty text, a text that
    has a form of no plain text, and a text of which no pair is kept.
    """
    for language in dict.fromkeys((settings.source_language, settings.target_language)):
        if settings.filters and not scripts_of(language):
            log.info("clean_pairs: the script of %r is not listed: its lines are kept in any script", language)
    cleaning = Cleaning(settings, raw_source, raw_target, cores=cores)
    texts = dict.fromkeys((source, target))  # one file of a monolingual text
    with contextlib.ExitStack() as stack:
        *sides, kept_rows = (stack.enter_context(write_atomic(path)) for path in (*texts, rows))
        parts: Iterable[list[Row]] = cleaning
        if settings.sample is not None:
            kept = itertools.chain.from_iterable(cleaning)
            parts = [sorted(heapq.nsmallest(settings.sample, kept, key=_hash_of_source))]
        written = 0
        for part in parts:
            written += len(part)
            for side, stream in enumerate(sides):
                _write(stream, (pair[side] for _, pair in part))
            _write(kept_rows, (str(row) for row, _ in part))
        left_out = cleaning.read - len(cleaning.dropped) - written
        why = ", ".join(f"{name} {count}" for name, count in cleaning.by_filter.items())
        if not written:
            raise DataError(
                "the filters dropped every pair of the training text",
                where=", ".join(map(str, dict.fromkeys([*raw_source, *raw_target]))),
                found=f"{cleaning.read} pairs: {why}",
                next_step="check the languages of the data set and the limits in `cleaning`",
            )
        DroppedPairs(raw_pairs=cleaning.read, kept=written, dropped=cleaning.dropped, left_out=left_out).write(dropped)
    counts = cleaning.read, written + left_out, len(cleaning.dropped), f" ({why})" if why else ""
    log.info("clean_pairs: read %d pairs, kept %d, dropped %d%s", *counts)
    if left_out:
        log.info("clean_pairs: the sample leaves out %d of the pairs that were kept", left_out)


class Cleaning:
    """Iterates over the pairs of raw texts that pass all filters, in batches of rows and pairs. Writes nothing.

    read: how many pairs have been read. dropped: those that did not pass, in the order of their rows. Raises DataError
    as `clean_pairs`.
    """

    def __init__(self, settings: CleanPairs, raw_source: list[Path], raw_target: list[Path], *, cores: int) -> None:
        self._settings, self._texts, self._cores = settings, (raw_source, raw_target), cores
        self.read = 0
        self.dropped: list[DroppedPair] = []

    @property
    def by_filter(self) -> dict[str, int]:
        """The number of pairs that each filter dropped, in the order of their use; none is 0."""
        counts = Counter(pair.filter for pair in self.dropped)
        return {name: counts[name] for name in FILTERS if counts[name]}

    def __iter__(self) -> Iterator[list[Row]]:
        seen: dict[bytes, int] = {}  # digest of a kept pair -> its row
        preprocessing = Preprocessing(), Preprocessing()
        further = self._further_scripts()
        batches = batched(enumerate(_raw_pairs(*self._texts)), PAIRS_PER_BATCH)
        for passed, dropped, marked in map_in_order(
            _judge, batches, jobs=self._cores, prepare=_Judge, arguments=(self._settings, further)
        ):
            self.read += len(passed) + len(dropped)
            kept = []
            for row, pair, digest in passed:
                first = seen.setdefault(digest, row) if digest else row
                if first == row:
                    kept.append((row, pair))
                else:
                    dropped.append(DroppedPair(row, "duplicate", str(first)))
            self.dropped += sorted(dropped)
            for side, row, form, piece in marked:
                preprocessing[side].add(row + 1, form, piece)
            yield kept
        for of_side, files in zip(preprocessing, self._texts, strict=True):
            of_side.lines = self.read
            of_side.check_plain_text(", ".join(map(str, files)))

    def _further_scripts(self) -> tuple[frozenset[str], ...]:
        """For each side the script of most of its first lines, if it is listed for neither language of the pair."""
        languages = self._settings.source_language, self._settings.target_language
        if self._settings.filters is None or not all(map(scripts_of, languages)):
            return frozenset(), frozenset()
        listed = scripts_of(languages[0]) | scripts_of(languages[1])
        further = []
        pairs = [*itertools.islice(_raw_pairs(*self._texts), _FIRST)]
        for side, language in enumerate(languages):
            found = Counter(script for pair in pairs if (script := _main_script(pair[side % len(pair)])) is not None)
            most = {script for script, lines in found.items() if lines > max(_FEW, found.total() / 2)} - listed
            further.append(frozenset(most))
            for script in most:
                log.warning(
                    "clean_pairs: warning: %d of the first %d lines in %r are in the script %s, which is not "
                    "listed for it: lines in it are kept",
                    found[script], found.total(), language, script.title(),
                )  # fmt: skip
        return tuple(further)


def _main_script(line: str) -> str | None:
    scripts = Counter(script for script in map(script_of, line) if script is not None)
    return max(scripts, key=lambda script: scripts[script], default=None)


def _raw_pairs(raw_source: list[Path], raw_target: list[Path]) -> Iterator[tuple[str, ...]]:
    for source, target in zip(raw_source, raw_target, strict=True):
        pair = None
        for pair in read_parallel(*dict.fromkeys((source, target))):
            yield pair
        if pair is None:
            where, next_step = ", ".join(map(str, dict.fromkeys((source, target)))), "check the paths in the study"
            raise DataError("the text is empty", where=where, next_step=next_step)


def _write(stream: IO[bytes], lines: Iterable[str]) -> None:
    stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))


def _hash_of_source(row: Row) -> bytes:
    _, (source, *_) = row
    return hashlib.blake2b(comparable(source).encode(), digest_size=8).digest()


# Languages by script; a language may have several. Lines in other languages are not judged by their letters. A script
# is named by the first word of its letters' names in Unicode.
_LANGUAGES = {
    "ARABIC": "ar arz az ckb fa ks ku ps sd ug ur",
    "ARMENIAN": "hy",
    "BENGALI": "as bn",
    "CANADIAN": "cr iu oj",
    "CJK": " ".join(sorted(CHINESE | {"ja", "ko"})),
    "CYRILLIC": "ab av az ba be bg ce cv kk kv ky mk mn os ru sah sr tg tk tt uk uz",
    "DEVANAGARI": "bho hi ks mai mr ne sa sd",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he yi",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    "LATIN": """af ast az br bs ca ceb co cs cy da de en eo es et eu fi fil fo fr fy ga gd gl gn gv ha haw hr ht hu ia
    id ig ilo is it iu jv kk kl ku la lb lij ln lt lv mg mi ms mt nb nds nl nn no ny oc pl pt qu rm rn ro rw sc se sk sl
    sm sn so sq sr st su sv sw tdt tk tl tn to tr tt ug uz vec vi vo wa war wo xh yo zu""",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "ORIYA": "or",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAANA": "dv",
    "THAI": "th",
    "TIBETAN": "bo dz",
}
_LONGEST_MEAN_WORD = 20  # characters; a line whose words are longer on average is a table, a URL or no text


def scripts_of(language: str) -> frozenset[str]:
    """The scripts of a language; empty if they are not listed."""
    return frozenset(script for script, codes in _LANGUAGES.items() if language in codes.split())


@functools.cache
def script_of(character: str) -> str | None:
    """The script of a letter; None for other characters."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    return words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") else words[0]


class WrittenLanguage:
    """Scripts and word boundaries of a language, by its code of two letters if it has one, else of three.

    further: scripts of a text in it that are not listed.
    """

    def __init__(self, language: str, further: frozenset[str] = frozenset()) -> None:
        self.scripts = scripts_of(language) | further
        self.has_spaces = language not in WITHOUT_SPACES
        self._is_latin = self.scripts == {"LATIN"}
        self._harmless: set[str] = set()  # characters of lines without a letter of another script, as a cache

    def words(self, line: str) -> int:
        """Number of words of a normalised line.

        Words are separated by spaces; in a language without spaces, two characters count as a word. A line has at least
        one word per 20 characters, so a long line without spaces is not a single word.
        """
        spaces = line.count(" ")
        if self.has_spaces:
            return max(spaces + 1, len(line) // _LONGEST_MEAN_WORD)
        return (len(line) - spaces + 1) // 2

    def script_share(self, line: str) -> float:
        """Share of the language's scripts among the letters of a line; 1 without letters, and for unlisted scripts."""
        if not self.scripts or (self._is_latin and line.isascii()) or self._harmless.issuperset(line):
            return 1.0
        letters = [script for script in map(script_of, line) if script is not None]
        expected = sum(script in self.scripts for script in letters)
        if expected == len(letters):
            self._harmless.update(line)
            return 1.0
        return expected / len(letters)


FILTERS = ("empty", "too_long", "ratio", "identical", "wrong_script", "duplicate")  # in the order of their use


class _Judge:
    """The filters with their limits. `map_in_order` makes one in each process."""

    def __init__(self, settings: CleanPairs, further: tuple[frozenset[str], ...]) -> None:
        self.filters = settings.filters
        self.source = WrittenLanguage(settings.source_language, further[0])
        self.target = WrittenLanguage(settings.target_language, further[1])

    def reason_to_drop(self, *sides: str) -> tuple[str, str] | None:
        """The first filter that refuses a normalised pair, and the value that it computed; None keeps the pair.

        A line of a monolingual text stands for both sides. Lengths are numbers of words.
        """
        if (limits := self.filters) is None:
            return None
        source, target = sides[0], sides[-1]
        if not (source and target):
            return "empty", "target" if source else "source" if target else "both"
        shortest, longest = sorted((self.source.words(source), self.target.words(target)))
        if longest > limits.max_words:
            return "too_long", str(longest)
        if longest > limits.max_ratio * shortest:
            return "ratio", f"{longest / shortest:.2f}"
        if limits.drop_identical and len(sides) == 2 and comparable(source) == comparable(target):
            return "identical", "source = target"
        for side, language, line in (("source", self.source, source), ("target", self.target, target)):
            if (share := language.script_share(line)) < limits.min_letters:
                return "wrong_script", f"{side} {share:.2f}"
        return None


def _judge(
    judge: _Judge, batch: list[Row]
) -> tuple[list[tuple[int, tuple[str, ...], bytes]], list[DroppedPair], list[tuple[int, int, str, str]]]:
    """Apply all filters except `duplicate` to a batch of raw pairs.

    Returns row, lines and digest of the pairs that pass (a monolingual text has one line, and without the filter
    `duplicate` a digest is empty); the others; side, row, form and piece of each line that has a form of no plain text.
    """
    passed, dropped, marked = [], [], []
    drops_duplicates = judge.filters is not None and judge.filters.drop_duplicates
    for row, raw_pair in batch:
        pair = tuple(map(normalise_spaces, raw_pair))
        marked += [(side, row, *found) for side, line in enumerate(raw_pair) if (found := form_of(line, row + 1))]
        if reason := judge.reason_to_drop(*pair):
            dropped.append(DroppedPair(row, *reason))
        else:
            passed.append((row, pair, pair_digest(*pair) if drops_duplicates else b""))
    return passed, dropped, marked


def pair_digest(*sides: str) -> bytes:
    """16 bytes by which duplicates are found."""
    return hashlib.blake2b("\n".join(map(comparable, sides)).encode(), digest_size=16).digest()
