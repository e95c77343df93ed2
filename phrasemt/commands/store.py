"""`phrasemt store`: list and clean up the shared folder of studies and users.

The folder has the annotations of parsers and chunkers (phrasemt/syntax/store.py) and outputs of stages
(phrasemt/workflow/cache.py).
"""

from __future__ import annotations

import argparse
import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from phrasemt.commands._arguments import in_range
from phrasemt.errors import PhrasemtError
from phrasemt.files.blobs import Cleaning
from phrasemt.runs.display import size, table
from phrasemt.syntax.store import AnnotationStore
from phrasemt.workflow import cache as outputs
from phrasemt.workflow.cache import CACHE, DEFAULT_CACHE

SECONDS_OF_A_DAY = 86_400


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

    action("ls", _list, "list the annotators and stages with stored results, their sizes, and the date of the last use")
    clean_up = action(
        "gc",
        _clean_up,
        "merge small files; remove damaged files, and after a day unfinished files and files that no entry needs",
    )
    clean_up.add_argument(
        "--unused", type=in_range(float, 0), default=math.inf, metavar="DAYS",
        help="also remove outputs of stages that were not used for this number of days",
    )  # fmt: skip


def _list(options: argparse.Namespace) -> None:
    stores, stages = AnnotationStore.all(options.cache), outputs.contents(options.cache)
    if not stores and not stages:
        print(f"nothing in {options.cache}")
    if stores:
        names = ["fingerprint", "kind", "language", "origin", "F1", "Stanza", "sentences", "failures", "size", "files"]
        print(*table([names, *map(_row, stores)]), sep="\n")
    if stages:
        rows = [
            [stage, f"{one.entries:,}", size(one.bytes), f"{datetime.fromtimestamp(one.used):%Y-%m-%d}"]
            for stage, one in stages.items()
        ]
        print(*table([["stage", "entries", "size", "last used"], *rows]), sep="\n")


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
        print(f"{store.fingerprint}: {merged}{_refused(done)}")
    cleaned = outputs.clean(options.cache, options.unused * SECONDS_OF_A_DAY)
    print(
        f"outputs of stages: {cleaned.entries:,} entries, {cleaned.blobs:,} files ({size(cleaned.bytes)}) and "
        f"{cleaned.leftovers:,} leftovers removed" + _refused(cleaned)
    )


def _refused(done: Cleaning) -> str:
    return f"; {done.refused:,} belong to other users, who can remove them" if done.refused else ""
