"""`phrasemt compare A B`: settings, scores and sentences in which systems or studies differ."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from phrasemt.artefacts.scores import Scores, SystemScores
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.commands._arguments import add_study_option, choose, in_range
from phrasemt.commands._scores import Results, ScoreRow, add_samples, gain_lines, score_table
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.report.sections.analyses import Pair, distance_tables, length_tables
from phrasemt.report.sections.sentences import METRIC, sentence_bleu
from phrasemt.report.sections.trainings import flatten
from phrasemt.runs.display import table
from phrasemt.scoring.gains import PairedTest, decided_pairs, read_gains
from phrasemt.scoring.scores import check_comparable
from phrasemt.scoring.significance import SeedVariation, compare_scores, resample, seed_variations
from phrasemt.study.evaluation import SEED
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.paths import Paths

_Kind = TypeVar("_Kind", SystemScores, AttentionAnalysis, ContrastAccuracy)


@dataclass(frozen=True)
class _Side:
    """A system of a study, as the command line names it. results: of the study, on one data set."""

    given: str
    study: Study
    system: str
    dataset: str
    results: Results

    @property
    def key(self) -> str:
        """The name of the system among those of all studies."""
        return _key(self.study, self.system)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of model, training and search by their key."""
        return dict(flatten("", self.study.systems[self.system].model_dump(mode="json", exclude={"title"})))

    @property
    def scores(self) -> dict[int, SystemScores]:
        """The score files by seed."""
        return {file.seed: file for file in self.results.scores if file.system == self.key}


def _key(study: Study, system: str) -> str:
    return f"{study.study}:{system}"


def _results(study: Study, dataset: str) -> Results:
    """The results of a study, with the name of the study before those of its systems."""
    found = Results.of(study, [dataset])

    def named(files: Iterable[_Kind]) -> list[_Kind]:
        return [file.model_copy(update={"system": _key(study, file.system)}) for file in files]

    return replace(
        found, scores=named(found.scores), attention=named(found.attention), contrasts=named(found.contrasts)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sides", nargs="+", metavar="A", help="SYSTEM, STUDY:SYSTEM or STUDY, twice or more")
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
        raise PhrasemtError("one side only", where=options.sides[0], expected="two or more systems or studies")
    if twice := [side for place, side in enumerate(options.sides) if side in options.sides[:place]]:
        raise PhrasemtError("the same side twice", where=twice[0], next_step="name another system or study")
    studies = [Path(side) for side in options.sides if Path(side).suffix in (".yaml", ".yml")]
    if studies and len(studies) < len(options.sides):
        raise PhrasemtError("systems and studies mixed", expected="either study files, or systems (STUDY:SYSTEM)")
    lines = _of_studies(studies, options) if studies else _of_systems(_sides(options), options)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _sides(options: argparse.Namespace) -> Iterator[_Side]:
    """Yield the systems. The files of each study are read once."""
    studies: dict[Path, tuple[Study, str, Results]] = {}
    for given in options.sides:
        file, colon, system = given.rpartition(":")
        path = Path(file) if colon else options.study
        if path not in studies:
            studies[path] = _read(path, options)
        study, dataset, results = studies[path]
        yield _Side(given, study, choose("system", system, list(study.systems)), dataset, results)


def _read(path: Path, options: argparse.Namespace) -> tuple[Study, str, Results]:
    study = load_study(path)
    dataset = choose("dataset", options.dataset, list(study.datasets))
    return study, dataset, _results(study, dataset)


def _of_studies(files: Sequence[Path], options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines about studies: settings that differ, and the scores of the systems that all of them have."""
    found = {str(path): _read(path, options) for path in files}
    yield from _settings(
        {name: dict(flatten("", study.model_dump(mode="json"))) for name, (study, _, _) in found.items()}
    )
    (first, *_), *others = found.values()
    for system in first.systems:
        if all(system in study.systems for study, _, _ in others):
            sides = [
                _Side(f"{name}:{system}", study, system, dataset, results)
                for name, (study, dataset, results) in found.items()
            ]
            yield from _scores(sides, options)


def _of_systems(sides: Iterator[_Side], options: argparse.Namespace) -> Iterator[str]:
    found = list(sides)
    yield from _settings({side.given: side.settings for side in found})
    yield from _scores(found, options)
    if len(found) == 2:
        yield from _gains(found, options)
        yield from _sentences(found, options)


def _settings(of_sides: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    keys = dict.fromkeys(key for settings in of_sides.values() for key in settings)
    rows = [(key, *(settings.get(key, "-") for settings in of_sides.values())) for key in keys]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    if not differing:
        yield "settings: no difference"
        return
    yield from table([("setting", *of_sides), *differing])


def _scores(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for each test set: each metric of each side beside the first side."""
    for side in sides:
        if not side.scores:
            yield f"\n{side.given}: not scored yet"
    first = sides[0]
    if not first.scores:
        return
    repeated = {_key(side.study, system) for side in sides for system in side.study.repeated}
    files = {(file.system, file.seed): file for side in sides for file in side.results.scores}
    for test_set in next(iter(first.scores.values())).test_sets:
        of_systems: dict[str, dict[int, Scores]] = {}
        for (system, seed), file in files.items():
            if test_set in file.test_sets:
                of_systems.setdefault(system, {})[seed] = file.test_sets[test_set]
        draws = {"samples": options.samples, "seed": SEED}
        trainings = [list(by_seed.values()) for system, by_seed in of_systems.items() if system in repeated]
        variations = seed_variations([resample(runs, **draws) for runs in trainings if len(runs) > 1])
        yield f"\n{test_set}, beside {first.given}"
        of_sides = [
            (side, {seed: file.test_sets[test_set] for seed, file in side.scores.items() if test_set in file.test_sets})
            for side in sides
        ]
        yield from score_table(_rows(test_set, [one for one in of_sides if one[1]], variations, options.samples))
        if not variations:
            yield "no system was trained several times: intervals and p cover the choice of sentences only"


def _rows(
    test_set: str,
    sides: Sequence[tuple[_Side, Mapping[int, Scores]]],
    variations: Mapping[str, SeedVariation],
    samples: int,
) -> Iterator[ScoreRow]:
    (first, of_first), *others = sides
    tested = {}
    for side, of_side in others:
        both = ((first, of_first), (side, of_side))
        named = {f"{one.given}, {seed}": scores for one, by_seed in both for seed, scores in by_seed.items()}
        check_comparable(test_set, named)
        tested[side.given] = compare_scores(
            list(of_first.values()),
            list(of_side.values()),
            variations=variations,
            unseeded=[one.system in one.study.unseeded for one, _ in both],
            samples=samples,
            seed=SEED,
        )
    for metric in next(iter(of_first.values())).metrics:
        for side, by_seed in sides:
            scores = [one.metrics[metric].score for one in by_seed.values()]
            yield ScoreRow(
                metric=metric,
                system=side.given,
                seeds=" ".join(map(str, by_seed)),
                score=math.fsum(scores) / len(scores),
                tested=tested[side.given][metric] if side.given in tested else None,
            )


def _gains(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield the gains of the second system by the length of the source, and on contrastive pairs by distance."""
    first, second = sides
    results = list({side.study.study: side.results for side in sides}.values())
    test = PairedTest(
        samples=options.samples,
        seed=SEED,
        repeated=[_key(side.study, system) for side in sides for system in side.study.repeated],
        unseeded=[_key(side.study, system) for side in sides for system in side.study.unseeded],
    )
    scored = read_gains(
        scores=[file for one in results for file in one.scores],
        analyses=[file for one in results for file in one.attention],
        source=first.results.source,
        test=test,
    )
    pairs = [Pair(baseline=first.key, system=second.key, title=f"{second.given} minus {first.given}")]
    yield from gain_lines(length_tables(scored, pairs, first.study.analyses.lengths))
    decided = decided_pairs([file for one in results for file in one.contrasts], test)
    yield from gain_lines(distance_tables(decided, pairs))


def _sentences(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield the sentences of each test set whose BLEU differs most between the first trainings of two systems."""
    scores = [side.scores for side in sides]
    if not all(scores):
        return
    seeds = [next(iter(one)) for one in scores]
    paths = [Paths.of(side.study, side.dataset) for side in sides]
    for test_set in scores[0][seeds[0]].test_sets:
        outputs = [
            list(read_lines(Path(of_side.translated_tokens.at(split=test_set, system=side.system, seed=seed))))
            for of_side, side, seed in zip(paths, sides, seeds, strict=True)
        ]
        source, target = (
            list(read_lines(Path(paths[0].tokens.at(split=test_set, language=language))))
            for language in sides[0].study.datasets[sides[0].dataset].languages
        )
        changed = [number for number, pair in enumerate(zip(*outputs, strict=True)) if len(set(pair)) > 1]
        yield f"\n{test_set}: {len(changed):,} of {len(source):,} translations differ (first seeds)"
        statistics = [one[seed].test_sets[test_set].statistics[METRIC] for one, seed in zip(scores, seeds, strict=True)]
        gains = {
            number: sentence_bleu(statistics[1][number]) - sentence_bleu(statistics[0][number]) for number in changed
        }
        ranked = sorted(changed, key=gains.__getitem__)
        for number in [*ranked[::-1][: options.sentences], *ranked[: options.sentences]]:
            yield f"{test_set}:{number + 1}  {gains[number]:+.1f} sentence BLEU"
            yield f"  source     {source[number]}"
            yield f"  reference  {target[number]}"
            yield from (f"  {side.given:<9}  {lines[number]}" for side, lines in zip(sides, outputs, strict=True))
