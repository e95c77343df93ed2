"""The inflection of the demonstration corpus: numbers of cases, genders and persons, and German endings.

lexicon.tsv has the forms of nouns and verbs; the endings here make those of determiners and adjectives.
"""

from __future__ import annotations

from typing import NamedTuple

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)  # rows of German tables: three genders of the singular, and the plural
FIRST, SINGULAR, MANY = range(3)  # agreement of a finite verb: with "I", with a third person singular, with a plural

Table = tuple[tuple[str, ...], ...]  # rows: gender or number; columns: case
Finite = tuple[str, str, str]  # FIRST, SINGULAR, MANY

ARTICLES: Table = (
    ("der", "den", "dem", "des"),
    ("die", "die", "der", "der"),
    ("das", "das", "dem", "des"),
    ("die", "die", "den", "der"),
)
RELATIVE_PRONOUNS: Table = (
    ("der", "den", "dem"),
    ("die", "die", "der"),
    ("das", "das", "dem"),
    ("die", "die", "denen"),
)

# Endings of dieser, jeder, viele ..., and of ein, kein, mein ...
DIESER_ENDINGS: Table = (
    ("er", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "es"),
    ("e", "e", "en", "er"),
)
EIN_ENDINGS: Table = (("", "en", "em", "es"), ("e", "e", "er", "er"), ("", "", "em", "es"), ("e", "e", "en", "er"))

# Adjective endings: strong without a determiner, weak after der and dieser, mixed after ein.
ADJECTIVE_ENDINGS: dict[str, Table] = {
    "strong": (("er", "en", "em", "en"), ("e", "e", "er", "er"), ("es", "es", "em", "en"), ("e", "e", "en", "er")),
    "weak": (("e", "en", "en", "en"), ("e", "e", "en", "en"), ("e", "e", "en", "en"), ("en", "en", "en", "en")),
    "mixed": (("er", "en", "en", "en"), ("e", "e", "en", "en"), ("es", "es", "en", "en"), ("en", "en", "en", "en")),
}


class EnglishVerb(NamedTuple):
    """The forms of an English verb. particle: "up" in "wake up"."""

    base: str
    present: Finite
    past: Finite
    participle: str
    particle: str = ""


class GermanVerb(NamedTuple):
    """The forms of a German verb. The participle includes the separable prefix; the other forms do not."""

    infinitive: str
    present: Finite
    past: Finite
    participle: str
    prefix: str = ""
    perfect_with_sein: bool = False


def english_article(next_word: str) -> str:
    """`a` or `an`, depending on the first sound of the next word."""
    if next_word.startswith(("use", "uni")) or next_word[0].lower() not in "aeiou":
        return "an" if next_word == "honest" else "a"
    return "an"


def inflect(stem: str, endings: Table) -> Table:
    """A stem with each ending of a table."""
    return tuple(tuple(stem + ending for ending in row) for row in endings)


def german_adjective(stem: str) -> dict[str, Table]:
    """Decline an adjective: strong, weak and mixed."""
    return {name: inflect(stem.removesuffix("e"), endings) for name, endings in ADJECTIVE_ENDINGS.items()}
