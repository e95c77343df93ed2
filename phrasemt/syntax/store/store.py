"""The store of annotations: no annotator parses or tags a sentence twice.

    <cache>/annotations/<fingerprint>/card.json               the annotator's description
    <cache>/annotations/<fingerprint>/<bucket>/<digest>.arrow `phrasemt.syntax.store.bucket_files`

Several writers may add the same sentence. Readers then prefer a text to a failure, and among several texts, or several
failures, the one in the file whose name comes first. Memory: the annotations of one bucket.

`phrasemt.syntax.store.upkeep` merges and removes files, `phrasemt.syntax.store.archive` moves stores between machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemt.errors import DamagedFileError
from phrasemt.files.shared import new_file
from phrasemt.syntax.sentences import BUCKETS, Keys, key_array
from phrasemt.syntax.store.annotations import Annotation, AnnotationBatch, annotation_batches
from phrasemt.syntax.store.bucket_files import BucketFiles

FORMAT = 1
CARD = "card.json"


@dataclass(frozen=True)
class Contents:
    """Size of an annotator's store: distinct sentences, sentences whose annotation failed, files, bytes."""

    sentences: int
    failures: int
    files: int
    bytes: int


class AnnotationStore:
    """The annotations of one annotator. The constructor writes the card if the store is new.

    card: the description of the annotator (`annotator_card.Card.description`). Raises DamagedFileError if the card that
    is there is not readable or of another format version.
    """

    def __init__(self, cache: Path, card: Mapping[str, Any]) -> None:
        self.card = dict(card)
        self.fingerprint: str = card["fingerprint"]
        self.folder: Path = cache / "annotations" / self.fingerprint
        self.files = BucketFiles(self.folder, cache, self.fingerprint)
        self._cache = cache
        self._write_card()
        _read_card(self.folder / CARD)

    @property
    def card_text(self) -> bytes:
        """The content of the card file."""
        return (json.dumps({"format": FORMAT, "annotator": self.card}, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def all(cls, cache: Path) -> list[AnnotationStore]:
        """The stores of all annotators in a folder, by fingerprint. Raises the errors of the constructor."""
        cards = sorted((cache / "annotations").glob(f"*/{CARD}"))
        return [cls(cache, _read_card(card)) for card in cards]

    def missing(self, bucket: int, keys: Keys) -> NDArray[np.int32]:
        """Positions in `keys`, which belong to one bucket, of the sentences that the store lacks."""
        missing = np.ones(len(keys), dtype=bool)
        for numbers, _, _ in self._locate(bucket, keys):
            missing[numbers] = False
        return np.flatnonzero(missing).astype(np.int32)

    def find(self, bucket: int, keys: Keys) -> list[Annotation | None]:
        """The annotations of sentences of one bucket; None for a sentence that the store lacks."""
        found: list[Annotation | None] = [None] * len(keys)
        for numbers, batch, positions in self._locate(bucket, keys):
            for number, annotation in zip(numbers.tolist(), batch.annotations(positions), strict=True):
                found[number] = annotation
        return found

    def add(self, keys: Keys, annotations: Sequence[Annotation]) -> None:
        """Store annotations in one file per bucket. All of them are on disk when the method returns."""
        keys, chosen = distinct(keys, [annotation.failure is not None for annotation in annotations])
        for batch in annotation_batches(keys, [annotations[number] for number in chosen.tolist()]):
            self._write_card()  # another process may have removed the folder
            self.files.add(batch)

    def add_file(self, bucket: int, name: str, data: bytes) -> bool:
        """Add a file of another store; returns whether this store lacked it. Raises ValueError if it is damaged."""
        self._write_card()
        return self.files.add_file(bucket, name, data)

    def contents(self) -> Contents:
        """Read and check every file, and count."""
        sentences = failures = files = size = 0
        for bucket in range(BUCKETS):
            keys, failed = [key_array([])], [np.empty(0, dtype=bool)]
            for file in self.files.of_bucket(bucket):
                keys.append(file.batch.keys)
                failed.append(file.batch.failed)
                files += 1
                size += len(file.data)
            all_failed = np.concatenate(failed)
            distinct_keys, chosen = distinct(np.concatenate(keys), all_failed)
            sentences += len(distinct_keys)
            failures += int(all_failed[chosen].sum())
        return Contents(sentences, failures, files, size)

    def _locate(self, bucket: int, keys: Keys) -> Iterator[tuple[NDArray[np.intp], AnnotationBatch, NDArray[np.intp]]]:
        """For each file of a bucket: numbers of the keys whose annotations it supplies, and their positions in it.

        A key may come twice: first with a failure, later with a text from another file.
        """
        wanted = np.arange(len(keys))
        failed = np.zeros(len(keys), dtype=bool)
        for file in self.files.of_bucket(bucket):
            positions = file.batch.positions(keys[wanted])
            fails = (positions >= 0) & file.batch.failed[positions]
            text = (positions >= 0) & ~fails
            chosen = text | (fails & ~failed[wanted])
            yield wanted[chosen], file.batch, positions[chosen]
            failed[wanted[fails]] = True
            wanted = wanted[~text]
            if not len(wanted):
                return

    def _write_card(self) -> None:
        path = self.folder / CARD
        if not path.exists():
            with new_file(path, self._cache) as unfinished:
                unfinished.write_bytes(self.card_text)


def distinct(keys: Keys, failed: Sequence[bool] | NDArray[np.bool_]) -> tuple[Keys, NDArray[np.intp]]:
    """Each key once, increasing, and the number of its annotation: the first with a text, or else the first."""
    order = np.argsort(failed, kind="stable")
    distinct_keys, first = np.unique(keys[order], return_index=True)
    return distinct_keys, order[first]


def _read_card(path: Path) -> dict[str, Any]:
    """The description of the annotator of a folder. Raises DamagedFileError for another file than `card_text`."""
    try:
        content = json.loads(path.read_bytes())
        card: dict[str, Any] = content["annotator"]
        if (content["format"], card["fingerprint"]) == (FORMAT, path.parent.name):
            return card
        reason = f"format version {content['format']}, annotator {card['fingerprint']}"
    except (ValueError, KeyError, TypeError) as error:
        reason = repr(error)
    raise DamagedFileError(
        "the card of the annotator is not readable",
        where=path,
        expected=f"format version {FORMAT}",
        found=reason,
        next_step="delete the file, and the next run with this annotator writes it again; or use another folder "
        "(`cache` in the study)",
    )
