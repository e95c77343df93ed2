"""Upkeep of a store of annotations: merge small files, remove leftovers, remove a whole store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from phrasemt.files.shared import Removals
from phrasemt.syntax.sentences import BUCKETS
from phrasemt.syntax.store.annotations import Annotation
from phrasemt.syntax.store.store import CARD, AnnotationStore


@dataclass
class StoreCleanup(Removals):
    """The result of `clean`. merged: number of files that were merged into others and then removed."""

    merged: int = 0


def clean(store: AnnotationStore) -> StoreCleanup:
    """Merge the files of each bucket into one, and remove leftovers (`Removals.remove_leftovers`)."""
    done = StoreCleanup()
    for bucket in range(BUCKETS):
        _merge(store, bucket, done)
    done.remove_leftovers(store.folder)
    return done


def _merge(store: AnnotationStore, bucket: int, done: StoreCleanup) -> None:
    files = list(store.files(bucket))
    if len(files) < 2:
        return
    annotations: list[Annotation] = []
    for file in files:
        annotations += file.batch.annotations(np.arange(len(file.batch.keys)))
    merged = store.add(np.concatenate([file.batch.keys for file in files]), annotations)
    # The merged file is on disk before the others go, so a reader always finds each sentence.
    for file in files:
        if file.path not in merged:
            done.merged += done.remove(file.path)


def remove(store: AnnotationStore) -> Removals:
    """Remove a store, except files that another process is writing and files that this user may not remove."""
    done = Removals()
    done.remove_leftovers(store.folder)
    for path in store.folder.glob("*/*.arrow"):
        done.remove(path)
    if not done.refused:
        done.remove(store.folder / CARD)
    for folder in [*store.folder.glob("*/"), store.folder]:
        with suppress(OSError):  # not empty
            folder.rmdir()
    return done
