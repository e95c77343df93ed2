"""Phrase-based systems: text, language model, word alignment, tables, weights, translations (rules/moses.smk)."""

from __future__ import annotations

from phrasemt.stages.stage import Stage, files, of
from phrasemt.study.rows import MosesModel, Tuning
from phrasemt.study.tokenization import Tokenizer

_FILTER = ("scripts/training/filter-model-given-input.pl", "scripts/generic/strip-xml.perl")


class TrainTruecaser(Stage):
    """Learn the spelling that words have inside of sentences."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{language}"
    inputs = files(tokens="Tokens")
    outputs = files(truecaser="Truecaser")
    programs = ("scripts/recaser/train-truecaser.perl",)


class NormalizeCase(Stage):
    """Write tokens in true case or in lower case, as Moses learns from them and reads them."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{phrase_model}.{split}.{language}"
    inputs = files(tokens="Tokens", truecaser=["Truecaser"])
    outputs = files(text="MosesText")
    programs = ("scripts/recaser/truecase.perl",)


class TrainLm(Stage):
    """Estimate an n-gram language model of the target side."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    inputs = files(text="MosesText")
    outputs = files(language_model="LanguageModel")
    programs = ("bin/lmplz", "bin/build_binary")


class AlignWords(Stage):
    """Align the words of the training pairs in both directions."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    inputs = files(source="MosesText", target="MosesText")
    outputs = files(kept_source="AlignedText", kept_target="AlignedText", alignment="Alignment")
    programs = ("bin/fast_align", "bin/atools")

    max_words: int = of("study.phrase_models.{phrase_model}.max_words")


class ExtractPhraseTable(Stage):
    """Extract the phrase pairs of the aligned text, and score them."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    inputs = files(source="AlignedText", target="AlignedText", alignment="Alignment")
    outputs = files(phrase_table="PhraseTable", reordering_table="ReorderingTable")
    programs = (
        "scripts/training/train-model.perl",
        "bin/extract",
        "bin/score",
        "bin/consolidate",
        "bin/lexical-reordering-score",
    )


class TuneMoses(Stage):
    """Tune the weights of the features on dev, or continue a tuning that stopped."""

    module = "phrasemt.moses.decoding"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    inputs = files(
        language_model="LanguageModel",
        phrase_table="PhraseTable",
        reordering_table="ReorderingTable",
        source="MosesText",
        reference="MosesText",
    )
    outputs = files(weights="TunedWeights")
    # Snakemake deletes the outputs of a job before it runs; the n-best lists of finished runs must stay.
    folders = files(state="TuningState")
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

    tuning: Tuning = of("study.phrase_based.{system}.tuning")
    seed: int


class TranslateWithMoses(Stage):
    """Translate a split by Moses' decoder."""

    module = "phrasemt.moses.decoding"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}.{split}"
    inputs = files(
        weights=["TunedWeights"],
        language_model="LanguageModel",
        phrase_table="PhraseTable",
        reordering_table="ReorderingTable",
        source="MosesText",
    )
    outputs = files(tokens="TranslatedTokens", text="TranslatedText")
    libraries = ("sacremoses",)
    programs = (*_FILTER, "bin/moses", "scripts/recaser/detruecase.perl")

    model: MosesModel = of("study.phrase_based.{system}.model")
    target_tokenizer: Tokenizer = of("target_tokenizer")
