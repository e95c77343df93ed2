"""Parsers and chunkers, the sentences they annotate, source phrases and target chunks (rules/syntax.smk)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.files.source_file import SourceFile
from phrasemt.registry.stanza_models import published_file
from phrasemt.stages.stage import Stage, files, named, of, present
from phrasemt.study.architectures import PhraseSegmentation


class FetchStanzaFile(Stage):
    """Fetch one of Stanza's published model files and verify it."""

    module = "phrasemt.syntax.given_annotators"
    outputs = files(file=Paths.stanza_file)

    source: SourceFile = of(lambda job: published_file(job.wildcards["language"], job.wildcards["file"]))


def _of_training(key: str) -> Any:
    """A setting of the training of an annotator."""
    return of(lambda job: getattr(job.annotator.train, key))


class AnnotatorStage(Stage):
    """Base of the stages that train a part of a parser or chunker."""

    module = "phrasemt.syntax.stanza.training"
    libraries: ClassVar[tuple[str, ...]] = ("stanza", "torch")
    used_by_all_studies = True

    language: str = of(lambda job: job.annotator.language)
    seed: int = 1234


class TrainVectors(AnnotatorStage):
    """Train word vectors for a parser or chunker."""

    inputs = named(lists="texts trees chunks")
    outputs = files(vectors=Paths.vectors)
    libraries = ("gensim", "sacremoses", "stanza", "torch")

    vectors: int = _of_training("vectors")  # width; 0: no vectors, only the empty file that Stanza wants


class AnnotationStage(AnnotatorStage):
    """Base of those that train on annotated sentences."""

    inputs = named("vectors", lists="train dev test")

    sentences: int | None = _of_training("sentences")
    hidden: int = _of_training("hidden")


class TrainTagger(AnnotationStage):
    """Train a part-of-speech tagger on the leaves of trees."""

    outputs = files(tagger=Paths.tagger, scores=Paths.tagger_scores)

    tagger_updates: int = _of_training("tagger_updates")


class TrainParser(AnnotationStage):
    """Train a constituency parser on trees."""

    inputs = named("vectors tagger tagger_scores", lists="train dev test")
    outputs = files(constituency=Paths.constituency_parser, annotator=Paths.card)

    epochs: int = _of_training("epochs")


class TrainChunker(AnnotationStage):
    """Train a chunk tagger on CoNLL-2000 columns."""

    outputs = files(chunker=Paths.chunker, annotator=Paths.card)

    updates: int = _of_training("updates")


class DescribeAnnotator(Stage):
    """Write the card of a published parser."""

    module = "phrasemt.syntax.given_annotators"
    inputs = named(lists="constituency tagger vectors forward_charlm backward_charlm")
    outputs = files(annotator=Paths.card)
    libraries = ("stanza",)

    language: str = of(lambda job: job.annotator.language)


class CollectTrees(Stage):
    """Collect the trees that the user gives, by the keys of their sentences, and write the card of their parser."""

    module = "phrasemt.syntax.given_annotators"
    inputs = named(lists="files")
    outputs = files(trees=Paths.given_trees, annotator=Paths.card)
    libraries = ("pyarrow", "stanza")

    language: str = of(lambda job: job.annotator.language)


class AnnotateSentences(Stage):
    """Base of the stages that annotate one job's part of the sentences."""

    module = "phrasemt.syntax.annotate"
    inputs = named("tokens annotator")
    # The environment names the folder, and no parameter: another cache must rerun nothing.
    folders = files(cache=Paths.parse_store)
    libraries: ClassVar[tuple[str, ...]] = ("stanza", "torch")

    job: int
    jobs: int = of(lambda job: job.dataset.annotation_jobs(job.wildcards["split"]))


class ParseSentences(AnnotateSentences):
    """Parse the sentences that the store of annotations does not have yet."""

    outputs = files(annotations=Paths.parses)


class TagSentences(AnnotateSentences):
    """Tag the chunks of the sentences that the store of annotations does not have yet."""

    outputs = files(annotations=Paths.tags)


class ExtractPhrases(Stage):
    """Cut each source sentence into phrases."""

    module = "phrasemt.syntax.phrases"
    inputs = named("rows tokens subwords", lists="parses given dropped")
    outputs = files(phrases=Paths.phrase_columns)
    libraries = ("pyarrow", "numpy")

    segmentation: PhraseSegmentation = of(lambda job: job.segmentation)
    needs_parses: bool = of(lambda job: job.segmentation.reads_parses)


class MeasurePhrases(Stage):
    """Measure lengths of phrases, the fraction of constituents, and fallbacks to n-grams."""

    module = "phrasemt.syntax.phrases"
    inputs = named("phrases tokens subwords", lists="parses")
    outputs = files(statistics=Paths.phrase_statistics)

    segmentation: str = of(lambda job: job.segmentation.folder_name)  # its name in statistics and report
    needs_parses: bool = of(lambda job: job.segmentation.reads_parses)


class ExtractChunks(Stage):
    """Write chunk starts and labels of each target sentence."""

    module = "phrasemt.syntax.chunks"
    inputs = named("rows tokens subwords", lists="gold tags")
    outputs = files(chunks=Paths.chunk_columns, statistics=Paths.chunk_statistics)
    libraries = ("pyarrow", "numpy")

    origin: Literal["gold", "chunker"] = of(lambda job: present(job.dataset.target_chunks).origin)
