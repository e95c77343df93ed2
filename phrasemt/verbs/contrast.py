"""`phrasemt contrast`: how often a trained system prefers the right translation to one with a single mistake."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.translations import KindCounts
from phrasemt.corpus.contrastive_pairs import files_of_folder, read_contrastive_pairs
from phrasemt.decoding.contrasts import Line, decide
from phrasemt.decoding.translator import Translator
from phrasemt.machine.gpus import lease
from phrasemt.runs.text_table import table
from phrasemt.verbs._system import add_cores, add_study_option, add_training, chosen_training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Count the pairs whose right translation is more probable than the wrong one, in percent: all, by "
        "kind of mistake, and by distance in words between the words that must agree."
    )
    parser.add_argument(
        "pairs", type=Path, metavar="PAIRS",
        help="JSON of LingEval97, a folder of DistilLingEval, or a table: source, right, wrong[, distance[, kind]]",
    )  # fmt: skip
    add_study_option(parser)
    add_training(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object with counts")
    add_cores(parser)


def run(options: argparse.Namespace) -> None:
    """Score the pairs and print a table. Raises DataError for a file that holds no pairs."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    training = chosen_training(options)
    path: Path = options.pairs
    files = files_of_folder(path) if path.is_dir() else [path]
    pairs = read_contrastive_pairs(files, kind=path.name if path.is_dir() else "")
    system = training.files()
    with lease(1):
        translator = Translator(system, decoding=system.settings.decoding, cores=options.cores)

        def score(lines: Sequence[Line]) -> list[float]:
            _, sources, targets = zip(*lines, strict=True)
            return [one.log_prob for one in translator.force(sources, targets)]

        kinds = decide([0] * len(pairs), pairs, score)["kinds"]
    groups = list(_groups(kinds))
    if options.json:
        place = {"dataset": training.dataset, "system": training.system, "seed": training.seed}
        print(
            json.dumps(place | {"groups": {name: {"pairs": n, "right": right} for name, n, right in groups}}, indent=1)
        )
        return
    rows = [[name, f"{n:,}", f"{100 * right / n:.1f}"] for name, n, right in groups]
    print(*table([["pairs", "number", "right, %"], *rows], right_aligned=("number", "right, %")), sep="\n")


def _groups(kinds: Sequence[KindCounts]) -> Iterator[tuple[str, int, int]]:
    """Yield name, pairs and right ones of all pairs, of each kind of mistake if there are several, and by distance."""
    yield "all", sum(kind.pairs for kind in kinds), sum(kind.right for kind in kinds)
    for kind in kinds:
        of_kind = f"{kind.kind}, " if len(kinds) > 1 else ""
        if of_kind:
            yield kind.kind, kind.pairs, kind.right
        yield from ((f"{of_kind}distance {group.name}", group.pairs, group.right) for group in kind.by_distance)
