"""White space in a line of text, what makes two lines the same sentence, and what shows that a text was preprocessed:
forms that no plain text has (phrasemt/files/forms.py), Moses' escapes, a full stop apart from its word.

Stages that clean and that divide texts agree in what the same sentence is; otherwise one could be in train and in test.

Models and scores compare texts. Texts that were preprocessed in different ways make both of them wrong, and nothing
fails: a perfect translation of an escaped reference scores 27 BLEU.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from phrasemt.errors import DataError
from phrasemt.files.forms import FORMS, form_of, looked_at
from phrasemt.symbols import INVISIBLE

# \s matches the white space of Unicode; the rest are control characters (Cc) and the byte order mark.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
_BLANK = re.compile(f"[{INVISIBLE}\\s]*")

# &amp;, &lt; and &gt; are also found in texts from web pages.
_ESCAPE = re.compile(r"&(?:apos|quot|#91|#93|#124);")
_FULL_STOP_APART = (" .", " 。")

# From these fractions of the lines on, a text counts as escaped or tokenised. Another text of the same kind then has a
# tenth of the fraction at least, if it is so long that five such lines are expected: by chance, fewer than one text in
# 100 has none.
_PREPROCESSED = (
    ("escaped", "Moses' escapes such as &apos;", 0.03),
    ("tokenised", "a full stop apart from its word", 0.3),
)
_ALIKE, _EXPECTED = 0.1, 5


def normalise_spaces(line: str) -> str:
    """Replace each run of white space and control characters by one space, and strip the line.

    Such characters are form feeds, U+0085, U+2028, no-break spaces, carriage returns and the byte order mark. Every
    tokenizer splits at them, and a tool that takes one of them for a line end would shift one side against the other.
    Other invisible characters stay, but a line of nothing else is blank.
    """
    if not line.isprintable() or "  " in line:  # false for nearly all lines
        line = _SPACE.sub(" ", line)
    return "" if _BLANK.fullmatch(line) else line.strip(" ")


def comparable(line: str) -> str:
    """A line with composed letters (NFC) and without invisible characters: equal for lines that look the same."""
    if line.isascii():
        return line
    line, invisible = _INVISIBLE.subn("", unicodedata.normalize("NFC", line))
    return " ".join(line.split()) if invisible else line


@dataclass
class Preprocessing:
    """Numbers of the lines of a text that show preprocessing. first: the first line of each form, and its piece."""

    lines: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    escaped: int = 0
    tokenised: int = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> Preprocessing:
        counts = cls()
        for line in lines:
            counts.lines += 1
            if found := form_of(line, counts.lines):
                counts.add(counts.lines, *found)
            counts.escaped += "&" in line and _ESCAPE.search(line) is not None
            counts.tokenised += line.endswith(_FULL_STOP_APART)
        return counts

    def add(self, number: int, form: str, piece: str) -> None:
        """Count a line of a form. number: of the line; piece: of it, which shows the form."""
        self.forms[form] += 1
        self.first.setdefault(form, (number, piece))

    def check_plain_text(self, where: object) -> None:
        """Raise DataError, with a line, if so many lines have a form of no plain text that it is no chance.

        where: name of the text.
        """
        for form, count in self.forms.items():
            is_first = form == "headings" and self.first[form][0] == 1
            if is_first or count > max(1, FORMS[form].share * looked_at(form, self.lines)):
                raise self._refusal(form, where)

    def check_whole_words(self, where: object) -> None:
        """Raise DataError if any line holds subwords. where: name of the text."""
        if self.forms["subwords"]:
            raise self._refusal("subwords", where)

    def _refusal(self, form: str, where: object) -> DataError:
        number, piece = self.first[form]
        found = f"{piece!r}, and the like in {self.forms[form]:,} of {looked_at(form, self.lines):,} lines"
        return DataError(
            FORMS[form].what,
            where=f"{where}, line {number}",
            expected="one plain sentence per line",
            found=found,
            next_step=FORMS[form].next_step,
        )


def check_same_preprocessing(texts: Mapping[str, Preprocessing]) -> None:
    """Raise DataError if one of several texts is escaped or tokenised and another one is not. texts: by name."""
    for key, pattern, least in _PREPROCESSED:
        fractions = {name: getattr(counts, key) / max(1, counts.lines) for name, counts in texts.items()}
        first, fraction = max(fractions.items(), key=lambda one: one[1])
        for name, counts in texts.items():
            if fraction >= least and fractions[name] <= _ALIKE * fraction and fraction * counts.lines >= _EXPECTED:
                raise DataError(
                    "two texts of one language were preprocessed in different ways",
                    where=f"{first}, {name}",
                    expected=f"lines with {pattern} in both, or in neither",
                    found=f"{fraction:.1%} and {fractions[name]:.1%} of the lines",
                    next_step="undo the escapes and tokens of one text, or preprocess the other one in the same way",
                )
