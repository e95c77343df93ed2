"""`phrasemt ratings`: blind sheets for human evaluation, and the scores of filled sheets."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.commands._arguments import (
    Output,
    add_dataset,
    add_study_option,
    choose,
    chosen_dataset,
    finished_file,
    in_range,
    refuse_changes,
)
from phrasemt.files.lines import read_lines
from phrasemt.runs.display import table
from phrasemt.scoring.ratings import KEY, SCALES, RatedText, score_sheets, write_sheets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = actions.add_parser(
        "make",
        help="write a sheet for each rater",
        description="Write blind sheets for human evaluation into a new folder: adequacy and fluency from 0 to 5, "
        "under- and over-translation as 0 or 1. key.tsv names the systems of the items; hide it from raters.",
    )
    make.add_argument("folder", type=Output, metavar="FOLDER")
    add_study_option(make)
    make.add_argument("--systems", nargs="+", metavar="NAME", help="systems to compare (default: all that translate)")
    add_dataset(make)
    make.add_argument(
        "--test-sets", nargs="+", metavar="NAME", help="sentences are drawn from these (default: all, without dev)"
    )
    seed, sentences, raters = in_range(int, 0), in_range(int, 1), in_range(int, 1, 1000)
    make.add_argument(
        "--sentences", type=sentences, default=100, metavar="N", help="drawn at random (default: %(default)s)"
    )
    make.add_argument("--raters", type=raters, default=2, metavar="N", help="number of sheets (default: %(default)s)")
    make.add_argument("--draw", type=seed, default=1, metavar="N", help="seed of the draw (default: %(default)s)")
    make.set_defaults(run=_make)
    score = actions.add_parser("score", help="mean ratings of systems")
    score.add_argument("folder", type=Path, metavar="FOLDER")
    score.set_defaults(run=_score)


def _make(options: argparse.Namespace) -> None:
    """Write the sheets.

    Raises PhrasemtError for a system, test set or translation that is not there, MismatchError as `refuse_changes`.
    """
    study, dataset = chosen_dataset(options)
    systems = [choose("system", name, study.translating) for name in options.systems or study.translating]
    paths = Paths.of(study, dataset)

    def lines(path: str) -> list[str]:
        return list(read_lines(finished_file(path, "the study has not made this text yet", options.study)))

    def sides(split: str) -> list[list[str]]:
        languages = study.datasets[dataset].languages
        return [lines(paths.clean_text.at(split=split, language=language)) for language in languages]

    known = list(study.datasets[dataset].test_sets)
    if options.test_sets:
        chosen = [choose("test set", name, known) for name in dict.fromkeys(options.test_sets)]
    else:  # a study may test on dev too, because its paper does
        chosen = [name for name in known if sides(name) != sides("dev")]
    texts = []
    for test_set in chosen:
        sources, references = sides(test_set)
        files = {
            system: paths.translated_text.at(system=system, seed=study.seeds_of(system)[0], split=test_set)
            for system in dict.fromkeys(systems)
        }
        refuse_changes(study, files.values())
        translations = {system: lines(path) for system, path in files.items()}
        texts.append(RatedText(test_set, sources, references, translations))
    items = write_sheets(options.folder, texts, sentences=options.sentences, raters=options.raters, seed=options.draw)
    print(f"{options.folder}: {options.raters} sheets of {items} items; {KEY} stays with you")


def _score(options: argparse.Namespace) -> None:
    """Print mean ratings. Raises DataError for sheets that are not filled in."""
    ratings, raters = score_sheets(options.folder)
    rows = [
        [
            one.system,
            str(one.items),
            *(f"{mean:.2f}" if question in SCALES else f"{100 * mean:.0f} %" for question, mean in one.means.items()),
        ]
        for one in ratings
    ]
    print(f"{raters} rater{'s' if raters > 1 else ''}")
    headings = ["system", "items", "adequacy", "fluency", "under-translation", "over-translation"]
    print(*table([headings, *rows], right_aligned=headings[1:]), sep="\n")
