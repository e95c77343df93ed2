"""Signs that another program has prepared a text: marks of subwords, Moses' escapes, punctuation apart from words.

Models and scores compare texts. A text that was prepared otherwise than the others makes both of them wrong, and
nothing fails: a perfect translation of an escaped reference scores 27 BLEU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from phrasemt.errors import DataError
from phrasemt.symbols import SEPARATOR, SPACE

# `@@` at the end of a piece of a word (subword-nmt), U+2581 at the beginning of a word (SentencePiece).
_SUBWORD = re.compile(rf"(?<=\S){SEPARATOR}(?= |$)|(?:(?<= )|^){SPACE}(?=\S)")
# &amp;, &lt; and &gt; are also found in texts from web pages.
_ESCAPE = re.compile(r"&(?:apos|quot|#91|#93|#124);")
_FULL_STOP_APART = (" .", " 。")

# A text counts as cut into subwords if a larger share of its lines is marked. Texts from the web are so by chance.
_CUT = 0.01
# From these shares of the lines on, a text counts as prepared. Another text of the same kind then has a tenth of the
# share at least, if it is so long that five such lines are expected: by chance, fewer than one text in 100 has none.
_PREPARED = (("escaped", "Moses' escapes such as &apos;", 0.03), ("tokenised", "a full stop apart from its word", 0.3))
_ALIKE, _EXPECTED = 0.1, 5


@dataclass
class Signs:
    """The numbers of lines of a text, and of those with each sign. cut: the first line with a mark of subwords."""

    lines: int = 0
    subwords: int = 0
    escaped: int = 0
    tokenised: int = 0
    cut: tuple[int, str] = (0, "")

    @classmethod
    def of(cls, lines: Iterable[str]) -> Signs:
        """The signs of the lines of a text."""
        signs = cls()
        for line in lines:
            signs.lines += 1
            if piece := marked(line):
                signs.mark(signs.lines, piece)
            signs.escaped += "&" in line and _ESCAPE.search(line) is not None
            signs.tokenised += line.endswith(_FULL_STOP_APART)
        return signs

    def mark(self, number: int, piece: str) -> None:
        """Count a line with a mark of subwords. number: of the line; piece: of it, with the mark."""
        self.subwords += 1
        self.cut = self.cut if self.cut[0] else (number, piece)

    def refuse_subwords(self, where: object, *, any_line: bool = False) -> None:
        """Raise DataError, with a line, if so many lines hold subwords that it is no chance, or if any line does.

        where: name of the text.
        """
        if self.subwords > (0 if any_line else max(1, _CUT * self.lines)):
            number, piece = self.cut
            raise DataError(
                "the text is cut into subwords",
                where=f"{where}, line {number}",
                expected="whole words",
                found=f"{piece!r}, and such marks in {self.subwords:,} of {self.lines:,} lines",
                next_step="join the subwords (remove '@@ ')",
            )


def marked(line: str) -> str:
    """The place of a line that holds the first mark of subwords; empty without marks."""
    if SEPARATOR not in line and SPACE not in line:  # true for nearly all lines
        return ""
    mark = _SUBWORD.search(line)
    return line[max(0, mark.start() - 20) : mark.end() + 20] if mark else ""


def check_prepared_alike(texts: Mapping[str, Signs]) -> None:
    """Raise DataError if one of several texts is escaped or tokenised and another one is not. texts: by name."""
    for key, sign, least in _PREPARED:
        shares = {name: getattr(signs, key) / max(1, signs.lines) for name, signs in texts.items()}
        prepared, share = max(shares.items(), key=lambda one: one[1])
        for name, signs in texts.items():
            if share >= least and shares[name] <= _ALIKE * share and share * signs.lines >= _EXPECTED:
                raise DataError(
                    "two texts of one language were prepared in different ways",
                    where=f"{prepared}, {name}",
                    expected=f"lines with {sign} in both, or in neither",
                    found=f"{share:.1%} and {shares[name]:.1%} of the lines",
                    next_step="undo the escapes and tokens of one text, or prepare the other one in the same way",
                )
