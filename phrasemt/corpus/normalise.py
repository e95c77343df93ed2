"""White space and control characters in a line of text, and what makes two lines the same sentence.

`clean_pairs` and `partition_corpus` both use this module: sentences that become equal by cleaning must already count as
equal in the partition. Otherwise a sentence could be in train and in test.
"""

from __future__ import annotations

import re
import unicodedata

from phrasemt.symbols import INVISIBLE

# \s matches the white space of Unicode; the rest are control characters (Cc) and the byte order mark.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
_BLANK = re.compile(f"[{INVISIBLE}\\s]*")


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
