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

# Some of the most frequent words of languages with Latin letters; `doubts` compares two of them.
FREQUENT_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and to is that was with",
        "de": "der und das ist nicht ein mit sich",
        "fr": "les aux est une dans qui pour pas",
        "es": "los las una por con del como más",
        "it": "il che di non della sono gli nel",
        "pt": "os uma não dos com em mais foi",
        "nl": "het een van niet dat zijn voor met",
        "sv": "och att det som är på inte av",
        "da": "og af det som ikke på til jeg",
        "cs": "se že je jako byl který pro jsem",
        "pl": "się że jest do przez nie jako był",
        "ro": "și să este din cu care pentru lui",
        "fi": "ja on että ei oli hän mutta myös",
        "hu": "az és hogy nem egy volt csak meg",
        "tr": "ve bir bu için ile da olarak daha",
    }.items()
}
