"""White space and control characters become single spaces; all else stays."""

from __future__ import annotations

import unicodedata

import pytest

from phrasemt.files.preprocessing import comparable, normalise_spaces

ALL_CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def test_every_character_between_two_words() -> None:
    """Witness: the categories of Unicode. Zs, Zl, Zp are its white space, Cc its control characters."""
    for character in ALL_CHARACTERS:
        spaces = unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc") or character == "\ufeff"
        assert normalise_spaces(f"a{character}b") == ("a b" if spaces else f"a{character}b"), hex(ord(character))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" \t\u2028\x0c", ""),
        ("\ufeffHallo  Welt\r", "Hallo Welt"),
        ("ein\x0czwei\x85drei\x00vier", "ein zwei drei vier"),
        ("\u200b \u200e\u3164", ""),
    ],
)
def test_examples(line: str, expected: str) -> None:
    assert normalise_spaces(line) == expected


def test_comparisons_ignore_every_format_character() -> None:
    """Witness: the category Cf of Unicode, without the signs of Arabic and other scripts that are visible."""
    formats = [character for character in ALL_CHARACTERS if unicodedata.category(character) == "Cf"]
    kept = [character for character in formats if comparable(f"{character}é {character} {character}f") != "é f"]
    visible = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN")
    assert all(unicodedata.name(character).startswith(visible) and character != "\u061c" for character in kept)
    assert len(formats) - len(kept) > 130
