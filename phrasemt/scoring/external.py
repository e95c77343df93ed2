"""The stage `score_metric`: a metric that a program of your own computes (`metrics:` of the study).

The command of the metric is started once for each test set, without a shell. Its words may hold three placeholders:

    {hypotheses}    file of the detokenised translations
    {references}    files of the references, as many words as the test set has references
    {sources}       file of the sources

The files are UTF-8 with one sentence per line. The command writes one number per line to its standard output, the score
of that sentence; whatever it writes to standard error goes to the log. OMP_NUM_THREADS is the number of cores that it
may use. The score of a system is the mean of its numbers. Any other output, and an exit code other than 0, is an error.
Differences of means are tested like those of all scores (`compare_systems`).
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import MetricScores, SystemScores
from phrasemt.errors import DataError, check_equal
from phrasemt.files.lines import count_lines
from phrasemt.files.system import digest_file
from phrasemt.scoring.scores import mean_scores, of_test_sets, references_of
from phrasemt.stages.scoring import ScoreMetric

log = logging.getLogger("phrasemt.score_metric")


def score_metric(
    *,
    settings: ScoreMetric,
    cores: int,
    text: list[Path],
    reference: list[Path],
    source: list[Path],
    files: list[Path],
    scores: Path,
) -> None:
    """Run the command of a metric on each test set, and write a `MetricScores`.

    text, source: one file for each test set; reference: for each test set as many as it has references. files: what the
    command reads besides. Raises DataError, with the last words of the command, if it fails or if its output is not one
    number per sentence.
    """
    references = references_of(reference, settings.references)
    digests = "".join(f"|{path.name}:{digest_file(path)[:12]}" for path in files)
    signature = f"{settings.metric}|mean:{settings.better}|{settings.command}{digests}"
    parts = {}
    for place, (test_set, (hypotheses, sources)) in enumerate(of_test_sets(settings.test_sets, text, source)):
        command = filled(settings.words, hypotheses=hypotheses, references=references[place], sources=sources)
        where = f"metric {settings.metric}, {test_set}"
        numbers = _numbers(_output_of(command, cores, where), count_lines(hypotheses), where)
        key, rows = metric_key(settings.metric), ((number, 1) for number in numbers)
        parts[test_set] = mean_scores(key, settings.better, signature, rows)
        log.info("score_metric: %s %s: %.4f", test_set, settings.metric, parts[test_set].metrics[key].score)
    MetricScores(
        dataset=settings.dataset, system=settings.system, seed=settings.seed, metric=settings.metric, test_sets=parts
    ).write(scores)


def metric_key(metric: str) -> str:
    """The name of a metric of your own among the metrics of a comparison and the columns of a table."""
    return f"metric_{metric}"


def with_metrics(files: Mapping[Path, SystemScores], metrics: Sequence[Path]) -> dict[Path, SystemScores]:
    """Add the scores of your own metrics to the score files of a system, one of each seed.

    Raises MismatchError for a file about another system, seed or test set.
    """
    places = {(file.dataset, file.system, file.seed): path for path, file in files.items()}
    found = dict(files)
    for path in metrics:
        added = MetricScores.read(path)
        place = (added.dataset, added.system, added.seed)
        sizes = {name: part.sentences for name, part in added.test_sets.items()}
        expected = {place: {n: s.sentences for n, s in found[file].test_sets.items()} for place, file in places.items()}
        what = f"the scores of metric {added.metric} belong to other translations"
        check_equal(expected.get(place), sizes, what, where=path, next_step="delete it and run again")
        file, test_sets = found[places[place]], {}
        for name, scores in file.test_sets.items():
            part = added.test_sets[name]
            update = {"metrics": scores.metrics | part.metrics, "statistics": scores.statistics | part.statistics}
            test_sets[name] = scores.model_copy(update=update)
        found[places[place]] = file.model_copy(update={"test_sets": test_sets})
    return found


def filled(words: Sequence[str], *, hypotheses: Path, references: Sequence[Path], sources: Path) -> list[str]:
    """Return the words of a command with the paths of the files in place of the placeholders."""
    command: list[str] = []
    for word in words:
        if word == "{references}":
            command += map(str, references)
        else:
            command.append(word.format(hypotheses=hypotheses, sources=sources))
    return command


def _output_of(command: list[str], cores: int, where: str) -> str:
    """Return what a command writes to its standard output. What it writes to standard error goes to the log."""
    environment = os.environ | {"OMP_NUM_THREADS": str(cores)}
    try:
        done = subprocess.run(command, check=False, capture_output=True, env=environment, stdin=subprocess.DEVNULL)
    except OSError as error:
        what = f"cannot start the command: {error.strerror}"
        next_step = "install the program, or give its path in `command` of the metric"
        raise DataError(what, where=where, found=command[0], next_step=next_step) from None
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    for line in said:
        log.info("%s: %s", where, line)
    if done.returncode:
        what, next_step = f"the command ended with exit code {done.returncode}", f"run it by hand: {' '.join(command)}"
        raise DataError(what, where=where, found=said[-1] if said else "nothing on standard error", next_step=next_step)
    return done.stdout.decode("utf-8", "replace")


def _numbers(output: str, sentences: int, where: str) -> list[float]:
    """Return the scores of a command's output. Raises DataError if it is not one finite number per sentence."""
    lines = output.removesuffix("\n").split("\n") if output else []
    numbers = []
    for number, line in enumerate(lines, start=1):
        try:
            score = float(line)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise DataError(
                "the command did not write a number",
                where=f"{where}, line {number} of its output",
                expected="one finite number per line, and nothing else",
                found=repr(line[:80]),
                next_step="let the command write messages to standard error",
            )
        numbers.append(score)
    if len(numbers) != sentences or not numbers:
        what = "the command did not write a score for each sentence"
        next_step = "let the command write one line for each line of the hypotheses, empty ones too"
        raise DataError(
            what, where=where, expected=f"{sentences} lines", found=f"{len(numbers)} lines", next_step=next_step
        )
    return numbers
