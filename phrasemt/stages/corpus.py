"""Texts: fetched, provided by the user, partitioned or generated; then checked and cleaned (rules/corpus.smk)."""

from __future__ import annotations

from typing import Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.fields import Settings
from phrasemt.files.source_file import SourceFile
from phrasemt.registry.corpora import CorpusPart, CorpusSide, contrasts_of, part_of, read_with, side_of, source_file
from phrasemt.stages.stage import Stage, StudyJob, files, named, of, present
from phrasemt.study.datasets import CleaningFilters, ContrastText, GeneratedPairs, RegistryText
from phrasemt.study.tokenization import common_code


class FetchCorpus(Stage):
    """Fetch one file of a registered corpus and verify it."""

    module = "phrasemt.corpus.fetch"
    outputs = files(file=Paths.original_file)

    corpus: str
    source: SourceFile = of(lambda job: source_file(job.wildcards["corpus"], job.wildcards["file"]))


def _part(job: StudyJob) -> tuple[str, str]:
    return job.wildcards["corpus"], job.wildcards["part"]


class ExtractText(Stage):
    """Extract one side of one part of a corpus from its files."""

    module = "phrasemt.corpus.extract"
    inputs = named(lists="files")
    outputs = files(text=Paths.registered_text)

    corpus: str
    part: str
    language: str
    side: CorpusSide = of(lambda job: side_of(*_part(job), job.wildcards["language"]))
    lines: int | None = of(lambda job: part_of(*_part(job)).lines)
    sha256: str | None = of(lambda job: part_of(*_part(job)).sha256.get(job.wildcards["language"]))  # of the text
    # Of a part with a selection: itself and those it stays apart from, in this order.
    parts: dict[str, CorpusPart] = of(lambda job: read_with(*_part(job)))


class PartitionCorpus(Stage):
    """Cut a corpus into train, dev and test without shared sentences."""

    module = "phrasemt.corpus.partition"
    job_name = "{dataset}.{source}-{target}"
    inputs = named(lists="source target")
    outputs = files(
        train_source=Paths.raw_text,
        train_target=Paths.raw_text,
        dev_source=Paths.raw_text,
        dev_target=Paths.raw_text,
        test_source=Paths.raw_text,
        test_target=Paths.raw_text,
    )

    dev: int = of(lambda job: present(job.dataset.cut).dev)
    test: int = of(lambda job: present(job.dataset.cut).test)
    seed: int = of(lambda job: present(job.dataset.cut).seed)


class GenerateDemo(Stage):
    """Generate a split of the embedded English-German corpus."""

    module = "phrasemt.corpus.contrastive_pairs"
    job_name = "{dataset}.{source}-{target}/{split}"
    outputs = files(
        source=Paths.raw_text,
        target=Paths.raw_text,
        trees=Paths.raw_trees,
        source_chunks=Paths.raw_chunks,
        target_chunks=Paths.raw_chunks,
        contrasts=Paths.contrasts,
    )

    split: Literal["train", "dev", "test"]
    pairs: int = of(lambda job: getattr(job.dataset.generator, job.wildcards["split"]))
    seed: int = of(lambda job: present(job.dataset.generator).seed)
    multiword_units: bool = of(lambda job: present(job.dataset.generator).multiword_units)
    long_sentences: bool = of(lambda job: present(job.dataset.generator).long_sentences)


class PairsOfFiles(Settings):
    """Files of contrastive pairs that belong together. kind: of mistakes that no file names.

    generated: so many pairs for each bin of distances, from the grammar of the demo, in place of files.
    """

    files: int
    kind: str
    generated: int | None = None


class ExtractContrasts(Stage):
    """Read a set of contrastive pairs: its sources and right translations become a split."""

    module = "phrasemt.corpus.contrastive_pairs"
    job_name = "{dataset}.{source}-{target}/{split}"
    inputs = named(lists="files")
    outputs = files(source=Paths.raw_text, target=Paths.raw_text, contrasts=Paths.contrasts)

    texts: list[PairsOfFiles] = of(
        lambda job: [_pairs_of(text) for text in job.dataset.contrast_sets[job.wildcards["split"]]]
    )


def _pairs_of(text: ContrastText) -> PairsOfFiles:
    if isinstance(text, RegistryText):
        return PairsOfFiles(files=len(contrasts_of(text.corpus, text.part).files), kind=text.part)
    if isinstance(text, GeneratedPairs):
        return PairsOfFiles(files=0, kind="", generated=text.generated)
    return PairsOfFiles(files=len(text.files), kind="")


class CleanPairs(Stage):
    """Check a parallel text and drop unusable training pairs."""

    module = "phrasemt.corpus.clean"
    job_name = "{dataset}.{source}-{target}/{split}"
    inputs = named(lists="raw_source raw_target")
    outputs = files(source=Paths.clean_text, target=Paths.clean_text, rows=Paths.rows, dropped=Paths.dropped_pairs)

    source_language: str = of(lambda job: common_code(job.dataset.source_language))
    target_language: str = of(lambda job: common_code(job.dataset.target_language))
    # None for dev and test sets.
    filters: CleaningFilters | None = of(
        lambda job: job.dataset.cleaning if job.wildcards["split"] == "train" else None
    )
    # Number of pairs that are used of those that the filters keep; None: all.
    sample: int | None = of(lambda job: job.dataset.sampled(job.wildcards["split"]), default=None)


class CompareSplits(Stage):
    """Count what dev and test sets share with train; refuse a large overlap, and texts that do not fit."""

    module = "phrasemt.corpus.compare_splits"
    inputs = named("train_source train_target", lists="sources targets references source_subwords target_subwords")
    outputs = files(counts=Paths.compared_splits)

    splits: list[str] = of(lambda job: job.dataset.held_out)  # dev, then the test sets
    languages: list[str] = of(lambda job: job.dataset.languages)  # of source and target
    # Number of further references of each split.
    references: list[int] = of(lambda job: [len(job.dataset.references(name)) - 1 for name in job.dataset.held_out])
    overlap: Literal["refused", "allowed"] = of(lambda job: job.dataset.overlap)
