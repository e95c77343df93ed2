"""Parsers and chunkers of a study: trained by the workflow, published by Stanza, or the trees of another parser."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from phrasemt.fields import Language, Name, Number, Pairs, Settings, Updates, UserPath, Width


class AnnotatedText(Settings):
    """Sentences with trees or chunks: from the registry, from a generated data set, or in your file."""

    corpus: Name | None = Field(None, description="id of the corpus in the registry, e.g. treebank")
    part: Name | None = Field(None, description="part of the corpus, e.g. train")
    generated: Name | None = Field(None, description="name of a data set of the study that has a generator")
    split: Literal["train", "dev", "test"] | None = Field(None, description="split of the generated data set")
    file: UserPath | None = Field(None, description="your file: bracketed trees, or CoNLL-2000 columns")

    @model_validator(mode="after")
    def _one_origin(self) -> AnnotatedText:
        given = {name for name in ("corpus", "part", "generated", "split", "file") if getattr(self, name) is not None}
        if given not in ({"corpus", "part"}, {"generated", "split"}, {"file"}):
            raise ValueError("give either corpus and part, or generated and split, or file")
        return self


class AnnotatorTraining(Settings):
    """Data and size of a parser or chunker. The defaults make a small model; see docs/syntax.md."""

    train: list[AnnotatedText] = Field(min_length=1, description="training sentences")
    dev: list[AnnotatedText] = Field(
        [], description="sentences that select the best epoch; empty: every twelfth sentence of train is held out"
    )
    test: list[AnnotatedText] = Field(min_length=1, description="sentences for the reported F1")
    sentences: Pairs | None = Field(None, description="largest number of training sentences; null: no limit")
    vectors: Annotated[int, Field(ge=0), Number(at_most=10_000, because="the vectors of all words are in memory")] = (
        Field(100, description="width of word vectors, learned from train and text; 0: no vectors")
    )
    text: list[AnnotatedText] = Field([], description="further sentences for the word vectors")
    hidden: Width = Field(128, description="width of the LSTM states")


class ParserTraining(AnnotatorTraining):
    """A parser that the workflow trains on bracketed trees: an XPOS tagger and a constituency parser."""

    tagger_updates: Updates = Field(2400, description="updates of the tagger, of 32 sentences each")
    epochs: Annotated[
        int, Field(gt=0), Number(at_most=10_000, because="the smallest treebank takes days for so many")
    ] = Field(20, description="epochs of the parser")


class ChunkerTraining(AnnotatorTraining):
    """A chunker that the workflow trains on CoNLL-2000 columns."""

    updates: Updates = Field(2400, description="updates, of 32 sentences each")


class AnnotatorDefinition(Settings):
    """Base of parsers and chunkers."""

    language: Language = Field(description="ISO 639 code, e.g. en")

    @property
    def texts(self) -> list[tuple[str, AnnotatedText]]:
        training: AnnotatorTraining | None = getattr(self, "train", None)
        if training is None:
            return []
        return [
            (f"train.{part}.{number}", text)
            for part in ("train", "dev", "test", "text")
            for number, text in enumerate(getattr(training, part))
        ]


class Parser(AnnotatorDefinition):
    """A constituency parser, which has one of train, published, trees and generated."""

    train: ParserTraining | None = Field(None, description="a parser that the workflow trains")
    published: Name | None = Field(None, description="a package published by Stanza, e.g. ptb3-revised_charlm")
    trees: Annotated[list[UserPath], Field(min_length=1)] | None = Field(
        None,
        description="files with the trees of another parser in brackets, for the tokens of all splits, in any order",
    )
    generated: Name | None = Field(
        None, description="name of a data set with a generator, whose gold trees are the parses of its splits"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Parser:
        if sum(origin is not None for origin in (self.train, self.published, self.trees, self.generated)) != 1:
            raise ValueError("exactly one of train, published, trees and generated must be given")
        return self


class Chunker(AnnotatorDefinition):
    """A chunk tagger."""

    train: ChunkerTraining = Field(description="a chunker that the workflow trains")
