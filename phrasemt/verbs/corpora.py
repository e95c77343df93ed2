"""`phrasemt corpora [ID]`: list the corpora of the registry, or show the entry of one corpus."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from phrasemt.registry.corpora import Corpus, corpus, load_registry
from phrasemt.verbs._tables import size, table


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("corpora", help="list the corpora that a study can name, or show one")
    parser.add_argument("id", nargs="?", metavar="ID", help="show the files, checksums and citation of this corpus")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print one line per corpus, or the entry of one corpus. Raises DataError for an unknown id."""
    lines = _list() if options.id is None else _show(corpus(options.id))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _list() -> Iterator[str]:
    rows = [("corpus", "languages", "size", "parts", "terms")]
    rows += [
        (
            entry.id,
            " ".join(entry.languages),
            "?" if entry.bytes is None else size(entry.bytes),
            " ".join(entry.parts),
            entry.terms,
        )
        for entry in load_registry().values()
    ]
    yield from table(rows)


def _show(entry: Corpus) -> Iterator[str]:
    yield entry.id
    for name, text in (("about", entry.description), ("terms", entry.terms), ("cite", entry.citation)):
        yield from textwrap.wrap(text, 110, initial_indent=f"  {name:<6}", subsequent_indent=" " * 8)
    yield "parts"
    for name, part in entry.parts.items():
        lines = f"{part.lines} lines" if part.lines else "unknown number of lines"
        yield f"  {name}: {lines}"
        for language, side in part.sides.items():
            where = f"{side.file}, {side.member}" if side.member else side.file
            yield f"    {language}: {where}" + (f", column {side.column}" if side.column else "")
    yield "files"
    for file in entry.files:
        yield f"  {file.name}"
        yield f"    {file.url}"
        checksum = " ".join(file.checksum) if file.checksum else f"no checksum: {file.unverified}"
        yield f"    {f'{file.bytes} bytes' if file.bytes else 'unknown size'}, {checksum}"
