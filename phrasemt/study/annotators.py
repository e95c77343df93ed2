"""Parsers and chunkers of a study: trained by the workflow, published by Stanza, or model files of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from phrasemt.fields import Language, Name, Seed, Settings


class AnnotatedText(Settings):
    """Sentences with trees or chunks to learn from: of the registry, of a generated data set, or a file of the user."""

    corpus: Name | None = Field(None, description="id in the registry, e.g. treebank")
    part: Name | None = Field(None, description="part of that corpus, e.g. train")
    generated: Name | None = Field(None, description="data set of this study that has a generator: its gold annotation")
    split: Literal["train", "dev", "test"] | None = Field(None, description="split of the generated data set")
    file: Path | None = Field(None, description="file of the user: bracketed trees, or CoNLL-2000 columns")

    @model_validator(mode="after")
    def _one_origin(self) -> AnnotatedText:
        given = {name for name in ("corpus", "part", "generated", "split", "file") if getattr(self, name) is not None}
        if given not in ({"corpus", "part"}, {"generated", "split"}, {"file"}):
            raise ValueError("give either corpus and part, or generated and split, or file")
        return self


class AnnotatorTraining(Settings):
    """What a parser or chunker is trained on. Sizes and budgets are those of a small model; see docs/syntax.md."""

    train: list[AnnotatedText] = Field(min_length=1, description="sentences to learn from")
    dev: list[AnnotatedText] = Field(
        [], description="sentences that choose the best epoch; empty: every twelfth one of train, held out"
    )
    test: list[AnnotatedText] = Field(min_length=1, description="sentences whose F1 is reported with the model")
    sentences: int | None = Field(None, gt=0, description="learn from the first so many sentences only; null: all")
    vectors: int = Field(100, ge=0, description="width of the word vectors, learned from train and text; 0: none")
    text: list[AnnotatedText] = Field([], description="more text, without annotation, for the word vectors")
    hidden: int = Field(128, gt=0, description="width of the LSTM states")
    seed: Seed = Field(1234, description="seed of the initial weights")


class ParserTraining(AnnotatorTraining):
    """A parser of our own: an XPOS tagger and a constituency parser on bracketed trees."""

    tagger_updates: int = Field(2400, gt=0, description="updates of the tagger, 32 sentences each")
    epochs: int = Field(20, gt=0, description="passes of the parser over the trees")


class ChunkerTraining(AnnotatorTraining):
    """A chunker of our own: a sequence tagger on CoNLL-2000 columns."""

    updates: int = Field(2400, gt=0, description="updates, 32 sentences each")


class ParserFiles(Settings):
    """Stanza model files of the user."""

    constituency: Path = Field(description="constituency parser (.pt)")
    tagger: Path | None = Field(None, description="part-of-speech tagger (.pt); none if the parser reads no tags")
    vectors: Path = Field(description="word vectors that both were trained with (.pt)")
    forward_charlm: Path | None = Field(None, description="forward character model, if they were trained with one")
    backward_charlm: Path | None = Field(None, description="backward character model, if they were trained with one")


class ChunkerFiles(Settings):
    """Stanza model files of the user."""

    chunker: Path = Field(description="sequence tagger for chunks (.pt), made with Stanza's ner_tagger")
    vectors: Path = Field(description="word vectors that it was trained with (.pt)")


class AnnotatorDefinition(Settings):
    """What parsers and chunkers have in common."""

    language: Language = Field(description="ISO 639 code, e.g. en")

    @property
    def texts(self) -> list[tuple[str, AnnotatedText]]:
        """The texts it is trained on, each with its place in the study."""
        training: AnnotatorTraining | None = getattr(self, "train", None)
        if training is None:
            return []
        return [
            (f"train.{part}.{number}", text)
            for part in ("train", "dev", "test", "text")
            for number, text in enumerate(getattr(training, part))
        ]


class Parser(AnnotatorDefinition):
    """A constituency parser. Exactly one of train, files, published."""

    train: ParserTraining | None = Field(None, description="trained by the workflow")
    files: ParserFiles | None = Field(None, description="model files of the user")
    published: Name | None = Field(None, description="one of Stanza's published packages, e.g. ptb3-revised_charlm")

    @model_validator(mode="after")
    def _one_origin(self) -> Parser:
        if sum(origin is not None for origin in (self.train, self.files, self.published)) != 1:
            raise ValueError("exactly one of train, files and published must be given")
        return self


class Chunker(AnnotatorDefinition):
    """A chunk tagger. Exactly one of train, files."""

    train: ChunkerTraining | None = Field(None, description="trained by the workflow")
    files: ChunkerFiles | None = Field(None, description="model files of the user")

    @model_validator(mode="after")
    def _one_origin(self) -> Chunker:
        if (self.train is None) == (self.files is None):
            raise ValueError("exactly one of train and files must be given")
        return self
