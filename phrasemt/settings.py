"""The parts of a study that one stage really uses, one class for each stage.

They are what a rule passes to its subcommand and what decides whether a finished artefact is still valid, so each is as
small as it can be. `phrasemt.stages` takes them out of a study.
"""

from __future__ import annotations

from typing import Literal

from phrasemt.fields import Settings
from phrasemt.study.architectures import ModelSettings, PhraseSegmentation
from phrasemt.study.schema import CleaningFilters, Decoding, Training


class CorpusFileSettings(Settings):
    """fetch_corpus: which file of which corpus."""

    corpus: str
    file: str


class ExtractSettings(Settings):
    """extract_text: which side of which part."""

    corpus: str
    part: str
    language: str


class PartitionSettings(Settings):
    """partition_corpus."""

    dev: int
    test: int
    seed: int


class DemoSettings(Settings):
    """generate_demo."""

    split: Literal["train", "dev", "test"]
    pairs: int
    seed: int


class CleanSettings(Settings):
    """clean_pairs; `filters` is None for dev and test sets."""

    source_language: str
    target_language: str
    filters: CleaningFilters | None


class TokenizeSettings(Settings):
    """tokenize_text."""

    language: str
    aggressive_dash: bool


class LearnSubwordsSettings(Settings):
    """learn_subwords."""

    merges: int


class ApplySubwordsSettings(Settings):
    """apply_subwords."""

    vocabulary_threshold: int


class VocabularySettings(Settings):
    """build_vocabulary: one file of both sides, or one side's; the most frequent words only, or all subwords."""

    shared: bool
    words: int | None = None


class PackSettings(Settings):
    """pack_examples has nothing to choose."""


class CollectSettings(Settings):
    """collect_sentences has nothing to choose."""


class StanzaFileSettings(Settings):
    """fetch_stanza_file: a file of Stanza's published models, as phrasemt/syntax/published.yaml names it."""

    language: str
    file: str


class VectorsSettings(Settings):
    """train_vectors; `vectors` is their width, 0: none, only the empty file that Stanza wants."""

    language: str
    vectors: int
    seed: int


class TaggerSettings(Settings):
    """train_tagger."""

    language: str
    sentences: int | None
    hidden: int
    tagger_updates: int
    seed: int


class ParserSettings(Settings):
    """train_parser."""

    language: str
    sentences: int | None
    hidden: int
    epochs: int
    seed: int


class ChunkerSettings(Settings):
    """train_chunker."""

    language: str
    sentences: int | None
    hidden: int
    updates: int
    seed: int


class DescribeSettings(Settings):
    """describe_annotator: model files that were not trained here."""

    kind: Literal["constituency", "chunks"]
    language: str
    origin: Literal["files", "published"]


class AnnotateSettings(Settings):
    """parse_sentences, tag_sentences: which part of the sentences."""

    job: int
    jobs: int


class PhrasesSettings(Settings):
    """extract_phrases."""

    segmentation: PhraseSegmentation


class MeasureSettings(Settings):
    """measure_phrases has nothing to choose."""


class ChunksSettings(Settings):
    """extract_chunks."""

    origin: Literal["gold", "chunker", "parser"]


class TrainSettings(Settings):
    """train_model."""

    model: ModelSettings
    training: Training
    seed: int
    target_language: str


class AverageSettings(Settings):
    """average_checkpoints."""

    last: int


class TranslateSettings(Settings):
    """translate. The model is named so that weights of another one are refused."""

    model: ModelSettings
    decoding: Decoding
    target_language: str


class SystemOnTestSets(Settings):
    """A trained system on the test sets of a data set: the names say which cells of the table are meant."""

    dataset: str
    system: str
    seed: int
    test_sets: list[str]


class ScoreSettings(SystemOnTestSets):
    """score_system."""

    target_language: str
    aggressive_dash: bool


class CompareSettings(Settings):
    """compare_systems: paired bootstrap of a system against the baseline."""

    dataset: str
    system: str
    baseline: str
    samples: int
    seed: int


class ContrastSettings(Settings):
    """score_contrasts: forced decoding of right and wrong targets."""

    dataset: str
    system: str
    seed: int
    model: ModelSettings
    source_language: str
    target_language: str
    aggressive_dash: bool
    vocabulary_threshold: int


class PerplexitySettings(SystemOnTestSets):
    """score_perplexity, of a language model."""

    model: ModelSettings


class ChunkScoreSettings(SystemOnTestSets):
    """score_chunks: the decisions of a chunk-based decoder."""

    model: ModelSettings


class TableSettings(Settings):
    """make_table: rows and columns."""

    study: str
    title: str
    baseline: str
    # Lists and not mappings: settings travel as JSON with sorted keys, and the order is that of the table.
    systems: list[tuple[str, str]]  # name and title of each row
    test_sets: list[tuple[str, str]]  # data set and test set of each block
    contrasts: list[str]  # data sets with contrastive pairs
    language_models: list[str]  # systems with perplexities in place of translations
    chunking: list[str]  # systems that decide about chunks
    seeds: list[int]

    @property
    def translating(self) -> list[tuple[str, str]]:
        """Name and title of the systems with translations."""
        return [(name, title) for name, title in self.systems if name not in self.language_models]


class ReportSettings(Settings):
    """write_report."""

    title: str
