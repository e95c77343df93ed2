"""Tokens, subwords, vocabularies and packed examples (rules/subwords.smk)."""

from __future__ import annotations

from phrasemt.artefacts.paths import Paths
from phrasemt.stages.stage import Stage, files, named, of
from phrasemt.study.tokenization import Tokenizer


class TokenizeText(Stage):
    """Split a text into tokens, and measure how much of the text the tokens keep."""

    module = "phrasemt.text.tokenize"
    inputs = named("text")
    outputs = files(tokens=Paths.tokens, round_trip=Paths.round_trip)
    libraries = ("jieba", "sacrebleu", "sacremoses")

    tokenizer: Tokenizer = of(lambda job: job.dataset.tokenizer(job.dataset.side_of(job.wildcards["language"])))


class LearnSubwords(Stage):
    """Learn byte-pair merges on both languages together, or take over those of an exported model."""

    module = "phrasemt.text.subwords"
    inputs = named("source target", lists="given")
    outputs = files(codes=Paths.codes, source_counts=Paths.subword_counts, target_counts=Paths.subword_counts)
    libraries = ("subword-nmt",)

    merges: int | None = of(
        lambda job: None if job.dataset.subwords.symbols else job.dataset.subwords.merges, default=None
    )
    # In place of merges: these and the characters together.
    symbols: int | None = of(lambda job: job.dataset.subwords.symbols, default=None)


class ApplySubwords(Stage):
    """Cut tokens into subwords."""

    module = "phrasemt.text.subwords"
    inputs = named("tokens codes counts")
    outputs = files(subwords=Paths.subwords)
    libraries = ("subword-nmt",)

    vocabulary_threshold: int = of(lambda job: job.dataset.subwords.vocabulary_threshold)


class BuildVocabulary(Stage):
    """Number the subwords, or the most frequent words, or take over the numbers of an exported model."""

    module = "phrasemt.text.subwords"
    job_name = "{dataset}.{source}-{target}"
    inputs = named("source target", lists="given")
    outputs = files(source_vocabulary=Paths.vocabulary, target_vocabulary=Paths.vocabulary)

    shared: bool = of(lambda job: job.dataset.subwords.shared_vocabulary)  # one vocabulary of both sides
    # Size of a vocabulary of words; None for subwords, which are all kept.
    words: int | None = of(
        lambda job: job.dataset.subwords.words if job.dataset.subwords.unit == "word" else None, default=None
    )


class PackExamples(Stage):
    """Store a split as token ids that processes map into memory."""

    module = "phrasemt.batching.pack"
    inputs = named("rows source target source_vocabulary target_vocabulary")
    outputs = files(examples=Paths.examples)
    libraries = ("pyarrow",)
