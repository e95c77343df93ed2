"""TER as sacreBLEU computes it (Snover et al. 2006), several times as fast.

TER takes the shift of words that lowers the edit distance most, until none does. sacreBLEU fills a table for each shift
that it tries. Here a row of the table is one number with a bit for each word of the reference (Hyyrö 2003, "A
bit-vector algorithm for computing Levenshtein and Damerau edit distances").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sacrebleu.metrics import TER
from sacrebleu.metrics.lib_ter import (
    _BEAM_WIDTH,
    _MAX_SHIFT_CANDIDATES,
    _OP_DEL,
    _OP_INS,
    _OP_NOP,
    _OP_SUB,
    BeamEditDistance,
    _shift,
)

Words = list[str]


class FastTER(TER):  # type: ignore[misc]
    """sacreBLEU's TER with the same statistics of every sentence."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Mapping[str, Any]) -> list[float]:
        words, references = hypothesis.split(), ref_kwargs["ref_words"]
        fewest = min(edits(words, reference) for reference in references)
        return [fewest, sum(map(len, references)) / len(references)]


def edits(words: Words, reference: Words) -> int:
    """Shifts, insertions, deletions and substitutions, as `translation_edit_rate` of sacreBLEU counts them."""
    if not reference:
        return len(words)
    distance = _Distance(reference)
    shifts = tried = 0
    while True:
        distance.with_trace = words
        gain, shifted, tried = _shift(words, reference, distance, tried)
        if tried >= _MAX_SHIFT_CANDIDATES or gain <= 0:
            return shifts + int(distance(words)[0])
        shifts, words = shifts + 1, shifted


class _Distance(BeamEditDistance):  # type: ignore[misc]
    """The edit distance from a reference, and the trace of edits, which is empty for words other than `with_trace`."""

    with_trace: Words

    def __init__(self, reference: Words) -> None:
        super().__init__(reference)
        self._places: defaultdict[str, int] = defaultdict(int)  # of each word, as bits
        for place, word in enumerate(reference):
            self._places[word] |= 1 << place

    def __call__(self, words: Words) -> tuple[int, str]:
        distance, rows = self._rows(words)
        # sacreBLEU computes a band of the table, beside the line between its corners. A path of D edits is at most
        # (D + |difference of lengths|) / 2 cells away from this line, so the band contains all best paths.
        if distance + abs(len(words) - len(self._words_ref)) > 2 * (_BEAM_WIDTH - 2):
            found: tuple[int, str] = super().__call__(words)
            return found
        return distance, self._trace(rows, words) if words is self.with_trace else ""

    def _rows(self, words: Words) -> tuple[int, list[tuple[int, int]]]:
        """The distance; for each word, in which cells of its row the distance is that of the cell before it on the
        diagonal, and in which it is one more than in the row before it.
        """
        distance = len(self._words_ref)
        all_cells, last = (1 << distance) - 1, 1 << (distance - 1)
        more, less = all_cells, 0  # cells with one more, one less than the cell before them in their row
        rows = []
        for word in words:
            equal = self._places.get(word, 0)
            diagonal = (((equal & more) + more) ^ more) | equal | less
            grows, falls = less | ~(diagonal | more), diagonal & more
            rows.append((diagonal, grows))
            distance += bool(grows & last) - bool(falls & last)
            grows, falls = (grows << 1) | 1, falls << 1
            more, less = (falls | ~(diagonal | grows)) & all_cells, grows & diagonal & all_cells
        return distance, rows

    def _trace(self, rows: list[tuple[int, int]], words: Words) -> str:
        """The edits: of equally short paths the one that sacreBLEU takes, with substitutions before deletions."""
        trace: list[str] = []
        i, j = len(words), len(self._words_ref)
        while i and j:
            diagonal, grows = rows[i - 1]
            if words[i - 1] == self._words_ref[j - 1]:
                edit = _OP_NOP
            elif not diagonal >> (j - 1) & 1:
                edit = _OP_SUB
            else:
                edit = _OP_DEL if grows >> (j - 1) & 1 else _OP_INS
            trace.append(edit)
            i, j = i - (edit != _OP_INS), j - (edit != _OP_DEL)
        trace += [_OP_DEL] * i + [_OP_INS] * j
        return "".join(reversed(trace))
