"""`phrasemt contrast`: how often trained systems prefer the right translation to one with a single mistake."""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from phrasemt.artefacts.corpus import ContrastivePair
from phrasemt.artefacts.translations import ContrastAccuracy, KindCounts
from phrasemt.corpus.contrastive_pairs import files_of_folder, read_contrastive_pairs
from phrasemt.decoding.contrasts import Line, decide
from phrasemt.decoding.translator import Translator
from phrasemt.errors import PhrasemtError
from phrasemt.machine.gpus import lease
from phrasemt.report.scored import decided_pairs
from phrasemt.report.sections.gains import Pair, distance_tables, gain_by_distance
from phrasemt.runs.text_table import table
from phrasemt.scoring.gains import PairedTest
from phrasemt.study.evaluation import SEED
from phrasemt.verbs._differences import add_samples, gain_lines
from phrasemt.verbs._study import choose
from phrasemt.verbs._system import (
    ChosenTraining,
    add_cores,
    add_study_option,
    add_training,
    chosen_training,
    trainings_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Count the pairs whose right translation is more probable than the wrong one, in percent: all, by "
        "kind of mistake, and by distance in words between the words that must agree. With --baseline, count those of "
        "a second system, too, and test the difference by distance."
    )
    parser.add_argument(
        "pairs", type=Path, metavar="PAIRS",
        help="JSON of LingEval97, a folder of DistilLingEval, or a table: source, right, wrong[, distance[, kind]]",
    )  # fmt: skip
    add_study_option(parser)
    add_training(parser)
    parser.add_argument(
        "--baseline", metavar="NAME",
        help="system of the study to compare with; without --seed, all trainings of both systems count",
    )  # fmt: skip
    add_samples(parser)
    parser.add_argument(
        "--json", action="store_true",
        help="print a JSON object with counts; with --baseline, with those of each training and the tests by distance",
    )  # fmt: skip
    add_cores(parser)


def run(options: argparse.Namespace) -> None:
    """Score the pairs and print tables. Raises DataError for a file that holds no pairs."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    trainings = _trainings(options)
    path: Path = options.pairs
    files = files_of_folder(path) if path.is_dir() else [path]
    pairs = read_contrastive_pairs(files, kind=path.name if path.is_dir() else "")
    with lease(1):
        decided = [_decided(training, pairs, path.name, options.cores) for training in trainings]
    sys.stdout.writelines(
        f"{line}\n" for line in (_json(decided, options) if options.json else _lines(decided, options))
    )


def _trainings(options: argparse.Namespace) -> list[ChosenTraining]:
    """The trainings, those of the baseline first."""
    chosen = chosen_training(options)
    if options.baseline is None:
        return [chosen]
    if (baseline := choose("system", options.baseline, list(chosen.study.models))) == chosen.system:
        raise PhrasemtError("a system beside itself", where=f"--baseline {baseline}", next_step="name another system")
    return [*trainings_of(chosen.study, baseline, options), *trainings_of(chosen.study, chosen.system, options)]


def _decided(training: ChosenTraining, pairs: Sequence[ContrastivePair], name: str, cores: int) -> ContrastAccuracy:
    """What a training decides about the pairs. name: of their file."""
    system = training.files()
    translator = Translator(system, decoding=system.settings.decoding, cores=cores)

    def score(lines: Sequence[Line]) -> list[float]:
        _, sources, targets = zip(*lines, strict=True)
        return [one.log_prob for one in translator.force(sources, targets)]

    return ContrastAccuracy(
        dataset=training.dataset,
        contrast_set=name,
        system=training.system,
        seed=training.seed,
        **decide([0] * len(pairs), pairs, score),
    )


def _json(decided: Sequence[ContrastAccuracy], options: argparse.Namespace) -> Iterator[str]:
    """Yield the counts, and the differences of two systems by kind of mistake."""
    counts = [
        {"dataset": one.dataset, "system": one.system, "seed": one.seed}
        | {"groups": {name: {"pairs": n, "right": right} for name, n, right in _groups(one.kinds)}}
        for one in decided
    ]
    found: dict[str, Any] = counts[0]
    if options.baseline is not None:
        pair = _pair(decided)
        (pairs,) = decided_pairs(decided, _test(options))
        gains = [gain_by_distance(pairs, pair, number) for number in range(len(pairs.kinds))]
        tests = {kind: gain.model_dump(mode="json") for kind, gain in zip(pairs.kinds, gains, strict=True)}
        found = {"baseline": pair.baseline, "system": pair.system, "trainings": counts, "differences": tests}
    yield json.dumps(found, indent=1)


def _pair(decided: Sequence[ContrastAccuracy]) -> Pair:
    baseline, system = dict.fromkeys(one.system for one in decided)
    return Pair(baseline=baseline, system=system, title=f"{system} minus {baseline}")


def _test(options: argparse.Namespace) -> PairedTest:
    return PairedTest(samples=options.samples, seed=SEED)


def _lines(decided: Sequence[ContrastAccuracy], options: argparse.Namespace) -> Iterator[str]:
    """Yield the counts, of several trainings their mean, and the differences of two systems."""
    of_systems: dict[str, list[ContrastAccuracy]] = {}
    for one in decided:
        of_systems.setdefault(one.system, []).append(one)
    headings = ["right, %"] if len(of_systems) == 1 else [f"{system}, right, %" for system in of_systems]
    rows = []
    for groups in zip(*(_groups(one.kinds) for one in decided), strict=True):
        name, n, _ = groups[0]
        shares = [100 * right / n for _, _, right in groups]
        means = []
        for of_system in of_systems.values():
            part, shares = shares[: len(of_system)], shares[len(of_system) :]
            means.append(f"{math.fsum(part) / len(part):.1f}")
        rows.append([name, f"{n:,}", *means])
    yield from table([["pairs", "number", *headings], *rows], right_aligned=("number", *headings))
    if len(of_systems) == 2:
        yield from gain_lines(distance_tables(decided_pairs(decided, _test(options)), [_pair(decided)]))
        if len(decided) == 2:
            yield "one training of each system: intervals cover the choice of pairs only, and p is not tested"


def _groups(kinds: Sequence[KindCounts]) -> Iterator[tuple[str, int, int]]:
    """Yield name, pairs and right ones of all pairs, of each kind of mistake if there are several, and by distance."""
    yield "all", sum(kind.pairs for kind in kinds), sum(kind.right for kind in kinds)
    for kind in kinds:
        of_kind = f"{kind.kind}, " if len(kinds) > 1 else ""
        if of_kind:
            yield kind.kind, kind.pairs, kind.right
        yield from ((f"{of_kind}distance {group.name}", group.pairs, group.right) for group in kind.by_distance)
