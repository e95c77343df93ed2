"""What must hold before scores are compared: equal sentences and equal conventions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import Scores
from phrasemt.errors import check_equal


def of_test_sets(names: Sequence[str], *files: Sequence[Path]) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Each test set with its files, one of each kind. Raises MismatchError if a kind has another number of files."""
    for paths in files:
        what = f"each test set needs one file ({', '.join(names)})"
        where, next_step = ", ".join(map(str, paths)) or None, "give the files in the order of the test sets"
        check_equal(len(names), len(paths), what, where=where, next_step=next_step)
    return zip(names, zip(*files, strict=True), strict=True)


def check_comparable(test_set: str, files: Mapping[str, Scores]) -> None:
    """Check that scores on a test set have equal sentences and equal conventions. files: scores by path.

    Raises MismatchError, with file and difference, for the first file that differs from the first one.
    """
    (first_path, first), *others = files.items()
    for path, file in others:
        for what, expected, found in (
            ("number of sentences", first.sentences, file.sentences),
            ("reference", first.references, file.references),
            ("set of metrics", sorted(first.metrics), sorted(file.metrics)),
            ("set of statistics", sorted(first.statistics), sorted(file.statistics)),
            *(
                (f"convention of {name}", metric.signature, file.metrics[name].signature)
                for name, metric in first.metrics.items()
                if name in file.metrics
            ),
        ):
            problem = f"{test_set} cannot be compared with {first_path}: the {what} differs"
            next_step = "score both systems on the same test set with the same convention"
            check_equal(expected, found, problem, where=path, next_step=next_step)
