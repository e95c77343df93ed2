"""The stage `score_by_length`: BLEU on groups of sentences with similar source lengths (Xu et al. 2020, Figure 3).

The length of a source is its number of words, that is of tokens before they are cut into subwords. The BLEU of a group
is computed from the statistics in the score files, with an interval from bootstrap samples of the group's sentences
(Koehn 2004). With several seeds it is the mean over the seeds, which share the samples. A group without sentences has
no score.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phrasemt.artefacts.scores import BleuScore, LengthGroup, LengthScores, LengthsOnTestSet, Scores, SystemScores
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.scoring.scores import check_comparable, of_test_sets
from phrasemt.scoring.significance import bootstrap_scores, estimate
from phrasemt.scoring.statistics import corpus_scores
from phrasemt.stages.scoring import ScoreByLength

log = logging.getLogger("phrasemt.score_by_length")


def score_by_length(
    *, settings: ScoreByLength, cores: int, scores: list[Path], source_tokens: list[Path], lengths: Path
) -> None:
    """Write a `LengthScores`. scores: score files of all seeds. source_tokens: of each test set, not cut into subwords.

    Raises MismatchError if the score files are about different sentences, or sources and scores differ in number.
    """
    files = {str(path): SystemScores.read(path) for path in scores}
    test_sets = {}
    for test_set, (tokens,) in of_test_sets(settings.test_sets, source_tokens):
        of_seeds = {path: file.test_sets[test_set] for path, file in files.items() if test_set in file.test_sets}
        what = f"each seed needs one score file with the test set {test_set}"
        where, next_step = ", ".join(files) or None, "give the score file of each seed once"
        check_equal(len(settings.seeds), len(of_seeds), what, where=where, next_step=next_step)
        check_comparable(test_set, of_seeds)
        words = np.array([len(line.split()) for line in read_lines(tokens)])
        sentences = next(iter(of_seeds.values())).sentences
        what = "the source and the scores have different numbers of sentences"
        check_equal(sentences, len(words), what, where=tokens, next_step="give the sources of the same test set")
        test_sets[test_set] = _of_test_set(settings, list(of_seeds.values()), words)
    file = LengthScores(
        dataset=settings.dataset,
        system=settings.system,
        seeds=settings.seeds,
        samples=settings.samples,
        test_sets=test_sets,
    )
    file.write(lengths)
    log.info("score_by_length: %s, %d test sets", settings.system, len(test_sets))


def _of_test_set(settings: ScoreByLength, of_seeds: Sequence[Scores], words: np.ndarray) -> dict[str, LengthsOnTestSet]:
    first, conventions = of_seeds[0], {}
    bounds = [-1, *settings.limits, None]
    for name, metric in first.metrics.items():
        if not isinstance(metric, BleuScore):
            continue
        statistics = np.array([scores.statistics[name] for scores in of_seeds], dtype=np.float64)
        groups = []
        for before, high in itertools.pairwise(bounds):
            assert before is not None
            chosen = (words > before) & (words <= (np.inf if high is None else high))
            bleu = None
            if chosen.any():
                group = statistics[:, chosen]
                draws = {"samples": settings.samples, "seed": settings.seed}
                samples = bootstrap_scores({name: metric}, {name: group}, **draws)[name]
                bleu = estimate(float(corpus_scores(metric, group.sum(1)).mean()), samples.mean(0))
            groups.append(LengthGroup(low=before + 1, high=high, sentences=int(chosen.sum()), bleu=bleu))
        conventions[name] = LengthsOnTestSet(signature=metric.signature, groups=groups)
    return conventions
