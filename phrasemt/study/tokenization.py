"""How the sides of a data set are tokenised: the section of a study, and what stages read of it.

Codes of languages are those of ISO 639-1 (two letters) and ISO 639-3 (three letters), from pycountry.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Literal

from pydantic import Field

from phrasemt.fields import Settings
from phrasemt.languages import CHINESE, JAPANESE, WITHOUT_SPACES, WITHOUT_TOKENISER

_CODE = re.compile(r"[a-z]{2,3}")
# Codes of countries, and an old code, that people write for a language.
MISTAKEN = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "iw": "he", "jp": "ja", "ua": "uk", "us": "en", "vn": "vi"}


@functools.cache
def common_code(code: str) -> str:
    """The two-letter code of a language if there is one, otherwise the code itself: deu is de, tlh stays tlh."""
    if code == "cmn":  # ISO 639 counts Mandarin as one of the languages that zh names; corpora use both names
        return "zh"
    if len(code) == 2:
        return code
    return getattr(_entry(code), "alpha_2", code)


def problem_of_language(code: str) -> str | None:
    """What is wrong with a code of a language; None for a good one."""
    if language_name(code) is not None:
        return None
    near = f"; did you mean {MISTAKEN[code]!r}?" if code in MISTAKEN else ""
    return f"found {code[:40]!r}, allowed: a code of ISO 639-1 or ISO 639-3, such as en or deu{near}"


def language_name(code: str) -> str | None:
    """The English name of a language; None for a code that ISO 639-1 and ISO 639-3 do not have."""
    entry = _entry(code) if _CODE.fullmatch(code) else None
    return None if entry is None else str(getattr(entry, "common_name", entry.name))


def code_of_language(name: str) -> str | None:
    """The code of a language with this English name, of two letters where there is one; None for another word."""
    import pycountry

    entry = pycountry.languages.get(name=name)
    return None if entry is None else str(getattr(entry, "alpha_2", entry.alpha_3))


def _entry(code: str) -> Any:
    """The entry of ISO 639-3 for a code of two or three letters, or None."""
    import pycountry  # reads a table of 8,000 languages, which only checks of studies need

    return pycountry.languages.get(**{f"alpha_{len(code)}": code})


Side = Literal["source", "target"]
TokenUnit = Literal["moses", "space", "character", "jieba"]


class Tokenization(Settings):
    """Tokens of the two sides, from which subwords are made."""

    source: TokenUnit | None = Field(
        None,
        description="tokens of the source side. moses: words and punctuation (sacremoses), for a text with spaces "
        "between words; space: words between spaces, of a text that is tokenised already; character: each character; "
        "jieba: Chinese words. Default: jieba for Chinese, character for Japanese, otherwise moses",
    )
    target: TokenUnit | None = Field(
        None, description="tokens of the target side, as for source; tokens of the text of a monolingual data set"
    )


BleuTokenizer = Literal["13a", "zh", "ja-mecab", "char"]
_BLEU: dict[str, BleuTokenizer] = {
    **dict.fromkeys(CHINESE, "zh"),
    **dict.fromkeys(JAPANESE, "ja-mecab"),
    **dict.fromkeys(WITHOUT_TOKENISER, "char"),
}


class Tokenizer(Settings):
    """The tokeniser of one side, and sacreBLEU's tokeniser for its language: settings of stages."""

    language: str  # two-letter code where there is one; Moses chooses its rules by it
    unit: TokenUnit
    bleu: BleuTokenizer

    @classmethod
    def for_language(cls, code: str, chosen: TokenUnit | None = None) -> Tokenizer:
        """The tokeniser for a language; chosen: the unit in the study, or None for the default of the language.

        Raises ValueError for a language that the unit does not suit.
        """
        language = common_code(code)
        unit = chosen or ("jieba" if language == "zh" else "character" if language in WITHOUT_SPACES else "moses")
        if language in WITHOUT_TOKENISER and chosen not in ("character", "space"):
            raise ValueError(
                f"{code} has no spaces between words, and no tokeniser of phrasemt finds its words; found "
                f"{json.dumps(chosen)}, allowed: character, and space for a text that is tokenised already"
            )
        if unit == "jieba" and language not in CHINESE:
            raise ValueError(f'found "jieba", which cuts Chinese only and not {code}; allowed: moses, space, character')
        return cls(language=language, unit=unit, bleu=_BLEU.get(language, "13a"))
