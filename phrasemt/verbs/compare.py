"""`phrasemt compare A B`: settings, scores and sentences in which systems or studies differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.scores import MetricComparison, Scores, SystemScores
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.report.sections.sentences import METRIC, sentence_bleu
from phrasemt.report.sections.settings import flatten
from phrasemt.runs.text_table import table
from phrasemt.scoring.scores import check_comparable
from phrasemt.scoring.significance import SeedVariation, compare_scores, p_text, resample, seed_variations
from phrasemt.study.evaluation import MOST_SAMPLES, SAMPLES
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.verbs._numbers import in_range
from phrasemt.verbs._study import choose
from phrasemt.verbs._system import add_study_option
from phrasemt.workflow.paths import Paths

_SEED = 1  # of the samples


@dataclass(frozen=True)
class _Side:
    """A system of a study, as the command line names it."""

    given: str
    study: Study
    system: str

    def dataset(self, wanted: str | None) -> str:
        return choose("dataset", wanted, list(self.study.datasets))

    def settings(self) -> dict[str, str]:
        """The settings of model, training and search by their key."""
        return dict(flatten("", self.study.systems[self.system].model_dump(mode="json", exclude={"title"})))

    def scores(self, dataset: str) -> dict[int, SystemScores]:
        """The score files by seed."""
        return _scored(self.study, dataset, self.system)

    def repeated(self, dataset: str) -> dict[str, dict[int, SystemScores]]:
        """The score files of the systems of the study that have several seeds, by system and seed."""
        return {system: _scored(self.study, dataset, system) for system in self.study.repeated}


def _scored(study: Study, dataset: str, system: str) -> dict[int, SystemScores]:
    pattern = Paths.of(study, dataset).system_scores
    files = {seed: Path(pattern.at(system=system, seed=seed)) for seed in study.seeds_of(system)}
    return {seed: SystemScores.read(path) for seed, path in files.items() if path.is_file()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sides", nargs="+", metavar="A", help="SYSTEM, STUDY:SYSTEM or STUDY, twice or more")
    add_study_option(parser)
    parser.add_argument("--dataset", metavar="NAME", help="data set (default: the first of each study)")
    parser.add_argument(
        "--sentences", type=in_range(int, 0, 1000), default=3, metavar="N",
        help="of two systems: print the N sentences that gain and lose most (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--samples",
        type=in_range(int, 1, MOST_SAMPLES),
        default=SAMPLES,
        metavar="N",
        help="samples of the tests (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> None:
    """Print what differs. Raises PhrasemtError for fewer than two sides, and for unknown studies and systems."""
    if len(options.sides) < 2:
        raise PhrasemtError("one side only", where=options.sides[0], expected="two or more systems or studies")
    studies = [Path(side) for side in options.sides if Path(side).suffix in (".yaml", ".yml")]
    if studies and len(studies) < len(options.sides):
        raise PhrasemtError("systems and studies mixed", expected="either study files, or systems (STUDY:SYSTEM)")
    lines = _of_studies(studies, options) if studies else _of_systems(_sides(options), options)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _sides(options: argparse.Namespace) -> Iterator[_Side]:
    for given in options.sides:
        file, colon, system = given.rpartition(":")
        study = load_study(Path(file) if colon else options.study)
        yield _Side(given, study, choose("system", system, list(study.systems)))


def _of_studies(files: Sequence[Path], options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines about studies: settings that differ, and the scores of the systems that all of them have."""
    studies = list(map(load_study, files))
    names = list(map(str, files))
    yield from _settings(
        dict(zip(names, (dict(flatten("", one.model_dump(mode="json"))) for one in studies), strict=True))
    )
    shared = [system for system in studies[0].systems if all(system in study.systems for study in studies)]
    for system in shared:
        sides = [_Side(f"{name}:{system}", study, system) for name, study in zip(names, studies, strict=True)]
        yield from _scores(sides, options)


def _of_systems(sides: Iterator[_Side], options: argparse.Namespace) -> Iterator[str]:
    found = list(sides)
    yield from _settings({side.given: side.settings() for side in found})
    yield from _scores(found, options)
    if len(found) == 2:
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
    files = {side.given: side.scores(side.dataset(options.dataset)) for side in sides}
    first, *others = (side.given for side in sides)
    repeated = {
        (side.study.study, system): list(found.values())
        for side in sides
        for system, found in side.repeated(side.dataset(options.dataset)).items()
    }
    unseeded = {side.given: side.system in side.study.unseeded for side in sides}
    for missing in (given for given, scores in files.items() if not scores):
        yield f"\n{missing}: not scored yet"
    if not files[first]:
        return
    for test_set in next(iter(files[first].values())).test_sets:
        by_side = {
            given: {seed: file.test_sets[test_set] for seed, file in found.items() if test_set in file.test_sets}
            for given, found in files.items()
        }
        yield f"\n{test_set}, beside {first} (seeds {_listed(by_side[first])})"
        rows: list[tuple[str, ...]] = [("metric", "system", "seeds", "score", "difference", "95 % interval", "p")]
        draws = {"samples": options.samples, "seed": _SEED}
        trainings = [
            [file.test_sets[test_set] for file in of_one if test_set in file.test_sets] for of_one in repeated.values()
        ]
        variations = seed_variations([resample(runs, **draws) for runs in trainings if len(runs) > 1])
        for other in (given for given in others if by_side[given]):
            found = _tested(test_set, first, other, by_side, unseeded, variations, options.samples)
            rows += _compared(found, other, _listed(by_side[other]))
        yield from table(rows, right_aligned=("score", "difference", "p"))
        if not variations:
            yield "p not tested, and intervals cover sentences only, because no system was trained several times"


def _tested(
    test_set: str,
    first: str,
    other: str,
    by_side: Mapping[str, Mapping[int, Scores]],
    unseeded: Mapping[str, bool],
    variations: Mapping[str, SeedVariation],
    samples: int,
) -> dict[str, MetricComparison]:
    check_comparable(
        test_set, {f"{given}, {seed}": one for given in (first, other) for seed, one in by_side[given].items()}
    )
    sides = [list(by_side[given].values()) for given in (first, other)]
    fixed = [unseeded[given] for given in (first, other)]
    return compare_scores(sides[0], sides[1], variations=variations, unseeded=fixed, samples=samples, seed=_SEED)


def _compared(found: Mapping[str, MetricComparison], other: str, seeds: str) -> Iterator[tuple[str, ...]]:
    for metric, one in found.items():
        difference = (one.over_seeds or one).difference
        yield (
            metric, other, seeds, f"{one.system.value:.2f}", f"{difference.value:+.2f}",
            f"{difference.low:+.2f} to {difference.high:+.2f}", p_text(one.p_values.over_seeds),
        )  # fmt: skip


def _listed(by_seed: Mapping[int, Scores]) -> str:
    return " ".join(map(str, by_seed))


def _sentences(sides: Sequence[_Side], options: argparse.Namespace) -> Iterator[str]:
    """Yield the sentences of each test set whose BLEU differs most between the first trainings of two systems."""
    datasets = [side.dataset(options.dataset) for side in sides]
    scores = [side.scores(dataset) for side, dataset in zip(sides, datasets, strict=True)]
    if not all(scores):
        return
    seeds = [next(iter(one)) for one in scores]
    paths = [Paths.of(side.study, dataset) for side, dataset in zip(sides, datasets, strict=True)]
    for test_set in scores[0][seeds[0]].test_sets:
        outputs = [
            list(read_lines(Path(of_side.translated_tokens.at(split=test_set, system=side.system, seed=seed))))
            for of_side, side, seed in zip(paths, sides, seeds, strict=True)
        ]
        source, target = (
            list(read_lines(Path(paths[0].tokens.at(split=test_set, language=language))))
            for language in sides[0].study.datasets[datasets[0]].languages
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
