"""Phrase-based systems: text, language model, word alignment, tables, weights, translations (rules/moses.smk)."""

from __future__ import annotations

from phrasemt.artefacts.paths import Paths
from phrasemt.stages.stage import Stage, files, named, of
from phrasemt.study.rows import MosesModel, Tuning
from phrasemt.study.tokenization import Tokenizer

_FILTER = ("scripts/training/filter-model-given-input.pl", "scripts/generic/strip-xml.perl")


class TrainTruecaser(Stage):
    """Learn the spelling that words have inside of sentences."""

    module = "phrasemt.moses.training"
    inputs = named("tokens")
    outputs = files(truecaser=Paths.truecaser)
    programs = ("scripts/recaser/train-truecaser.perl",)


class NormalizeCase(Stage):
    """Write tokens in true case or in lower case, as Moses learns from them and reads them."""

    module = "phrasemt.moses.training"
    inputs = named("tokens", lists="truecaser")
    outputs = files(text=Paths.moses_text)
    programs = ("scripts/recaser/truecase.perl",)


class TrainLm(Stage):
    """Estimate an n-gram language model of the target side."""

    module = "phrasemt.moses.training"
    inputs = named("text")
    outputs = files(language_model=Paths.language_model)
    programs = ("bin/lmplz", "bin/build_binary")


class AlignWords(Stage):
    """Align the words of the training pairs in both directions."""

    module = "phrasemt.moses.training"
    job_name = "{dataset}.{source}-{target}/{phrase_model}"
    inputs = named("source target")
    outputs = files(kept_source=Paths.aligned_text, kept_target=Paths.aligned_text, alignment=Paths.alignment)
    programs = ("bin/fast_align", "bin/atools")

    max_words: int = of(lambda job: job.study.phrase_models[job.wildcards["phrase_model"]].max_words)


class ExtractPhraseTable(Stage):
    """Extract the phrase pairs of the aligned text, and score them."""

    module = "phrasemt.moses.training"
    inputs = named("source target alignment")
    outputs = files(phrase_table=Paths.phrase_table, reordering_table=Paths.reordering_table)
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
    inputs = named("language_model phrase_table reordering_table source reference")
    outputs = files(weights=Paths.tuned_weights)
    # Snakemake deletes the outputs of a job before it runs; the n-best lists of finished runs must stay.
    folders = files(state=Paths.tuning_state)
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

    tuning: Tuning = of(lambda job: job.study.phrase_based[job.wildcards["system"]].tuning)
    seed: int


class TranslateWithMoses(Stage):
    """Translate a split by Moses' decoder."""

    module = "phrasemt.moses.decoding"
    inputs = named("language_model phrase_table reordering_table source", lists="weights")
    outputs = files(tokens=Paths.translated_tokens, text=Paths.translated_text)
    libraries = ("sacremoses",)
    programs = (*_FILTER, "bin/moses", "scripts/recaser/detruecase.perl")

    model: MosesModel = of(lambda job: job.study.phrase_based[job.wildcards["system"]].model)
    target_tokenizer: Tokenizer = of(lambda job: job.target_tokenizer)
