"""`phrasemt store`: list and clean up the annotations that studies and users share (phrasemt/syntax/store.py)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError
from phrasemt.files.blobs import CACHE, DEFAULT_CACHE
from phrasemt.runs.display import size, table
from phrasemt.syntax.store import AnnotationStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get(CACHE) or DEFAULT_CACHE),
        metavar="FOLDER",
        help=f"shared folder (default: the environment variable {CACHE}, or {DEFAULT_CACHE})",
    )

    def action(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, parents=[where], help=text, description=text)
        added.set_defaults(run=function)
        return added

    action("ls", _list, "list the annotators with stored results, and their sizes")
    action("gc", _clean_up, "merge small files; remove damaged files, and unfinished files after a day")


def _list(options: argparse.Namespace) -> None:
    stores = AnnotationStore.all(options.cache)
    names = ["fingerprint", "kind", "language", "origin", "F1", "Stanza", "sentences", "failures", "size", "files"]
    lines = table([names, *map(_row, stores)]) if stores else [f"nothing in {options.cache}"]
    print(*lines, sep="\n")


def _row(store: AnnotationStore) -> list[str]:
    card, contents = store.card, store.contents()
    f1 = card.get("scores", {}).get("f1")
    return [
        store.fingerprint,
        *(str(card.get(key, "?")) for key in ("kind", "language", "origin")),
        "?" if f1 is None else f"{100 * f1:.1f}",
        str(card.get("stanza", "?")),
        f"{contents.sentences:,}",
        f"{contents.failures:,}",
        size(contents.bytes),
        f"{contents.files:,}",
    ]


def _clean_up(options: argparse.Namespace) -> None:
    if not options.cache.is_dir():  # its name may be mistyped
        next_step = f"check --cache, or the environment variable {CACHE}"
        raise PhrasemtError("no such folder", where=options.cache, next_step=next_step)
    for store in AnnotationStore.all(options.cache):
        done = store.clean()
        merged = f"{done.blobs:,} files merged into others, {done.leftovers:,} leftovers removed"
        refused = f"; {done.refused:,} belong to other users, who can remove them" if done.refused else ""
        print(f"{store.fingerprint}: {merged}{refused}")
