"""Parses, phrases and chunks, and the models that make them."""

from __future__ import annotations

from phrasemt.artefacts.artefact import JsonFile


class TaggerScores(JsonFile):
    """The accuracies of a tagger, 0 to 1."""

    dev_accuracy: float
    test_accuracy: float


class PhraseStatistics(JsonFile):
    """Statistics of the phrases of a segmentation.

    segmentation, settings: its name and options. tokens: encoder positions, `</s>` included. lengths: number of phrases
    of each length in encoder positions. fallbacks: sentences that had no parse and were cut into n-grams, by reason.
    comparable: phrases of parsed sentences, without those of `</s>` alone; constituents: those whose tokens, without
    `</s>`, are the span of a node of the parse. Both are None without parses.
    """

    segmentation: str
    settings: dict[str, object]
    sentences: int
    phrases: int
    tokens: int
    lengths: dict[int, int]
    fallbacks: dict[str, int]
    constituents: int | None = None
    comparable: int | None = None

    @property
    def mean_length(self) -> float:
        return self.tokens / max(self.phrases, 1)

    @property
    def share_of_constituents(self) -> float | None:
        """Fraction of constituents among the phrases of parsed sentences, 0 to 1; None if nothing was compared."""
        return self.constituents / self.comparable if self.constituents is not None and self.comparable else None


class ChunkStatistics(JsonFile, format=2):
    """Statistics of the chunks of a split, `</s>` excluded.

    mean_chunk_length: in words; None without chunks. labels: number of chunks by label. fallbacks: sentences without
    tags, by reason.
    """

    origin: str
    sentences: int
    words: int
    chunks: int
    mean_chunk_length: float | None = None
    labels: dict[str, int]
    fallbacks: dict[str, int]
