"""Translation by beam search and by other programs; forced decoding (rules/decoding.smk)."""

from __future__ import annotations

from typing import Any, Literal, Self

from phrasemt.fields import Settings
from phrasemt.stages.scoring import SystemOnTestSets
from phrasemt.stages.stage import ModelStage, Stage, Wildcards
from phrasemt.study.architectures import ModelSettings
from phrasemt.study.schema import Decoding, Study
from phrasemt.study.tokenization import BleuTokenizer, Tokenizer


class Member(Settings):
    """A model of an ensemble. trained: the settings that its weights carry, without those of its search."""

    model: ModelSettings
    trained: ModelSettings


class SearchStage(ModelStage):
    """Base of the stages that translate, with one model or with an ensemble."""

    members: list[Member]  # one for each file of weights
    decoding: Decoding

    def code_modules(self) -> tuple[str, ...]:
        """The code of all families in the ensemble."""
        return (self.module, *dict.fromkeys(f"phrasemt.models.{member.model.family}" for member in self.members))

    @classmethod
    def search_of(cls, study: Study, wildcards: Wildcards) -> dict[str, Any]:
        """The values of the fields of the base."""
        system = study.models[wildcards["system"]]
        models = [
            study.models[member].model for member, _ in study.members_of(wildcards["system"], int(wildcards["seed"]))
        ]
        return {
            "model": system.model,
            "members": [Member(model=model, trained=model.trained_part) for model in models],
            "reads": system.model.model_inputs,
            "decoding": system.decoding,
        }


class TuneLengthPenalty(SearchStage):
    """Choose the length penalty with the best BLEU on dev."""

    module = "phrasemt.decoding.tune_length_penalty"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    libraries = ("torch", "sacrebleu")

    dataset: str
    system: str
    seed: int
    dev_bleu: BleuTokenizer  # as in TrainModel

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            **cls.search_of(study, wildcards),
            dataset=wildcards["dataset"],
            system=wildcards["system"],
            seed=int(wildcards["seed"]),
            dev_bleu=study.datasets[wildcards["dataset"]].tokenizer("target").bleu,
        )


class TranslateExamples(SearchStage):
    """Translate a split by beam search."""

    module = "phrasemt.decoding.translate"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("torch", "sacremoses")

    target_tokenizer: Tokenizer

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            **cls.search_of(study, wildcards), target_tokenizer=study.datasets[wildcards["dataset"]].tokenizer("target")
        )


class ImportTranslations(Stage):
    """Take the translations of another program for a test set, as tokens and as text."""

    module = "phrasemt.decoding.outside"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("jieba", "sacremoses")

    form: Literal["text", "tokens"]
    target_tokenizer: Tokenizer

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            form=study.outside[wildcards["system"]].form,
            target_tokenizer=study.datasets[wildcards["dataset"]].tokenizer("target"),
        )


class ScoreContrasts(ModelStage):
    """Count the contrastive pairs in which the right target scores higher, by kind of mistake and by distance."""

    module = "phrasemt.decoding.contrasts"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("torch", "jieba", "sacremoses", "subword-nmt")

    dataset: str
    contrast_set: str
    system: str
    seed: int
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    vocabulary_threshold: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        dataset, model = study.datasets[wildcards["dataset"]], study.models[wildcards["system"]].model
        return cls(
            dataset=wildcards["dataset"],
            contrast_set=wildcards["split"],
            system=wildcards["system"],
            seed=int(wildcards["seed"]),
            **cls.of_model(model),
            source_tokenizer=dataset.tokenizer("source"),
            target_tokenizer=dataset.tokenizer("target"),
            vocabulary_threshold=dataset.subwords.vocabulary_threshold,
        )


class AnalyseAttention(ModelStage):
    """Measure where a model attends on a test set; keep the weights of a few sentence pairs."""

    module = "phrasemt.decoding.attention"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("torch", "pyarrow")

    dataset: str
    test_set: str
    system: str
    seed: int
    sentences: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            dataset=wildcards["dataset"],
            test_set=wildcards["split"],
            system=wildcards["system"],
            seed=int(wildcards["seed"]),
            sentences=study.analyses.attention,
            **cls.of_model(study.models[wildcards["system"]].model),
        )


class ModelOnTestSets(ModelStage, SystemOnTestSets):
    """Base of the stages that ask a trained model about the references of the test sets."""

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(**cls.cell_of(study, wildcards), **cls.of_model(study.models[wildcards["system"]].model))


class ScorePerplexity(ModelOnTestSets):
    """Measure the perplexity of a language model, per token and per word."""

    module = "phrasemt.decoding.perplexity"
    libraries = ("torch",)

    words_are_cut: bool  # into subwords

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        model = study.models[wildcards["system"]].model
        return cls(
            **cls.cell_of(study, wildcards),
            **cls.of_model(model),
            words_are_cut=study.datasets[wildcards["dataset"]].subwords.unit == "bpe",
        )


class ScoreChunks(ModelOnTestSets):
    """Compare the decisions of a chunk-based decoder with the chunks of the reference."""

    module = "phrasemt.decoding.chunks"
    libraries = ("torch", "numpy")
