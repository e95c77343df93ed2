"""Groups of languages that tokenisers and scores distinguish.

Languages have two-letter codes where ISO 639-1 has one, and otherwise three-letter codes of ISO 639-3.
"""

from __future__ import annotations

# Languages for which sacremoses has a list of abbreviations. For other languages it takes the English list.
_CODES = """as bn ca cs de el en es et fi fr ga gu hi hu is it kn lt lv ml mni mr nl or pa pl pt ro ru sk sl sv ta
tdt te yue zh"""
WITH_ABBREVIATIONS = frozenset(_CODES.split())
# sacremoses knows the letters of these languages, but has no list of abbreviations for them.
WITH_LETTERS = frozenset({"ja", "ko"})
WITH_MOSES_RULES = WITH_ABBREVIATIONS | WITH_LETTERS

# Mandarin, Cantonese, classical Chinese, and further languages that are written in Chinese characters.
CHINESE = frozenset({"zh", "yue", "lzh", "wuu", "gan", "hak", "hsn", "cjy"})
JAPANESE = frozenset({"ja"})
# Thai, Lao, Khmer, Burmese, Tibetan, Dzongkha: no spaces between words, and no tokeniser here finds the words.
WITHOUT_TOKENISER = frozenset({"th", "lo", "km", "my", "bo", "dz"})
WITHOUT_SPACES = CHINESE | JAPANESE | WITHOUT_TOKENISER
