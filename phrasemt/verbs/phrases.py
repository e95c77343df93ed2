"""`phrasemt phrases`: show statistics of the phrases that each segmentation of a study makes."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.artefacts.syntax import PhraseStatistics
from phrasemt.errors import PhrasemtError
from phrasemt.verbs._study import add_dataset, add_study, chosen_dataset
from phrasemt.workflow.paths import Paths

_BAR = 40  # characters of the longest bar of a histogram


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)
    add_dataset(parser)
    parser.add_argument("--split", default="train", help="split (default: train)")
    parser.add_argument("--stats", action="store_true", help="also show histograms of lengths")


def run(options: argparse.Namespace) -> None:
    """Print a line for each segmentation with statistics. Raises PhrasemtError when there are no statistics."""
    study, dataset = chosen_dataset(options)
    statistics_of = Paths.of(study, dataset).phrase_statistics.at(split=options.split)
    paths = [Path(statistics_of.at(segmenter=segmenter)) for segmenter in study.segmentations]

    measured = [PhraseStatistics.read(path) for path in paths if path.exists()]
    if not measured:
        wanted = " ".join(map(str, paths)) or "nothing: no system of the study has phrases"
        what = "there are no statistics of phrases yet"
        next_step = f"snakemake --profile profiles/local {' '.join(map(str, paths))} --configfile {options.study}"
        raise PhrasemtError(what, where=statistics_of, expected=wanted, next_step=next_step)
    row = "{:<16} {:>10} {:>10} {:>7} {:>13} {:>14}"
    print(row.format("segmentation", "sentences", "phrases", "length", "constituents", "without parse"))
    for statistics in measured:
        share = "-" if statistics.share_of_constituents is None else f"{statistics.share_of_constituents:.1%}"
        counts = [f"{number:,}" for number in (statistics.sentences, statistics.phrases)]
        fallbacks = sum(statistics.fallbacks.values())
        print(row.format(statistics.segmentation, *counts, f"{statistics.mean_length:.2f}", share, f"{fallbacks:,}"))
    if options.stats:
        for statistics in measured:
            _print_histogram(statistics)


def _print_histogram(statistics: PhraseStatistics) -> None:
    print(f"\n{statistics.segmentation}: phrases of each length in tokens")
    most = max(statistics.lengths.values(), default=0)
    for length, count in statistics.lengths.items():
        bar = "█" * max(1, round(_BAR * count / most))
        print(f"  {length:>3} {count:>10,} {count / statistics.phrases:>6.1%} {bar}")
    for reason, count in statistics.fallbacks.items():
        print(f"  cut into n-grams, {reason}: {count:,} sentences")
