"""White space and control characters of a line of text, made harmless.

A module of its own because two stages agree on it: what `clean_pairs` makes equal must be equal to `partition_corpus`
already, or a sentence could stand in train and in test.
"""

from __future__ import annotations

import re

# \s is all white space of Unicode; the others are its control characters (Cc) and the byte order mark.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")


def normalise_spaces(line: str) -> str:
    """The line with each run of white space and control characters as one space, and none at its ends.

    That concerns form feeds, U+0085, U+2028, no-break spaces, carriage returns and a byte order mark. All tokenizers
    split there anyway, and a later tool that takes one of them for a line end would shift one side against the other.
    """
    if line.isprintable() and "  " not in line:  # nearly all lines: no white space but single spaces, no controls
        return line.strip(" ")
    return _SPACE.sub(" ", line).strip(" ")
