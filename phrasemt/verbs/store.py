"""`phrasemt store`: list, check, export, import and clean up the folder that studies and users share.

The folder has the annotations of parsers and chunkers (phrasemt/syntax/store/store.py) and outputs of stages
(phrasemt/workflow/cache.py).
"""

from __future__ import annotations

import argparse
import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.shared import Removals
from phrasemt.runs.text_table import table
from phrasemt.runs.units import size
from phrasemt.syntax.store.archive import export_annotations, import_annotations
from phrasemt.syntax.store.store import AnnotationStore
from phrasemt.syntax.store.upkeep import clean, remove
from phrasemt.verbs._arguments import Output, in_range
from phrasemt.workflow import cache as artefacts
from phrasemt.workflow.cache import CACHE

DEFAULT_CACHE = Path("resources/cache")
SECONDS_OF_A_DAY = 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get(CACHE) or DEFAULT_CACHE),
        metavar="FOLDER",
        help=f"shared folder, `cache` in the study (default: the environment variable {CACHE}, or {DEFAULT_CACHE})",
    )

    def action(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, parents=[where], help=text, description=text)
        added.set_defaults(run=function)
        return added

    action("ls", _list, "list the annotators and stages with stored results, their sizes, and the date of the last use")
    action("verify", _verify, "read every file and set damaged files aside; a run makes their content again")
    export = action("export", _export, "write all annotations of an annotator to a file")
    export.add_argument("fingerprint", metavar="FINGERPRINT", help="fingerprint of the annotator, or its beginning")
    export.add_argument("file", type=Output, metavar="FILE", help="tar file to write")
    take_in = action("import", _import, "add the annotations of an exported file or of another shared folder")
    take_in.add_argument("source", type=Path, metavar="SOURCE", help="file of `store export`, or a shared folder")
    clean_up = action(
        "gc",
        _clean_up,
        "merge small files; remove damaged files, files that no entry needs, and unfinished files older than a day",
    )
    clean_up.add_argument(
        "--remove", nargs="+", default=[], metavar="FINGERPRINT", help="also remove all annotations of these annotators"
    )
    clean_up.add_argument(
        "--unused", type=in_range(float, 0), default=math.inf, metavar="DAYS",
        help="also remove outputs of stages that nobody has used for this number of days",
    )  # fmt: skip


def _list(options: argparse.Namespace) -> None:
    stores, stages = AnnotationStore.all(options.cache), artefacts.contents(options.cache)
    if not stores and not stages:
        print(f"nothing in {options.cache}")
    if stores:
        names = ["fingerprint", "kind", "language", "origin", "F1", "Stanza", "sentences", "failures", "size", "files"]
        print(*table([names, *map(_row, stores)]), sep="\n")
    if stages:
        kept = [
            [stage, f"{one.entries:,}", size(one.bytes), f"{datetime.fromtimestamp(one.used):%Y-%m-%d}"]
            for stage, one in stages.items()
        ]
        print(*table([["stage", "entries", "size", "last used"], *kept]), sep="\n")


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


def _verify(options: argparse.Namespace) -> None:
    _check_folder(options.cache)
    damaged: list[Path] = []
    for store in AnnotationStore.all(options.cache):
        contents = store.contents()
        damaged += store.damaged
        good = f"{contents.files:,} files, {contents.sentences:,} sentences whole"
        print(f"{store.fingerprint}: {good}, {len(store.damaged):,} damaged")
    whole, damaged_outputs = artefacts.verify(options.cache)
    print(f"outputs of stages: {whole:,} files whole, {len(damaged_outputs):,} damaged")
    damaged += damaged_outputs
    if damaged:
        raise DamagedFileError(
            "damaged or unreadable files",
            where=options.cache,
            found=", ".join(map(str, damaged[:3])) + (f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""),
            next_step="run the study again, which makes their content again; `phrasemt store gc` removes the damaged "
            "files",
        )


def _export(options: argparse.Namespace) -> None:
    store = _store(options.cache, options.fingerprint)
    files = export_annotations(store, options.file)
    print(f"{store.fingerprint}: {files:,} files, {size(options.file.stat().st_size)} in {options.file}")


def _import(options: argparse.Namespace) -> None:
    for store, new, files in import_annotations(options.cache, options.source):
        print(f"{store.fingerprint}: {files:,} files, {new:,} of them new")


def _clean_up(options: argparse.Namespace) -> None:
    _check_folder(options.cache)
    for store in [_store(options.cache, fingerprint) for fingerprint in options.remove]:
        print(f"{store.fingerprint}: removed{_refused(remove(store))}")
    for store in AnnotationStore.all(options.cache):
        done = clean(store)
        merged = f"{done.merged:,} files merged into others, {done.leftovers:,} leftovers removed"
        print(f"{store.fingerprint}: {merged}{_refused(done)}")
    cleaned = artefacts.clean(options.cache, options.unused * SECONDS_OF_A_DAY)
    print(
        f"outputs of stages: {cleaned.entries:,} entries, {cleaned.files:,} files ({size(cleaned.bytes)}) and "
        f"{cleaned.leftovers:,} leftovers removed"
        + (f"; {cleaned.young:,} files that no entry needs remain until they are a day old" if cleaned.young else "")
        + _refused(cleaned)
    )


def _refused(removals: Removals) -> str:
    return f"; {removals.refused:,} belong to other users, who can remove them" if removals.refused else ""


def _check_folder(cache: Path) -> None:
    """Raise PhrasemtError for a folder that does not exist; its name may be mistyped."""
    if not cache.is_dir():
        raise PhrasemtError(
            "no such folder", where=cache, next_step=f"check --cache, or the environment variable {CACHE}"
        )


def _store(cache: Path, beginning: str) -> AnnotationStore:
    stores = AnnotationStore.all(cache)
    match [store for store in stores if store.fingerprint.startswith(beginning)]:
        case [store]:
            return store
        case found:
            raise PhrasemtError(
                "several annotators have fingerprints with this beginning" if found else "no such annotator",
                where=beginning,
                expected=f"one of {', '.join(store.fingerprint for store in stores)}" if stores else None,
                next_step="`phrasemt store ls` lists all annotators",
            )
