"""Translation by beam search and by other programs; forced decoding (rules/decoding.smk)."""

from __future__ import annotations

from typing import Any, Literal

from phrasemt.fields import Settings
from phrasemt.stages.scoring import SystemOnTestSets
from phrasemt.stages.stage import ModelStage, Stage, StudyJob
from phrasemt.study.architectures import ModelSettings
from phrasemt.study.schema import Decoding
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
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        members = job.study.members_of(job.wildcards["system"], int(job.wildcards["seed"]))
        models = [job.study.models[member].model for member, _ in members]
        return {
            "model": job.system.model,
            "members": [Member(model=model, trained=model.trained_part) for model in models],
            "reads": job.system.model.model_inputs,
            "decoding": job.system.decoding,
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
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return super().of_job(job) | {"dev_bleu": job.dataset.tokenizer("target").bleu}


class TranslateExamples(SearchStage):
    """Translate a split by beam search."""

    module = "phrasemt.decoding.translate"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("torch", "sacremoses")

    target_tokenizer: Tokenizer

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return super().of_job(job) | {"target_tokenizer": job.dataset.tokenizer("target")}


class ImportTranslations(Stage):
    """Take the translations of another program for a test set, as tokens and as text."""

    module = "phrasemt.decoding.outside"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("jieba", "sacremoses")

    form: Literal["text", "tokens"]
    target_tokenizer: Tokenizer

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        form = job.study.outside[job.wildcards["system"]].form
        return {"form": form, "target_tokenizer": job.dataset.tokenizer("target")}


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
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return super().of_job(job) | {
            "contrast_set": job.wildcards["split"],
            "source_tokenizer": job.dataset.tokenizer("source"),
            "target_tokenizer": job.dataset.tokenizer("target"),
            "vocabulary_threshold": job.dataset.subwords.vocabulary_threshold,
        }


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
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        sentences = job.study.analyses.attention
        return super().of_job(job) | {"test_set": job.wildcards["split"], "sentences": sentences}


class ModelOnTestSets(ModelStage, SystemOnTestSets):
    """Base of the stages that ask a trained model about the references of the test sets."""


class ScorePerplexity(ModelOnTestSets):
    """Measure the perplexity of a language model, per token and per word."""

    module = "phrasemt.decoding.perplexity"
    libraries = ("torch",)

    words_are_cut: bool  # into subwords

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        return super().of_job(job) | {"words_are_cut": job.dataset.subwords.unit == "bpe"}


class ScoreChunks(ModelOnTestSets):
    """Compare the decisions of a chunk-based decoder with the chunks of the reference."""

    module = "phrasemt.decoding.chunks"
    libraries = ("torch", "numpy")
