"""What must hold before scores are compared: equal sentences and equal conventions. Scores of forced decoding."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import Better, MetricScore, Scores
from phrasemt.artefacts.translations import AttentionAnalysis
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


NATS = "nats"


def forced_scores(
    name: str, better: Better, rows: Iterable[tuple[float, int]], references: Sequence[str] = ()
) -> Scores:
    """A mean of forced decoding as scores. rows: of each sentence, a sum and the number of what it is the sum of."""
    statistics: list[list[int | float]] = [[total, number] for total, number in rows]
    value = math.fsum(total for total, _ in statistics) / sum(number for _, number in statistics)
    metric = MetricScore(score=value, metric="mean", better=better, signature=f"{name}|forced decoding")
    of_texts = {"tokens": list(references)} if references else {}
    return Scores(sentences=len(statistics), references=of_texts, metrics={name: metric}, statistics={name: statistics})


def nats_of(analysis: AttentionAnalysis) -> Scores:
    """The negative log-probability of the references for each token, the lower the better.

    It has far more power than BLEU: no search and no choice of words stand between. Systems with other subwords have
    other tokens, and are not comparable: the lengths of the references stand for these.
    """
    lengths = analysis.sentence_tokens
    digest = hashlib.sha256(" ".join(map(str, lengths)).encode()).hexdigest()
    return forced_scores(NATS, "lower", zip(analysis.sentence_nats, lengths, strict=True), [digest])
