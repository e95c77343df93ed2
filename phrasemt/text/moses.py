"""Moses tokens by sacremoses, and their detokenisation.

Tokens equal sacremoses', with these exceptions, without which a detokeniser cannot find the text again (T1 and T5 in
docs/decisions.md):

* The colon in words of Finnish and Swedish (`EU:n`), the apostrophe in words of Tetum and the middle dot in words of
  Catalan stay, and Catalan and Irish split their articles like French, as in the Perl original.
* A typographic apostrophe (U+2019) is split like the ASCII apostrophe: `don ’t`, `l’ eau`.
* In languages that Moses has no rules for, an apostrophe between letters stays in its word.
* Marks without a place of their own cut no word: accents that are not composed, joiners (U+200C, U+200D), soft hyphens,
  directions. The rules see the text without them. Neither do the hyphen U+2011, marks of Hebrew abbreviations, and the
  letter that Uzbek writes as o and U+2018.

The detokeniser joins typographic apostrophes and quotation marks as it joins ASCII ones, commas and full stops of other
scripts too, and single and pointed quotation marks as it joins brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from unicodedata import category

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import Perluniprops

from phrasemt.languages import WITH_MOSES_RULES, WITHOUT_SPACES
from phrasemt.symbols import INVISIBLE, unescape

# Their articles and pronouns end in an apostrophe: l’ eau. The Perl original lists all four, sacremoses two of them.
_FRENCH_APOSTROPHE = frozenset({"fr", "it", "ca", "ga"})
# Characters that stay in a word in front of a small letter, as in the Perl original.
_IN_WORDS = {"fi": ":", "sv": ":", "tdt": "'", "ca": "·"}
# The rules split every apostrophe off on both sides: T ' ai. Swedish and Finnish also quote between two U+2019.
_SPLIT_APOSTROPHE = WITH_MOSES_RULES - _FRENCH_APOSTROPHE - {"en", "tdt"}
_QUOTES_BY_APOSTROPHES = frozenset({"sv", "fi"})

_APOSTROPHE = "\u2019"
_LETTER = r"[^\W\d_]"
_BETWEEN_LETTERS = re.compile(f"(?<={_LETTER}) {_APOSTROPHE} (?={_LETTER})")
# Where an apostrophe of ASCII cannot quote: behind a number (feet), and in words that are shortened.
_FEET = re.compile(r"^((?:[^']|(?<=\d)')*\d) '(?= )")  # the first one that stands apart
_TIMES = "avonds|heren|lands|maandags|middags|morgens|nachts|ochtends|werelds|winters|zomers"  # behind the 's of Dutch
_SHORTENED = {
    "de": re.compile(f"(?<={_LETTER}) ' (?=s\\b)"),
    "nl": re.compile(f"(?<={_LETTER}) ' (?=s\\b(?! (?:{_TIMES})))"),
}
_ITALIAN_PO = re.compile(r"\b([pPmMbB][oe]) ?' ?(?=\w)")
# A flag is two letters; an emoji that is joined to the next one ends in a joiner.
_FLAG_LETTER, _PICTURE = "[\U0001f1e6-\U0001f1ff]", "[\u2600-\U0001faff]"
_EMOJI = re.compile(f"({_FLAG_LETTER}) ({_FLAG_LETTER})|({_PICTURE}\ufe0f?[🏻-🏿]?\u200d) (?={_PICTURE})")
# What the rules see as a letter: the non-breaking hyphen, and by language further marks in words.
_HEBREW = f'[\u05be\u05f3\u2011]|(?<={_LETTER})["\u05f4](?={_LETTER})'
# The marks of Armenian stand behind the vowel of a word: emphasis, exclamation, question.
_LIKE_LETTERS = {
    "hy": "[\u2011\u055b\u055c\u055e]",
    "uz": f"\u2011|(?<=[oOgG])‘|(?<={_LETTER})‘(?={_LETTER})",
    "he": _HEBREW,
    "yi": _HEBREW,
}
_ANY_LETTER = "\u02bb"
# What belongs to the character beside it: all that is invisible, marks (category M) that are no letters of Moses, and
# the colours of emoji.
_ALNUM = frozenset(MosesTokenizer.IsAlnum)
_MARKS = "".join(char for char in map(chr, range(0x20000)) if category(char)[0] == "M" and char not in _ALNUM)
_BESIDE = INVISIBLE.replace("\u200b", "") + _MARKS + "\U0001f3fb-\U0001f3ff"  # U+200B is a space between words
_ATTACHED = re.compile(f"(?<=[^\\s{_BESIDE}])[{_BESIDE}]+|[{_BESIDE}]+(?=[^\\s{_BESIDE}])")
_CHARACTER = re.compile(f"(?:(?<!\\S)[{_BESIDE}]+)?[^\\s{_BESIDE}][{_BESIDE}]*|[{_BESIDE}]")
# Sets, because patterns with so many characters are slow; nearly all lines have none of them.
_INVISIBLE = re.findall(f"[{INVISIBLE}]", "".join(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))))
_ALL_BESIDE = frozenset(_INVISIBLE) - {"\u200b"} | frozenset(_MARKS) | frozenset("🏻🏼🏽🏾🏿")
_SEEN_OTHERWISE = _ALL_BESIDE | frozenset(f"{_APOSTROPHE}‘\u2011")
_OPENING = frozenset("‘‚")
_LOW_QUOTE = re.compile("‚[^‚‘]*‘")  # in a line with such a quotation, ’ is no quotation mark
# The marks that close a quotation, by the mark that opens it. Languages differ: «so» and »so«, ‚so‘ and ‚so’, »so».
_CLOSED_BY = {"‘": "’", "‚": "‘’", "‹": "›‹", "›": "›‹", "«": "»«", "»": "»«"}
# sacremoses joins “ by counting it together with ", and knows neither ‘ nor ”.
_STRAIGHT = {_APOSTROPHE: "'", "‘": "'", "”": "“"}
# Punctuation that it does not know, and that stands where the ASCII character stands.
_STRAIGHT |= dict(zip("،؛؟۔।॥։՝።፣፤፧٪", ",;?....,.,;?%", strict=True))
# French has spaces inside of its quotation marks, other languages have none.
_GUILLEMETS = {"«": "“", "»": "“"}
_POINTED = frozenset("«»‹›")
_STRAIGHTENED = _ALL_BESIDE | _STRAIGHT.keys() | _CLOSED_BY.keys()
# Characters of Chinese and Japanese, with their punctuation and full-width forms.
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
_SPACE_BESIDE_WIDE = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """A function from a line of text to its escaped Moses tokens, separated by single spaces.

    language: two-letter code where there is one.
    """
    return _Tokenizer(language).cut


def moses_detokenizer(language: str) -> Callable[[str], str]:
    """A function from a line of escaped Moses tokens to plain text, without @-@ and escapes."""
    # For Catalan, sacremoses has no rule of its own and the needed one for Italian, which has no others.
    moses = MosesDetokenizer("it" if language == "ca" else language)
    may_join = language in _SPLIT_APOSTROPHE - _QUOTES_BY_APOSTROPHES
    straight = str.maketrans(_STRAIGHT if language == "fr" else _STRAIGHT | _GUILLEMETS)
    if language == "el":
        straight |= {ord(mark): ";" for mark in "·\u0387"}
    straightened = _STRAIGHTENED | frozenset(map(chr, straight))
    marks = {mark: _CLOSED_BY[mark] for mark in _CLOSED_BY if language != "fr" or mark not in _POINTED}

    def detokenize(line: str) -> str:
        line = unescape(f" {line} ".replace(" @-@ ", "-"))
        if may_join and _APOSTROPHE in line and _OPENING.isdisjoint(_LOW_QUOTE.sub("", line)):
            line = _BETWEEN_LETTERS.sub(_APOSTROPHE, line)
        if " '" in line:
            while (again := _FEET.sub(r"\1'", line)) != line:
                line = again
            if language in _SHORTENED:
                line = _SHORTENED[language].sub("'", line)
        # sacremoses only decides where spaces stand, so its spaces can be put between the original characters.
        tokens = line.split(" ")
        if not _ALL_BESIDE.isdisjoint(line):
            tokens = [_ATTACHED.sub("", token) for token in tokens]
        if not marks.keys().isdisjoint(line):
            tokens = list(_as_brackets(tokens, marks))
        joined = moses.detokenize([token.translate(straight) for token in tokens], unescape=False)
        if not straightened.isdisjoint(line):
            joined = _with_characters_of(line, joined)
        if language == "it":
            joined = _ITALIAN_PO.sub(r"\1' ", joined)
        if not joined.isascii():
            joined = _EMOJI.sub(r"\1\2\3", joined)
        return _SPACE_BESIDE_WIDE.sub("", joined) if language in WITHOUT_SPACES else joined

    return detokenize


def _with_characters_of(text: str, spaced: str) -> str:
    """The characters of a text, with the spaces (and @-@) of what the rules have made of it."""
    characters = iter(_CHARACTER.findall(text) if not _ALL_BESIDE.isdisjoint(text) else "".join(text.split()))
    pieces: list[str] = []
    for piece in spaced.split(" @-@ "):
        if pieces:
            next(characters, "")  # the hyphen
        pieces.append("".join(" " if place == " " else next(characters, "") for place in piece))
    return " @-@ ".join(pieces)


def _as_brackets(tokens: Sequence[str], marks: Mapping[str, str]) -> Iterator[str]:
    """Yield tokens with brackets in place of quotation marks that stand in pairs. marks: as _CLOSED_BY."""
    awaited: set[str] = set()  # marks that would close an open quotation
    for place, token in enumerate(tokens):
        if token in awaited:
            awaited -= {token, *marks.get(token, "")}
            yield ")"
        elif closing := [mark for mark in marks.get(token, "") if mark in tokens[place + 1 :]]:
            awaited |= {*closing} if token in _POINTED else {closing[0]}
            yield "("
        else:
            yield token


class _Tokenizer(MosesTokenizer):  # type: ignore[misc]
    """The rules and patterns of sacremoses in their order, without work that cannot change a line.

    A rule runs only if the line contains a character that it needs, and the sets of letters are built once and not for
    each full stop. This makes about six times as many lines per second. Tests compare every byte with sacremoses.
    """

    _LOWER = "".join(Perluniprops().chars("Lowercase_Letter"))
    _XML = frozenset("&|<>'\"[]")

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._like_letters = re.compile(_LIKE_LETTERS.get(language, "\u2011"))
        self._seen_otherwise = (
            _SEEN_OTHERWISE
            | frozenset("\u055b\u055c\u055e" if language == "hy" else "")
            | frozenset('"\u05be\u05f3\u05f4' if language in ("he", "yi") else "")
        )
        in_words = _IN_WORDS.get(language, "")
        self._pad = re.compile(rf"([^{self.IsAlnum}\s\.'\`\,\-{in_words}])") if in_words else self.PAD_NOT_ISALNUM[0]
        self._in_words = re.compile(rf"({in_words})(?=$|[^{self._LOWER}])") if in_words else None
        self._commas = (self.COMMA_SEPARATE_1, self.COMMA_SEPARATE_2, self.COMMA_SEPARATE_3)
        if language == "en":
            self._apostrophes = self.ENGLISH_SPECIFIC_APOSTROPHE
        elif language in _FRENCH_APOSTROPHE:
            self._apostrophes = self.FR_IT_SPECIFIC_APOSTROPHE
        elif language in _SPLIT_APOSTROPHE:
            self._apostrophes = [self.NON_SPECIFIC_APOSTROPHE]
        else:
            self._apostrophes = [(re.compile(f"(?<![{self.IsAlpha}])'|'(?![{self.IsAlpha}])"), " ' ")]
        self._letters, self._lower = frozenset(self.IsAlpha), frozenset(self.IsLower)
        self._numbers = frozenset(self.IsN)
        entries = (entry.partition("#NUMERIC_ONLY#") for entry in self.NONBREAKING_PREFIXES)
        # Of two entries for one prefix the last one counts, as in the Perl original.
        before_numbers = {prefix.strip(): bool(mark) for prefix, mark, _ in entries}
        self._prefixes_before_numbers = {prefix for prefix, only in before_numbers.items() if only}
        self._prefixes = before_numbers.keys() - self._prefixes_before_numbers

    def cut(self, text: str) -> str:
        """Moses' tokens of a line, escaped."""
        line = text = self.ASCII_JUNK[0].sub("", " ".join(text.split())).strip()
        if not (self._seen_otherwise.isdisjoint(text) or "DOTMULTI" in text):  # by this word the rules mark full stops
            if not _ALL_BESIDE.isdisjoint(text):
                text = _ATTACHED.sub("", text)
            text = self._like_letters.sub(_ANY_LETTER, text.replace(_APOSTROPHE, "'"))
        changed = text != line
        text = " ".join(self._pad.split(text))  # the pattern is one group, which split keeps
        if self._in_words:
            text = self._in_words.sub(r" \1 ", text)
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
        if changed:
            text = _with_characters_of(line, text)
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
