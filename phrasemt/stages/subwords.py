"""Tokens, subwords, vocabularies and packed examples (rules/subwords.smk)."""

from __future__ import annotations

from typing import Self

from phrasemt.stages.stage import Stage, Wildcards
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Tokenizer


class TokenizeText(Stage):
    """Split a text into tokens, and measure how much of the text the tokens keep."""

    module = "phrasemt.text.tokenize"
    job_name = "{dataset}.{source}-{target}/{split}.{language}"
    libraries = ("jieba", "sacrebleu", "sacremoses")
    cached = True

    tokenizer: Tokenizer

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        dataset = study.datasets[wildcards["dataset"]]
        return cls(tokenizer=dataset.tokenizer(dataset.side_of(wildcards["language"])))


class LearnSubwords(Stage):
    """Learn byte-pair merges on both languages together, or take over those of an exported model."""

    module = "phrasemt.text.subwords"
    job_name = "{dataset}.{source}-{target}"
    libraries = ("subword-nmt",)
    cached = True

    merges: int | None = None
    symbols: int | None = None  # in place of merges: these and the characters together

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        subwords = study.datasets[wildcards["dataset"]].subwords
        return cls(merges=None if subwords.symbols else subwords.merges, symbols=subwords.symbols)


class ApplySubwords(Stage):
    """Cut tokens into subwords."""

    module = "phrasemt.text.subwords"
    job_name = "{dataset}.{source}-{target}/{split}.{language}"
    libraries = ("subword-nmt",)
    cached = True

    vocabulary_threshold: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(vocabulary_threshold=study.datasets[wildcards["dataset"]].subwords.vocabulary_threshold)


class BuildVocabulary(Stage):
    """Number the subwords, or the most frequent words, or take over the numbers of an exported model."""

    module = "phrasemt.text.vocab"
    job_name = "{dataset}.{source}-{target}"
    cached = True

    shared: bool  # one vocabulary of both sides
    words: int | None = None  # size of a vocabulary of words; None for subwords, which are all kept

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        subwords = study.datasets[wildcards["dataset"]].subwords
        return cls(shared=subwords.shared_vocabulary, words=subwords.words if subwords.unit == "word" else None)


class PackExamples(Stage):
    """Store a split as token ids that processes map into memory."""

    module = "phrasemt.batching.pack"
    job_name = "{dataset}.{source}-{target}/{split}"
    libraries = ("pyarrow",)
    cached = True
