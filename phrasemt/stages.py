"""The stages of the workflow: one table that the command line, the rules and the tests all read.

A stage is one subcommand, one rule and one function of the same name. It turns input files into output files under
settings that are a small part of the study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from phrasemt import settings
from phrasemt.fields import Settings
from phrasemt.study.schema import Study

Wildcards = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a stage reads, writes and depends on.

    module: holds the function `<name>(*, settings, <inputs>, <outputs>, <folders>, cores)`.
    inputs: names of single files, or of lists of files when they end in `*` (without it in the function).
    folders: folders kept between runs, neither inputs nor outputs (training states).
    resumes: whether it may run in several processes, and stop before its end to go on in the next run; it then takes
        `processes` and `minutes`, too.
    libraries: distributions whose version is written into the sidecar.
    chosen: the module that the settings choose (a family of models, a segmenter); its code belongs to the stage's.
    kept: whether the cache that studies share keeps its outputs (phrasemt/workflow/cache.py).
    named: inputs whose places are written into an output.
    """

    module: str
    settings: type[Settings]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    resumes: bool = False
    libraries: tuple[str, ...] = ()
    chosen: Callable[[Any], str] | None = None
    kept: bool = False
    named: tuple[str, ...] = ()
    help: str = ""

    def code_modules(self, settings: Settings) -> tuple[str, ...]:
        """The modules whose code decides the stage's results."""
        return (self.module, self.chosen(settings)) if self.chosen else (self.module,)


def _family(settings: Any) -> str:
    return f"phrasemt.models.{settings.model.family}"


def _segmenter(settings: Any) -> str:
    return f"phrasemt.syntax.phrases.segmenters.{settings.segmentation.mode}"


STAGES: dict[str, Stage] = {
    "fetch_corpus": Stage(
        module="phrasemt.corpus.fetch",
        settings=settings.CorpusFileSettings,
        outputs=("file",),
        kept=True,
        help="fetch one file of a registered corpus and verify it",
    ),
    "extract_text": Stage(
        module="phrasemt.corpus.extract",
        settings=settings.ExtractSettings,
        inputs=("files*",),
        outputs=("text",),
        kept=True,
        help="take one side of one part of a corpus out of its archive",
    ),
    "partition_corpus": Stage(
        module="phrasemt.corpus.partition",
        settings=settings.PartitionSettings,
        inputs=("source", "target"),
        outputs=("train_source", "train_target", "dev_source", "dev_target", "test_source", "test_target"),
        kept=True,
        help="cut a corpus into train, dev and test without shared sentences",
    ),
    "generate_demo": Stage(
        module="phrasemt.corpus.demo.generate",
        settings=settings.DemoSettings,
        outputs=("source", "target", "trees", "source_chunks", "target_chunks", "contrasts"),
        kept=True,
        help="generate a split of the project's own English-German corpus",
    ),
    "clean_pairs": Stage(
        module="phrasemt.corpus.clean",
        settings=settings.CleanSettings,
        inputs=("raw_source*", "raw_target*"),
        outputs=("source", "target", "rows", "dropped"),
        kept=True,
        help="check a parallel text and drop unusable training pairs",
    ),
    "tokenize_text": Stage(
        module="phrasemt.text.tokenize",
        settings=settings.TokenizeSettings,
        inputs=("text",),
        outputs=("tokens",),
        libraries=("sacremoses",),
        kept=True,
        help="Moses tokens",
    ),
    "learn_subwords": Stage(
        module="phrasemt.text.subwords",
        settings=settings.LearnSubwordsSettings,
        inputs=("source", "target"),
        outputs=("codes", "source_counts", "target_counts"),
        libraries=("subword-nmt",),
        kept=True,
        help="learn joint byte-pair merges",
    ),
    "apply_subwords": Stage(
        module="phrasemt.text.subwords",
        settings=settings.ApplySubwordsSettings,
        inputs=("tokens", "codes", "counts"),
        outputs=("subwords",),
        libraries=("subword-nmt",),
        kept=True,
        help="cut tokens into subwords",
    ),
    "build_vocabulary": Stage(
        module="phrasemt.text.vocab",
        settings=settings.VocabularySettings,
        inputs=("source", "target"),
        outputs=("source_vocabulary", "target_vocabulary"),
        kept=True,
        help="number the subwords",
    ),
    "collect_sentences": Stage(
        module="phrasemt.syntax.sentences",
        settings=settings.CollectSettings,
        inputs=("tokens",),
        outputs=("sentences",),
        libraries=("pyarrow",),
        kept=True,
        help="the distinct sentences of one side of a split, by key",
    ),
    "fetch_stanza_file": Stage(
        module="phrasemt.syntax.stanza.fetch",
        settings=settings.StanzaFileSettings,
        outputs=("file",),
        kept=True,
        help="fetch one of Stanza's published model files and verify it",
    ),
    "train_vectors": Stage(
        module="phrasemt.syntax.stanza.vectors",
        settings=settings.VectorsSettings,
        inputs=("texts*", "trees*", "chunks*"),
        outputs=("vectors",),
        libraries=("gensim", "sacremoses", "stanza", "torch"),
        kept=True,
        help="word vectors for parsers and chunkers",
    ),
    "train_tagger": Stage(
        module="phrasemt.syntax.stanza.train_tagger",
        settings=settings.TaggerSettings,
        inputs=("train*", "dev*", "test*", "vectors"),
        outputs=("tagger", "scores"),
        libraries=("stanza", "torch"),
        kept=True,
        help="train a part-of-speech tagger on the leaves of trees",
    ),
    "train_parser": Stage(
        module="phrasemt.syntax.stanza.train_parser",
        settings=settings.ParserSettings,
        inputs=("train*", "dev*", "test*", "vectors", "tagger", "tagger_scores"),
        outputs=("constituency", "annotator"),
        libraries=("stanza", "torch"),
        kept=True,
        named=("tagger", "vectors"),
        help="train a constituency parser on trees",
    ),
    "train_chunker": Stage(
        module="phrasemt.syntax.stanza.train_chunker",
        settings=settings.ChunkerSettings,
        inputs=("train*", "dev*", "test*", "vectors"),
        outputs=("chunker", "annotator"),
        libraries=("stanza", "torch"),
        kept=True,
        named=("vectors",),
        help="train a chunk tagger on CoNLL-2000 columns",
    ),
    "describe_annotator": Stage(
        module="phrasemt.syntax.annotator_card",
        settings=settings.DescribeSettings,
        inputs=("constituency*", "chunker*", "tagger*", "vectors*", "forward_charlm*", "backward_charlm*"),
        outputs=("annotator",),
        libraries=("stanza",),
        help="a parser or chunker made of model files that were not trained here",
    ),
    "parse_sentences": Stage(
        module="phrasemt.syntax.annotate",
        settings=settings.AnnotateSettings,
        inputs=("sentences", "annotator"),
        outputs=("annotations",),
        folders=("cache",),
        libraries=("stanza", "torch"),
        help="parse the sentences that the store does not have yet",
    ),
    "tag_sentences": Stage(
        module="phrasemt.syntax.annotate",
        settings=settings.AnnotateSettings,
        inputs=("sentences", "annotator"),
        outputs=("annotations",),
        folders=("cache",),
        libraries=("stanza", "torch"),
        help="tag the chunks of the sentences that the store does not have yet",
    ),
    "extract_phrases": Stage(
        module="phrasemt.syntax.phrases.extract",
        settings=settings.PhrasesSettings,
        inputs=("rows", "tokens", "subwords", "parses*", "given*", "dropped*"),
        outputs=("phrases",),
        libraries=("pyarrow", "numpy"),
        chosen=_segmenter,
        kept=True,
        help="cut each source sentence into phrases",
    ),
    "measure_phrases": Stage(
        module="phrasemt.syntax.phrases.statistics",
        settings=settings.MeasureSettings,
        inputs=("phrases", "tokens", "subwords", "parses*"),
        outputs=("statistics",),
        kept=True,
        help="lengths of phrases, how many are constituents, fallbacks",
    ),
    "extract_chunks": Stage(
        module="phrasemt.syntax.chunks.extract",
        settings=settings.ChunksSettings,
        inputs=("rows", "tokens", "subwords", "gold*", "tags*", "parses*"),
        outputs=("chunks", "statistics"),
        libraries=("pyarrow", "numpy"),
        kept=True,
        help="chunk starts and labels of each target sentence",
    ),
    "pack_examples": Stage(
        module="phrasemt.batching.pack",
        settings=settings.PackSettings,
        inputs=("rows", "source", "target", "source_vocabulary", "target_vocabulary"),
        outputs=("examples",),
        libraries=("pyarrow",),
        kept=True,
        help="store a split as token ids, memory-mapped",
    ),
    "train_model": Stage(
        module="phrasemt.train.loop",
        settings=settings.TrainSettings,
        inputs=(
            "train",
            "dev",
            "dev_reference",
            "source_vocabulary",
            "target_vocabulary",
            "train_phrases*",
            "dev_phrases*",
            "train_chunks*",
            "dev_chunks*",
        ),
        outputs=("record",),
        folders=("state",),
        resumes=True,
        libraries=("torch", "numpy"),
        chosen=_family,
        help="train a system; goes on where a killed training stopped",
    ),
    "average_checkpoints": Stage(
        module="phrasemt.train.average",
        settings=settings.AverageSettings,
        inputs=("record",),
        outputs=("weights",),
        libraries=("torch",),
        help="average the last checkpoints",
    ),
    "translate": Stage(
        module="phrasemt.search.translate",
        settings=settings.TranslateSettings,
        inputs=("weights", "examples", "source_vocabulary", "target_vocabulary", "phrases*"),
        outputs=("translations", "tokens", "text"),
        libraries=("torch", "sacremoses"),
        chosen=_family,
        help="translate a split by beam search",
    ),
    "score_system": Stage(
        module="phrasemt.scoring.bleu",
        settings=settings.ScoreSettings,
        inputs=("tokens*", "text*", "reference_tokens*", "reference*"),
        outputs=("scores",),
        libraries=("sacrebleu",),
        help="BLEU in both conventions, with signatures",
    ),
    "compare_systems": Stage(
        module="phrasemt.scoring.significance",
        settings=settings.CompareSettings,
        inputs=("baseline*", "system*"),
        outputs=("comparison",),
        libraries=("numpy",),
        help="paired bootstrap of a system against the baseline",
    ),
    "score_contrasts": Stage(
        module="phrasemt.search.contrasts",
        settings=settings.ContrastSettings,
        inputs=(
            "weights",
            "contrasts",
            "codes*",
            "source_counts*",
            "target_counts*",
            "source_vocabulary",
            "target_vocabulary",
            "phrases*",
        ),
        outputs=("accuracy",),
        libraries=("torch", "sacremoses", "subword-nmt"),
        chosen=_family,
        help="share of contrastive pairs in which the right target scores higher, by distance",
    ),
    "score_perplexity": Stage(
        module="phrasemt.search.perplexity",
        settings=settings.PerplexitySettings,
        inputs=("weights", "examples*", "tokens*", "source_vocabulary", "target_vocabulary"),
        outputs=("perplexity",),
        libraries=("torch",),
        chosen=_family,
        help="perplexity of a language model, per token and per word",
    ),
    "score_chunks": Stage(
        module="phrasemt.search.chunks",
        settings=settings.ChunkScoreSettings,
        inputs=("weights", "examples*", "source_vocabulary", "target_vocabulary", "chunks*"),
        outputs=("scores",),
        libraries=("torch", "numpy"),
        chosen=_family,
        help="how often a chunk-based decoder decides about chunks as the reference does",
    ),
    "make_table": Stage(
        module="phrasemt.paper.tables",
        settings=settings.TableSettings,
        inputs=("scores*", "comparisons*", "perplexities*", "chunks*", "contrasts*"),
        outputs=("table", "markdown", "latex"),
        help="the results table",
    ),
    "write_report": Stage(
        module="phrasemt.paper.report",
        settings=settings.ReportSettings,
        inputs=("table", "records*", "dropped*", "phrases*", "chunks*", "annotators*"),
        outputs=("report",),
        libraries=("jinja2", "matplotlib"),
        help="one self-contained HTML page about the study",
    ),
}


# --------------------------------------------------------------------------------------- settings of a stage in a study


def stage_settings(study: Study, stage: str, wildcards: Wildcards) -> Settings:
    """The part of the study that a stage uses for these wildcards."""
    return _SETTINGS[stage](study, wildcards)


def _demo(study: Study, w: Wildcards) -> Settings:
    generator = study.datasets[w["dataset"]].generator
    assert generator is not None
    return settings.DemoSettings.model_validate(
        {"split": w["split"], "pairs": getattr(generator, w["split"]), "seed": generator.seed}
    )


def _partition(study: Study, w: Wildcards) -> Settings:
    partition = study.datasets[w["dataset"]].partition
    assert partition is not None
    return settings.PartitionSettings(dev=partition.dev, test=partition.test, seed=partition.seed)


def _clean(study: Study, w: Wildcards) -> Settings:
    dataset = study.datasets[w["dataset"]]
    return settings.CleanSettings(
        source_language=dataset.source_language,
        target_language=dataset.target_language,
        filters=dataset.cleaning if w["split"] == "train" else None,
    )


def _vocabulary(study: Study, w: Wildcards) -> Settings:
    subwords = study.datasets[w["dataset"]].subwords
    return settings.VocabularySettings(
        shared=subwords.shared_vocabulary, words=subwords.words if subwords.unit == "word" else None
    )


def _annotator_training(kind: type[Settings]) -> Callable[[Study, Wildcards], Settings]:
    """What one of the stages that train a parser or chunker uses of the study's section about it."""

    def taken(study: Study, w: Wildcards) -> Settings:
        annotator = study.annotators[w["annotator"]]
        assert annotator.train is not None
        values = {"language": annotator.language, **annotator.train.model_dump()}
        return kind.model_validate({name: values[name] for name in kind.model_fields})

    return taken


def _describe(study: Study, w: Wildcards) -> Settings:
    annotator = study.annotators[w["annotator"]]
    return settings.DescribeSettings(
        kind="constituency" if w["annotator"] in study.parsers else "chunks",
        language=annotator.language,
        origin="files" if annotator.files else "published",
    )


def _annotate(study: Study, w: Wildcards) -> Settings:
    return settings.AnnotateSettings(job=int(w["job"]), jobs=study.datasets[w["dataset"]].annotation_jobs(w["split"]))


def _phrases(study: Study, w: Wildcards) -> Settings:
    return settings.PhrasesSettings(segmentation=study.segmentations[w["segmenter"]])


def _chunks(study: Study, w: Wildcards) -> Settings:
    chunks = study.datasets[w["dataset"]].target_chunks
    assert chunks is not None
    return settings.ChunksSettings(origin=chunks.origin)


def _train(study: Study, w: Wildcards) -> Settings:
    system = study.systems[w["system"]]
    return settings.TrainSettings(
        model=system.model.trained_part,
        training=system.training,
        seed=int(w["seed"]),
        target_language=study.datasets[w["dataset"]].target_language,
    )


def _translate(study: Study, w: Wildcards) -> Settings:
    system = study.systems[w["system"]]
    return settings.TranslateSettings(
        model=system.model,
        decoding=system.decoding,
        target_language=study.datasets[w["dataset"]].target_language,
    )


def _contrasts(study: Study, w: Wildcards) -> Settings:
    dataset = study.datasets[w["dataset"]]
    return settings.ContrastSettings(
        dataset=w["dataset"],
        system=w["system"],
        seed=int(w["seed"]),
        model=study.systems[w["system"]].model.trained_part,  # nothing is searched
        source_language=dataset.source_language,
        target_language=dataset.target_language,
        aggressive_dash=dataset.tokenization.aggressive_dash,
        vocabulary_threshold=dataset.subwords.vocabulary_threshold,
    )


def _of_model(kind: type[Settings]) -> Callable[[Study, Wildcards], Settings]:
    """A system on the test sets, for the stages that look into the trained model itself."""

    def taken(study: Study, w: Wildcards) -> Settings:
        return kind.model_validate(
            {
                "dataset": w["dataset"],
                "system": w["system"],
                "seed": int(w["seed"]),
                "test_sets": study.datasets[w["dataset"]].test_sets,
                "model": study.systems[w["system"]].model.trained_part,
            }
        )

    return taken


def _score(study: Study, w: Wildcards) -> Settings:
    dataset = study.datasets[w["dataset"]]
    return settings.ScoreSettings(
        dataset=w["dataset"],
        system=w["system"],
        seed=int(w["seed"]),
        test_sets=list(dataset.test_sets),
        target_language=dataset.target_language,
        aggressive_dash=dataset.tokenization.aggressive_dash,
    )


def _compare(study: Study, w: Wildcards) -> Settings:
    return settings.CompareSettings(
        dataset=w["dataset"],
        system=w["system"],
        baseline=study.baseline,
        samples=study.comparison.samples,
        seed=study.comparison.seed,
    )


def _table(study: Study, w: Wildcards) -> Settings:
    return settings.TableSettings(
        study=study.study,
        title=study.title or study.study,
        baseline=study.baseline,
        systems=[(name, system.title or name) for name, system in study.systems.items()],
        test_sets=[(name, test_set) for name, dataset in study.datasets.items() for test_set in dataset.test_sets],
        contrasts=[name for name, dataset in study.datasets.items() if dataset.generator],
        language_models=study.language_models,
        chunking=study.chunking,
        seeds=study.seeds,
    )


_SETTINGS: dict[str, Callable[[Study, Wildcards], Settings]] = {
    "fetch_corpus": lambda study, w: settings.CorpusFileSettings(corpus=w["corpus"], file=w["file"]),
    "extract_text": lambda study, w: settings.ExtractSettings(
        corpus=w["corpus"], part=w["part"], language=w["language"]
    ),
    "partition_corpus": _partition,
    "generate_demo": _demo,
    "clean_pairs": _clean,
    "tokenize_text": lambda study, w: settings.TokenizeSettings(
        language=w["language"], aggressive_dash=study.datasets[w["dataset"]].tokenization.aggressive_dash
    ),
    "learn_subwords": lambda study, w: settings.LearnSubwordsSettings(
        merges=study.datasets[w["dataset"]].subwords.merges
    ),
    "apply_subwords": lambda study, w: settings.ApplySubwordsSettings(
        vocabulary_threshold=study.datasets[w["dataset"]].subwords.vocabulary_threshold
    ),
    "build_vocabulary": _vocabulary,
    "pack_examples": lambda study, w: settings.PackSettings(),
    "collect_sentences": lambda study, w: settings.CollectSettings(),
    "fetch_stanza_file": lambda study, w: settings.StanzaFileSettings(language=w["language"], file=w["file"]),
    "train_vectors": _annotator_training(settings.VectorsSettings),
    "train_tagger": _annotator_training(settings.TaggerSettings),
    "train_parser": _annotator_training(settings.ParserSettings),
    "train_chunker": _annotator_training(settings.ChunkerSettings),
    "describe_annotator": _describe,
    "parse_sentences": _annotate,
    "tag_sentences": _annotate,
    "extract_phrases": _phrases,
    "measure_phrases": lambda study, w: settings.MeasureSettings(),
    "extract_chunks": _chunks,
    "train_model": _train,
    "average_checkpoints": lambda study, w: settings.AverageSettings(
        last=study.systems[w["system"]].training.checkpoints_averaged
    ),
    "translate": _translate,
    "score_system": _score,
    "compare_systems": _compare,
    "score_contrasts": _contrasts,
    "score_perplexity": _of_model(settings.PerplexitySettings),
    "score_chunks": _of_model(settings.ChunkScoreSettings),
    "make_table": _table,
    "write_report": lambda study, w: settings.ReportSettings(title=study.title or study.study),
}
