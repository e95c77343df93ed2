"""The stage `tokenize_text`, and all calls of sacremoses: Moses tokens and their detokenisation."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from phrasemt.errors import DataError
from phrasemt.stages.subwords import TokenizeText
from phrasemt.text.tokens import convert_lines

log = logging.getLogger("phrasemt.tokenize_text")

# Moses has a list of abbreviations for these languages. For other languages it silently uses the English list.
_LANGUAGES_WITH_PREFIXES = frozenset(NonbreakingPrefixes().available_langs.values())
# Moses takes the characters of these languages for letters of words, so it only splits off punctuation.
_LANGUAGES_WITHOUT_CUTS = {"zh": "Chinese", "ja": "Japanese", "ko": "Korean"}
LANGUAGES = _LANGUAGES_WITH_PREFIXES | _LANGUAGES_WITHOUT_CUTS.keys()


def tokenize_text(*, settings: TokenizeText, cores: int, text: Path, tokens: Path) -> None:
    """Write each line of a text as Moses tokens with escaped XML characters.

    Raises DataError for a language without Moses rules.
    """
    _check_language(settings.language)
    if settings.language in _LANGUAGES_WITHOUT_CUTS:
        log.info(
            "tokenize_text: Moses splits punctuation off but does not split %s into words; "
            "give a segmented text if words matter",
            _LANGUAGES_WITHOUT_CUTS[settings.language],
        )
    lines, count = convert_lines(
        text, tokens, cores=cores, prepare=tokenizer, arguments=(settings.language, settings.aggressive_dash)
    )
    log.info("tokenize_text: %s lines, %s tokens", f"{lines:,}", f"{count:,}")


def tokenizer(language: str, aggressive_dash: bool) -> Callable[[str], str]:
    """A function from a line of text to its escaped Moses tokens, separated by single spaces.

    aggressive_dash: Moses' option -a; a hyphen between letters becomes @-@. Raises DataError for a language without
    Moses rules.
    """
    _check_language(language)
    return _Tokenizer(language, aggressive_dash).cut


def detokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Plain text from lines of Moses tokens, without @-@ and escapes.

    Raises DataError for a language without Moses rules.
    """
    _check_language(language)
    moses = MosesDetokenizer(language)
    return (moses.detokenize(line.split(" "), unescape=True) for line in lines)


def _check_language(language: str) -> None:
    if language not in LANGUAGES:
        raise DataError(
            "Moses has no rules for this language",
            where=f"language {language!r}",
            expected=f"one of {', '.join(sorted(LANGUAGES))}",
            next_step="name the nearest of these languages in the data set",
        )


class _Tokenizer(MosesTokenizer):  # type: ignore[misc]
    """The rules and patterns of sacremoses in their order, without work that cannot change a line.

    A rule runs only if the line holds a character that it needs, and the sets of letters are built once and not for
    each full stop. This makes about six times as many lines per second. Tests compare every byte with sacremoses.
    """

    _XML = frozenset("&|<>'\"[]")

    def __init__(self, language: str, aggressive_dash: bool) -> None:
        super().__init__(language)
        self._dash = self.AGGRESSIVE_HYPHEN_SPLIT if aggressive_dash else None
        self._commas = (self.COMMA_SEPARATE_1, self.COMMA_SEPARATE_2, self.COMMA_SEPARATE_3)
        self._apostrophes = {
            "en": self.ENGLISH_SPECIFIC_APOSTROPHE,
            "fr": self.FR_IT_SPECIFIC_APOSTROPHE,
            "it": self.FR_IT_SPECIFIC_APOSTROPHE,
        }.get(language, [self.NON_SPECIFIC_APOSTROPHE])
        self._letters, self._lower = frozenset(self.IsAlpha), frozenset(self.IsLower)
        self._numbers = frozenset(self.IsN)
        self._prefixes_before_numbers = frozenset(self.NUMERIC_ONLY_PREFIXES)
        self._prefixes = frozenset(self.NONBREAKING_PREFIXES) - self._prefixes_before_numbers

    def cut(self, text: str) -> str:
        """The result of `" ".join(self.tokenize(text, escape=True))`."""
        text = self.ASCII_JUNK[0].sub("", " ".join(text.split())).strip()
        text = " ".join(self.PAD_NOT_ISALNUM[0].split(text))  # the pattern is one group, which split keeps
        if self._dash and "-" in text:
            text = self._dash[0].sub(self._dash[1], text)
        if ".." in text:
            text = self.replace_multidots(text)
        if "," in text:
            text = self._cut_commas(text)
        if "'" in text:
            for pattern, substitution in self._apostrophes:
                text = pattern.sub(substitution, text)
        text = self.handles_nonbreaking_prefixes(text)
        if text.endswith(".'"):
            text = " ".join(f"{text[:-2]} . '".split())
        if "DOTMULTI" in text:
            text = self.restore_multidots(text)
        if not self._XML.isdisjoint(text):
            text = self.escape_xml(text)
        return text

    def _cut_commas(self, text: str) -> str:
        pieces = text.split(",")
        # The first comma rule splits a comma off unless it follows a digit. It misses the second of two neighbouring
        # commas; in such lines the rules themselves run.
        if all(piece and piece[-1] not in self._numbers for piece in pieces[:-1]):
            return " , ".join(pieces)
        for pattern, substitution in self._commas:
            text = pattern.sub(substitution, text)
        return text

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        """Split a full stop off a token unless the token is an abbreviation or the next token begins in lower case."""
        tokens = text.split()
        for position, token in enumerate(tokens):
            if token[-1] != "." or token == ".":
                continue
            prefix = token[:-1]
            next_token = tokens[position + 1] if position + 1 < len(tokens) else ""
            if not (
                ("." in prefix and not self._letters.isdisjoint(prefix))
                or prefix in self._prefixes
                or next_token[:1] in self._lower
                or (prefix in self._prefixes_before_numbers and re.match("[0-9]", next_token))
            ):
                tokens[position] = prefix + " ."
        return " ".join(tokens)
