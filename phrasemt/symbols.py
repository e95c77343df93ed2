"""Special symbols with their ids, marks of subwords and spaces, invisible characters, escapes, labels of chunks.

Every vocabulary has the same ids.
"""

from __future__ import annotations

import re

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")

# The largest number of subwords of a side that a model reads. Training leaves out longer pairs by training.max_length,
# which is not larger. Dev and test sets are never filtered, and a line of a hundred thousand characters must not fill
# the memory.
LONGEST_SENTENCE = 1024

SEPARATOR = "@@"  # ends every subword of a word but the last one

# Characters that nothing shows (Default_Ignorable_Code_Point of Unicode, and marks of annotations), for a pattern: soft
# hyphens, joiners, directions, variation selectors, fillers. Comparisons of texts ignore them.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)

SPACE = "\u2581"  # stands for a space of the text where tokens are characters or Chinese words, as in SentencePiece

# Moses' escapes of characters that have a meaning in its formats. All token files hold them.
_ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
_CHARACTERS = {escape: character for character, escape in _ESCAPES.items()}
_ESCAPE = re.compile("|".join(_CHARACTERS))
_TO_ESCAPES = str.maketrans(_ESCAPES)

# Chunk types of CoNLL-2000, and label classes of Zhou et al. (2017). A token outside of chunks forms a chunk with label
# O, and `</s>` a chunk with label eos. NULL is the class of a position inside a chunk; no chunk has it as its label.
CHUNK_TYPES = ("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP")
CHUNK_LABELS = ("eos", "NULL", *CHUNK_TYPES, "O")
EOS_LABEL, NULL_LABEL = 0, 1


def escape(text: str) -> str:
    return text.translate(_TO_ESCAPES)


def unescape(tokens: str) -> str:
    return _ESCAPE.sub(lambda match: _CHARACTERS[match[0]], tokens) if "&" in tokens else tokens
