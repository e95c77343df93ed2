"""Texts as tokens and subwords."""

from __future__ import annotations

from phrasemt.artefacts.artefact import Artefact, JsonFile, of_dataset


class Tokens(Artefact, pattern=of_dataset("tokens/{split}.{language}")):
    """One side of a split as tokens with escaped XML characters, separated by spaces."""


class RoundTrip(JsonFile, pattern=of_dataset("tokens/{split}.{language}.round_trip.json")):
    """How well a sample of a text comes back from its tokens.

    score: BLEU of the detokenised tokens against the text, 0 to 100. lines: of the sample.
    """

    language: str
    score: float
    signature: str
    lines: int
    changed_lines: int


class Codes(Artefact, pattern=of_dataset("subwords/codes.bpe")):
    """The merges of byte pair encoding, in the format of subword-nmt."""


class SubwordCounts(Artefact, pattern=of_dataset("subwords/counts.{language}")):
    """How often each subword stands in the training text, for the threshold of the vocabulary (subword-nmt)."""


class Subwords(Artefact, pattern=of_dataset("subwords/{split}.{language}")):
    """One side of a split as subwords, separated by spaces."""
