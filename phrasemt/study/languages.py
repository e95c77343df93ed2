"""Codes of languages by ISO 639-1 (two letters) and ISO 639-3 (three letters), from pycountry."""

from __future__ import annotations

import functools
import re
from typing import Any

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


def _entry(code: str) -> Any:
    """The entry of ISO 639-3 for a code of two or three letters, or None."""
    import pycountry  # reads a table of 8,000 languages, which only checks of studies need

    return pycountry.languages.get(**{f"alpha_{len(code)}": code})
