"""`phrasemt compare A B`: settings, scores and sentences in which systems of one or several studies differ."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import Scores
from phrasemt.commands._arguments import add_study_option, as_written, choose, in_range, print_changes
from phrasemt.commands._scores import ScoreRow, add_samples, read_nats, read_scores, score_table
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines, sentence_name
from phrasemt.report.sections.sentences import METRIC, sentence_bleu
from phrasemt.report.sections.trainings import flatten
from phrasemt.runs.display import table
from phrasemt.scoring.scores import check_comparable, nats_of
from phrasemt.scoring.significance import compare_runs, resample, seed_variations
from phrasemt.study.reading import load_study
from phrasemt.study.schema import SEED, Study
from phrasemt.workflow.changes import changes_since

_OfSystems = dict[str, dict[int, Scores]]  # by system and seed
_ByTestSet = dict[str, _OfSystems]


@dataclass(frozen=True)
class _Side:
    """A system of a study, as the command line names it.

    Of all systems of the study on one data set: scores, and nats of the references (forced decoding).
    """

    given: str
    study: Study
    system: str
    dataset: str
    scores: _ByTestSet
    nats: _ByTestSet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sides", nargs="+", metavar="SYSTEM", help="SYSTEM or STUDY:SYSTEM, twice or more")
    add_study_option(parser)
    parser.add_argument("--dataset", metavar="NAME", help="data set (default: the first of each study)")
    parser.add_argument(
        "--sentences", type=in_range(int, 0, 1000), default=3, metavar="N",
        help="of two systems: print the N sentences that gain and lose most (default: %(default)s)",
    )  # fmt: skip
    add_samples(parser)


def run(options: argparse.Namespace) -> None:
    """Print what differs. Raises PhrasemtError for one side only, a side twice, and unknown studies and systems."""
    if len(options.sides) < 2:
        raise PhrasemtError("one side only", where=options.sides[0], expected="two or more systems")
    if twice := [side for place, side in enumerate(options.sides) if side in options.sides[:place]]:
        raise PhrasemtError("the same side twice", where=twice[0], next_step="name another system")
    sides = list(_sides(options))
    for study in {side.study.study: side.study for side in sides}.values():
        print_changes(changes_since(study))
    lines = [*_settings(sides), *_scores(sides, options)]
    if len(sides) == 2:
        lines += _sentences(sides, options)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _sides(options: argparse.Namespace) -> Iterator[_Side]:
    """Yield the systems. The files of each study are read once."""
    studies: dict[Path, tuple[Study, str, _ByTestSet, _ByTestSet]] = {}
    for given in options.sides:
        file, colon, system = given.rpartition(":")
        path = Path(file) if colon else options.study
        if path not in studies:
            study = load_study(path)
            dataset = choose("data set", options.dataset, list(study.datasets))
            scores, nats = _ByTestSet(), _ByTestSet()
            for file in read_scores(study, dataset):
                for test_set, part in file.test_sets.items():
                    scores.setdefault(test_set, {}).setdefault(file.system, {})[file.seed] = part
            for analysis in read_nats(study, dataset):
                of_system = nats.setdefault(analysis.test_set, {}).setdefault(analysis.system, {})
                of_system[analysis.seed] = nats_of(analysis)
            studies[path] = study, dataset, scores, nats
        study, dataset, scores, nats = studies[path]
        yield _Side(given, study, choose("system", system, list(study.systems)), dataset, scores, nats)


def _settings(sides: Sequence[_Side]) -> Iterator[str]:
    """Yield a table of the settings of model, training and search that differ."""
    systems = (side.study.systems[side.system].model_dump(mode="json", exclude={"title", "controls"}) for side in sides)
    of_sides = [dict(flatten("", system)) for system in systems]
    rows = [[key, *(one.get(key, "-") for one in of_sides)] for key in dict.fromkeys(itertools.chain(*of_sides))]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    heading = ["setting", *(side.given for side in sides)]
    yield from table([heading, *differing]) if differing else ["settings: no difference"]


def _scores(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for each test set: each metric of each side beside the first side, then nats of the references."""
    for side in sides:
        if not any(side.system in of_systems for of_systems in side.scores.values()):
            yield f"\n{side.given}: not scored yet"
    first = sides[0]
    for test_set, of_systems in first.scores.items():
        if first.system not in of_systems:
            continue
        rows = list(_rows(test_set, [(side, side.scores.get(test_set, {})) for side in sides], options.samples))
        nats = _comparable_nats(test_set, sides)
        rows += _rows(test_set, nats, options.samples) if nats else []
        yield f"\n{test_set}, beside {first.given}"
        yield from score_table(rows)
        compared = [side.given for side, of_systems in nats if side.system in of_systems]
        if without := [side.given for side in sides if side.given not in compared]:
            yield f"no nats per token, or those of other subwords: {', '.join(without)}"
        if not any(row.tested and row.tested.power for row in rows):
            yield "no system was trained several times: nothing is tested; intervals cover sentences only"


def _comparable_nats(test_set: str, sides: Sequence[_Side]) -> list[tuple[_Side, _OfSystems]]:
    """The nats of each side per token of the subwords of the first one; none if this has none."""
    of_first = sides[0].nats.get(test_set, {}).get(sides[0].system)
    if not of_first:
        return []
    tokens = next(iter(of_first.values())).references
    comparable = []
    for side in sides:
        of_systems = side.nats.get(test_set, {}).items()
        same = {name: runs for name, runs in of_systems if all(one.references == tokens for one in runs.values())}
        comparable.append((side, same))
    return comparable


def _rows(test_set: str, of_sides: Sequence[tuple[_Side, _OfSystems]], samples: int) -> Iterator[ScoreRow]:
    """Yield those of sides that have scores. of_sides: the scores of all systems of the study of each side."""
    variations = seed_variations(
        (study.pool_groups[system], resample(list(of_systems[system].values()), samples=samples, seed=SEED))
        for study, of_systems in {side.study.study: (side.study, one) for side, one in of_sides}.values()
        for system in study.repeated
        if len(of_systems.get(system, {})) > 1
    )
    sides = [(side, of_systems[side.system]) for side, of_systems in of_sides if side.system in of_systems]
    resampled = {side.given: resample([*runs.values()], samples=samples, seed=SEED) for side, runs in sides}
    (first, of_first), *others = sides
    tested = {}
    for side, of_side in others:
        both = ((first, of_first), (side, of_side))
        named = {f"{one.given}, {seed}": scores for one, by_seed in both for seed, scores in by_seed.items()}
        check_comparable(test_set, named)
        tested[side.given] = compare_runs(
            *(resampled[one.given] for one, _ in both),
            variations=variations,
            kinds=[one.study.pool_groups[one.system] for one, _ in both],
        )
    for metric in next(iter(of_first.values())).metrics:
        for side, by_seed in sides:
            scores = [one.metrics[metric].score for one in by_seed.values()]
            comparison = tested[side.given][metric] if side.given in tested else None
            yield ScoreRow(
                metric=metric,
                system=side.given,
                seeds=" ".join(map(str, by_seed)),
                score=math.fsum(scores) / len(scores),
                sentences=next(iter(by_seed.values())).sentences,
                tested=comparison,
                p_value=comparison.p_value if comparison else None,
            )


def _sentences(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield the sentences of each test set whose BLEU differs most between the first trainings of two systems."""
    paths = [Paths.of(side.study, side.dataset) for side in sides]
    for test_set in sides[0].scores:
        scores = [side.scores.get(test_set, {}).get(side.system, {}) for side in sides]
        if not all(scores):
            continue
        seeds = [next(iter(by_seed)) for by_seed in scores]
        outputs = [
            list(read_lines(as_written(of_side.translated_tokens.at(split=test_set, system=side.system, seed=seed))))
            for of_side, side, seed in zip(paths, sides, seeds, strict=True)
        ]
        source, target = (
            list(read_lines(as_written(paths[0].tokens.at(split=test_set, language=language))))
            for language in sides[0].study.datasets[sides[0].dataset].languages
        )
        changed = [number for number, pair in enumerate(zip(*outputs, strict=True)) if len(set(pair)) > 1]
        yield f"\n{test_set}: {len(changed):,} of {len(source):,} translations differ (first seeds)"
        statistics = [by_seed[seed].statistics[METRIC] for by_seed, seed in zip(scores, seeds, strict=True)]
        gains = {
            number: sentence_bleu(statistics[1][number]) - sentence_bleu(statistics[0][number]) for number in changed
        }
        ranked = sorted(changed, key=gains.__getitem__)
        for number in [*ranked[::-1][: options.sentences], *ranked[: options.sentences]]:
            yield f"{sentence_name(test_set, number)}  {gains[number]:+.1f} sentence BLEU"
            yield f"  source     {source[number]}"
            yield f"  reference  {target[number]}"
            yield from (f"  {side.given:<9}  {lines[number]}" for side, lines in zip(sides, outputs, strict=True))
