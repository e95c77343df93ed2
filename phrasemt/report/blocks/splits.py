"""Notes on the test sets: what they share with train and dev, and their unusual lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.corpus import ComparedSplits
from phrasemt.corpus.compare_splits import describe
from phrasemt.errors import DataError
from phrasemt.stages.report import MakeTable


def notes_on_splits(settings: MakeTable, paths: Sequence[Path]) -> dict[tuple[str, str], str]:
    """Return a note for each test set (data set, name).

    Raises DataError naming a test set without counts.
    """
    found = {}
    for path in paths:
        dataset = ComparedSplits.pattern.names(path)["dataset"]
        for name, counts in ComparedSplits.read(path).splits.items():
            found[dataset, name] = f"{dataset}, {name}: {describe(counts)}."
    for test_set in settings.test_sets:
        if test_set not in found:
            what = f"the table would be incomplete: no counts of what {' '.join(test_set)} shares with train"
            next_step = "run the workflow again, which makes the missing files"
            raise DataError(what, where=", ".join(map(str, paths)) or "--splits", next_step=next_step)
    return {test_set: found[test_set] for test_set in settings.test_sets}
