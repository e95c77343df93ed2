"""`phrasemt corpora [ID | --study STUDY]`: the registry, the entry of a corpus, or the needs of a study."""

from __future__ import annotations

import argparse
import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

from phrasemt.files.source_file import SourceFile
from phrasemt.files.yaml import format_yaml
from phrasemt.registry.corpora import contrasts_of, corpus, files_of, load_registry, source_file
from phrasemt.runs.display import size, table
from phrasemt.study.datasets import RegistryText
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.check import texts_of_the_user
from phrasemt.workflow.inputs import file_at_hand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("id", nargs="?", metavar="ID", help="print the entry of this corpus in the registry, as YAML")
    what.add_argument("--study", type=Path, metavar="STUDY", help="list what this study fetches, and what you bring")


def run(options: argparse.Namespace) -> None:
    """Print one line per corpus, the entry of one corpus, or one line per file of a study.

    Raises DataError for an unknown id, and StudyError for mistakes in the study.
    """
    if options.id is not None:
        print(format_yaml(corpus(options.id).model_dump(mode="json", exclude_defaults=True)), end="")
        return
    print(*(_needed(load_study(options.study)) if options.study is not None else _list()), sep="\n")


def _list() -> Iterator[str]:
    rows = [("corpus", "languages", "size", "parts", "terms")]
    rows += [
        (
            entry.id,
            " ".join(entry.languages),
            "?" if entry.bytes is None else size(entry.bytes),
            textwrap.shorten(" ".join((*entry.parts, *entry.contrasts)), 40, placeholder=" ..."),
            textwrap.shorten(entry.terms, 50, placeholder=" ..."),
        )
        for entry in load_registry().values()
    ]
    yield from table(rows)


def _needed(study: Study) -> Iterator[str]:
    """Yield the files that a study fetches with their terms, and your own texts."""
    fetched = files_of_study(study)
    rows = [("corpus", "file", "size", "from")]
    for (corpus_id, name), file in fetched.items():
        origin = f"by hand: {file.by_hand} ({file.url})" if file.by_hand else file.url
        here = file_at_hand(corpus_id, name) or origin
        rows.append((corpus_id, name, "?" if file.bytes is None else size(file.bytes), str(here)))
    if not fetched:
        yield "the study fetches no corpus"
    else:
        yield from table(rows, right_aligned={"size"})
        sizes = [file.bytes for file in fetched.values() if file.bytes is not None]
        unknown = f", without {len(fetched) - len(sizes)} files of unknown size" if len(sizes) < len(fetched) else ""
        yield f"{len(fetched)} files, {size(sum(sizes))}{unknown}"
        yield "terms"
        for corpus_id in dict.fromkeys(corpus_id for corpus_id, _ in fetched):
            yield f"  {corpus_id}: {corpus(corpus_id).terms}"
    for path in dict.fromkeys(path for _, path in texts_of_the_user(study)):
        yield f"your file: {path}{'' if path.is_file() else ' (missing)'}"
    for name, parser in study.parsers.items():
        if parser.published:
            yield f"parser {name}: Stanza's package {parser.published}"


def files_of_study(study: Study) -> dict[tuple[str, str], SourceFile]:
    """Return the registered files that a study reads, by corpus and name."""
    sides: list[tuple[str, str, str]] = []  # corpus, part, language
    files: dict[tuple[str, str], SourceFile] = {}
    for dataset in study.datasets.values():
        for _, text in dataset.texts:
            if isinstance(text, RegistryText):
                sides += [(text.corpus, text.part, language) for language in dataset.languages]
        for _, pairs in dataset.contrast_texts:
            if isinstance(pairs, RegistryText):
                names = contrasts_of(pairs.corpus, pairs.part).files
                files |= {(pairs.corpus, name): source_file(pairs.corpus, name) for name in names}
    for annotator in study.annotators.values():
        for _, annotated in annotator.texts:
            if annotated.corpus and annotated.part:
                sides.append((annotated.corpus, annotated.part, annotator.language))
    for corpus_id, part, language in sides:
        read = files_of(corpus_id, part, language, functools.partial(file_at_hand, corpus_id))
        files |= {(corpus_id, name): source_file(corpus_id, name) for name in read}
    return files
