"""Translation by beam search and by other programs; forced decoding (rules/decoding.smk)."""

from __future__ import annotations

from phrasemt.artefacts.paths import Paths
from phrasemt.stages.scoring import SystemOnTestSets
from phrasemt.stages.stage import ModelStage, Stage, files, named, of
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import Tokenizer


class TranslateExamples(ModelStage):
    """Translate a split by beam search."""

    module = "phrasemt.decoding.translate"
    inputs = named("weights examples source_vocabulary target_vocabulary", lists="phrases")
    outputs = files(translations=Paths.translations, tokens=Paths.translated_tokens, text=Paths.translated_text)
    libraries = ("torch", "sacremoses")

    decoding: Decoding = of(lambda job: job.system.decoding)
    target_tokenizer: Tokenizer = of(lambda job: job.target_tokenizer)


class ImportTranslations(Stage):
    """Take the translations of another program for a test set, as tokens and as text."""

    module = "phrasemt.decoding.outside"
    inputs = named("translations reference")
    outputs = files(tokens=Paths.translated_tokens, text=Paths.translated_text)
    libraries = ("jieba", "sacremoses")

    target_tokenizer: Tokenizer = of(lambda job: job.target_tokenizer)


class ScoreContrasts(ModelStage):
    """Count the contrastive pairs in which the right target scores higher, by kind of mistake and by distance."""

    module = "phrasemt.decoding.contrasts"
    inputs = named(
        "weights contrasts source_vocabulary target_vocabulary", lists="codes source_counts target_counts phrases"
    )
    outputs = files(accuracy=Paths.contrast_accuracy)
    libraries = ("torch", "jieba", "sacremoses", "subword-nmt")

    dataset: str
    contrast_set: str = of(lambda job: job.wildcards["split"])
    system: str
    seed: int
    source_tokenizer: Tokenizer = of(lambda job: job.dataset.tokenizer("source"))
    target_tokenizer: Tokenizer = of(lambda job: job.target_tokenizer)
    vocabulary_threshold: int = of(lambda job: job.dataset.subwords.vocabulary_threshold)


class AnalyseAttention(ModelStage):
    """Measure where a model attends on a test set; keep the weights of a few sentence pairs."""

    module = "phrasemt.decoding.attention"
    inputs = named("weights examples source_vocabulary target_vocabulary", lists="phrases chunks")
    outputs = files(attention=Paths.attention_weights, analysis=Paths.attention_analysis)
    libraries = ("torch", "pyarrow")

    dataset: str
    test_set: str = of(lambda job: job.wildcards["split"])
    system: str
    seed: int


class ModelOnTestSets(SystemOnTestSets, ModelStage):
    """Base of the stages that ask a trained model about the references of the test sets."""


class ScorePerplexity(ModelOnTestSets):
    """Measure the perplexity of a language model, per token and per word."""

    module = "phrasemt.decoding.forced_scores"
    inputs = named("weights source_vocabulary target_vocabulary", lists="examples text")
    outputs = files(perplexity=Paths.perplexity_scores)

    words_are_cut: bool = of(lambda job: job.dataset.subwords.unit == "bpe")  # into subwords


class ScoreChunks(ModelOnTestSets):
    """Compare the decisions of a chunk-based decoder with the chunks of the reference."""

    module = "phrasemt.decoding.forced_scores"
    inputs = named("weights source_vocabulary target_vocabulary", lists="examples chunks")
    outputs = files(scores=Paths.chunk_accuracies)
    libraries = ("torch", "numpy")
