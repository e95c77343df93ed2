"""Translations, and what models say about given targets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.scores import OfTestSets
from phrasemt.fields import Settings
from phrasemt.files.attention import AttentionPlace
from phrasemt.files.lines import write_lines


class TranslatedHypothesis(Settings):
    """A translation with its score under the search."""

    score: float
    subwords: str


class TranslatedSentence(TranslatedHypothesis):
    """The best translation of a source, and the n best. row: of the source in the raw text."""

    row: int
    n_best: list[TranslatedHypothesis]


class Translations:
    """The n best translations of a test set, one JSON object a line."""

    @classmethod
    def write(cls, path: Path, sentences: Iterable[TranslatedSentence]) -> None:
        write_lines(path, (json.dumps(one.model_dump(mode="json"), ensure_ascii=False) for one in sentences))

    @classmethod
    def parse(cls, line: str) -> TranslatedSentence:
        return TranslatedSentence.model_validate_json(line)


class Counts(Settings):
    """Pairs, and those whose right target is the more probable one."""

    pairs: int
    right: int


class DistanceCounts(Counts):
    """Counts of pairs with distances from low to high, in words. high: None for no limit."""

    low: int
    high: int | None = None

    @property
    def name(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


class KindCounts(Counts):
    """Counts of the pairs with one kind of mistake. by_distance: of those with a known distance; no empty groups."""

    kind: str
    by_distance: list[DistanceCounts]


class ContrastDecisions(Settings):
    """The decision about each pair of a set, in its order: what two systems are compared by.

    kinds: the place of its kind of mistake among the counts. distances: None where unknown. clusters: pairs with one
    number are drawn together; None: each pair is drawn alone.
    """

    kinds: list[int]
    distances: list[int | None]
    right: list[bool]
    clusters: list[int] | None = None


class ContrastAccuracy(JsonFile, format=4):
    """How many contrastive pairs of a set a model decides right. contrast_set: the split that the pairs belong to."""

    indent = None

    dataset: str
    contrast_set: str
    system: str
    seed: int
    kinds: list[KindCounts]
    decisions: ContrastDecisions

    @property
    def total(self) -> Counts:
        return Counts(pairs=sum(kind.pairs for kind in self.kinds), right=sum(kind.right for kind in self.kinds))


class Perplexity(Settings):
    """Perplexities on one test set. tokens: number of tokens of the vocabulary, `</s>` included."""

    sentences: int
    words: int
    tokens: int
    nll: float
    per_token: float
    per_word: float


class PerplexityScores(OfTestSets[Perplexity]):
    """Perplexities of a language model on the test sets."""


class ChunkDecisions(Settings):
    """Accuracies of decisions about chunks, 0 to 1.

    boundary_acc: fraction of positions with the right boundary decision.
    label_acc_paper: fraction of positions with the right boundary decision and the right label. Within chunks the right
    label is NULL, which no model is trained to predict, so it hardly exceeds the fraction of starts.
    label_acc: fraction of the reference's chunks with the right label.
    """

    boundary_acc: float
    boundary_precision: float
    boundary_recall: float
    boundary_f1: float
    label_acc_paper: float
    label_acc: float


class ChunkAccuracy(ChunkDecisions):
    """Accuracies on one test set. chunks: of the reference. majority: always a start, and the commonest label."""

    sentences: int
    positions: int
    chunks: int
    majority: ChunkDecisions


class ChunkAccuracies(OfTestSets[ChunkAccuracy]):
    """Accuracies of a chunk-based decoder on the test sets (Zhou et al. 2017, Table 3)."""


class LayerAttention(Settings):
    """Means over the real queries of one attention.

    mass: fraction of the weights on each order of n-grams, the mean over heads; heads: the same for each head.
    entropy: in nats, the mean over heads. keys: number of tokens, n-grams or phrases with a weight above 0. even: the
    mass if all of them had the same weight; empty in files of versions that did not count it.
    """

    place: AttentionPlace
    layer: int
    mass: list[float]
    heads: list[list[float]]
    entropy: float
    keys: float
    even: list[float] = Field(default_factory=list)

    @property
    def phrase_mass(self) -> float:
        return 100 * sum(self.mass[1:])

    @property
    def even_phrase_mass(self) -> float | None:
        """The same of even attention: what an untrained model has."""
        return 100 * sum(self.even[1:]) if self.even else None


class AttentionAnalysis(JsonFile, format=2):
    """Where a model attends on a test set, and its perplexity. diagnostics: of the model, by name.

    mixtures: by name, weights with which each decoder layer mixes the levels of the encoder, a row for each level.
    sentence_nats, sentence_tokens: of each reference, its negative log-probability and its length in tokens.
    """

    indent = None

    dataset: str
    test_set: str
    system: str
    seed: int
    sentences: int
    tokens: int
    perplexity: float
    diagnostics: dict[str, float]
    mixtures: dict[str, list[list[float]]] = Field(default_factory=dict)
    attentions: list[LayerAttention]
    sentence_nats: list[float]
    sentence_tokens: list[int]
