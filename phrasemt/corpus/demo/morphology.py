"""The inflection of the words of the demonstration corpus: principal parts to complete tables of forms.

English plurals and verb forms; German declension of nouns, determiners and adjectives, and German conjugation. With the
tables, `english` and `german` only look forms up.
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


def english_s(word: str) -> str:
    """The regular plural of a noun, or the regular third person of a verb."""
    if word.endswith(("s", "x", "z", "ch", "sh")) or word in ("go", "do"):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def english_ed(word: str) -> str:
    """The regular past. Verbs that double a consonant ("stopped") do not count as regular."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def english_article(next_word: str) -> str:
    """`a` or `an`, depending on the first sound of the next word."""
    if next_word.startswith(("use", "uni")) or next_word[0].lower() not in "aeiou":
        return "an" if next_word == "honest" else "a"
    return "an"


def english_verb(base: str, past: str = "", participle: str = "", *, particle: str = "") -> EnglishVerb:
    """Conjugate an English verb. Empty principal parts are regular."""
    if base == "be":
        return EnglishVerb("be", ("am", "is", "are"), ("was", "was", "were"), "been")
    past = past or english_ed(base)
    third = "has" if base == "have" else english_s(base)
    return EnglishVerb(base, (base, third, base), (past, past, past), participle or past, particle)


def german_noun(nominative: str, genitive: str, plural: str, *, weak: bool) -> Table:
    """Decline a noun by number and case. Only weak masculines change in the accusative and dative singular."""
    oblique = genitive if weak else nominative
    dative_plural = plural if plural.endswith(("n", "s")) else plural + "n"
    return ((nominative, oblique, oblique, genitive), (plural, plural, dative_plural, plural))


def inflect(stem: str, endings: Table) -> Table:
    """A stem with each ending of a table."""
    return tuple(tuple(stem + ending for ending in row) for row in endings)


def german_adjective(stem: str) -> dict[str, Table]:
    """Decline an adjective: strong, weak and mixed."""
    return {name: inflect(stem.removesuffix("e"), endings) for name, endings in ADJECTIVE_ENDINGS.items()}


def german_verb(
    infinitive: str,
    third: str = "",
    preterite: str = "",
    participle: str = "",
    *,
    prefix: str = "",
    perfect_with_sein: bool = False,
) -> GermanVerb:
    """Conjugate a German verb. The infinitive has no separable prefix; empty principal parts are weak and regular."""
    stem = infinitive[:-1] if infinitive.endswith(("eln", "ern")) else infinitive.removesuffix("n").removesuffix("e")
    weak = stem + "e" if stem.endswith(("t", "d", "ffn")) else stem
    third = third or weak + "t"
    preterite = preterite or weak + "te"
    if not participle:
        without_ge = infinitive.endswith("ieren") or infinitive.startswith(("be", "ge", "er", "ver", "zer"))
        participle = ("" if without_ge else "ge") + weak + "t"
    past_plural = preterite + ("n" if preterite.endswith("e") else "en")
    return GermanVerb(
        infinitive,
        (_german_first_person(infinitive, stem, third), third, "sind" if infinitive == "sein" else infinitive),
        (preterite, preterite, past_plural),
        prefix + participle,
        prefix,
        perfect_with_sein,
    )


def _german_first_person(infinitive: str, stem: str, third: str) -> str:
    if infinitive == "sein":
        return "bin"
    if infinitive == "wissen":
        return third
    if infinitive.endswith("eln"):
        return stem[:-2] + "le"
    return stem + "e"
