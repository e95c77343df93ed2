"""Phrase-based systems: text, language model, word alignment, tables, weights, translations (rules/moses.smk)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from phrasemt.stages.stage import Stage, Wildcards
from phrasemt.study.moses import MosesModel, Reordering, Search, Symmetrization, Tuning
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Tokenizer

_FILTER = ("scripts/training/filter-model-given-input.pl", "scripts/generic/strip-xml.perl")


class TrainTruecaser(Stage):
    """Learn the spelling that words have inside of sentences."""

    module = "phrasemt.moses.casing"
    job_name = "{dataset}.{source}-{target}/{language}"
    programs = ("scripts/recaser/train-truecaser.perl",)


class NormalizeCase(Stage):
    """Write tokens in true case or in lower case, as Moses learns from them and reads them."""

    module = "phrasemt.moses.casing"
    job_name = "{dataset}.{source}-{target}/{phrase_model}.{split}.{language}"
    programs = ("scripts/recaser/truecase.perl",)


class TrainLm(Stage):
    """Estimate an n-gram language model of the target side."""

    module = "phrasemt.moses.language_model"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    programs = ("bin/lmplz", "bin/build_binary")

    order: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(order=study.phrase_models[wildcards["phrase_model"]].lm_order)


class AlignWords(Stage):
    """Align the words of the training pairs in both directions."""

    module = "phrasemt.moses.alignment"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    programs = ("bin/fast_align", "bin/atools")

    symmetrization: Symmetrization
    max_words: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        model = study.phrase_models[wildcards["phrase_model"]]
        return cls(symmetrization=model.symmetrization, max_words=model.max_words)


class ExtractPhraseTable(Stage):
    """Extract the phrase pairs of the aligned text, and score them."""

    module = "phrasemt.moses.phrase_table"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    programs = (
        "scripts/training/train-model.perl",
        "bin/extract",
        "bin/score",
        "bin/consolidate",
        "bin/lexical-reordering-score",
    )

    phrase_length: int
    reordering: Reordering

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        model = study.phrase_models[wildcards["phrase_model"]]
        return cls(phrase_length=model.phrase_length, reordering=model.reordering)


class PhraseBasedStage(Stage):
    """Base of the stages that run the decoder."""

    model: MosesModel
    decoding: Search

    @staticmethod
    def of_system(study: Study, wildcards: Wildcards) -> dict[str, Any]:
        """The values of these fields."""
        system = study.phrase_based[wildcards["system"]]
        return {"model": system.model, "decoding": system.decoding}


class TuneMoses(PhraseBasedStage):
    """Tune the weights of the features on dev, or continue a tuning that stopped."""

    module = "phrasemt.moses.tuning"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    # Snakemake deletes the outputs of a job before it runs; the n-best lists of finished runs must stay.
    folders: ClassVar[dict[str, str]] = {"state": "{params.state}"}
    programs = (
        "scripts/training/mert-moses.pl",
        *_FILTER,
        "bin/moses",
        "bin/extractor",
        "bin/mert",
        "bin/kbmira",
        "bin/pro",
        "bin/evaluator",
    )

    tuning: Tuning
    seed: int

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        tuning = study.phrase_based[wildcards["system"]].tuning
        assert tuning is not None
        return cls(**cls.of_system(study, wildcards), tuning=tuning, seed=int(wildcards["seed"]))


class TranslateWithMoses(PhraseBasedStage):
    """Translate a split by Moses' decoder."""

    module = "phrasemt.moses.decoding"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    libraries = ("sacremoses",)
    programs = (*_FILTER, "bin/moses", "scripts/recaser/detruecase.perl")

    target_tokenizer: Tokenizer

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        return cls(
            **cls.of_system(study, wildcards), target_tokenizer=study.datasets[wildcards["dataset"]].tokenizer("target")
        )
