"""`phrasemt contrast`: how often a trained system prefers the right translation to one with a single mistake."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasemt.corpus.contrastive_pairs import ContrastivePair, read_contrastive_pairs
from phrasemt.machine.gpus import lease
from phrasemt.verbs._system import add_study_option, add_training, chosen_training
from phrasemt.verbs._tables import table

if TYPE_CHECKING:
    from phrasemt.search.translator import Translator


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "contrast",
        help="accuracy on contrastive pairs: LingEval97, DistilLingEval, or a table of your own",
        description="Count the pairs whose right translation is more probable than the wrong one, in percent: all, by "
        "kind of mistake, and by distance in words between the words that must agree.",
    )
    parser.add_argument(
        "pairs", type=Path, metavar="PAIRS",
        help="JSON of LingEval97, a folder of DistilLingEval, or a table: source, right, wrong[, distance]",
    )  # fmt: skip
    add_study_option(parser)
    add_training(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object with counts")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="default: all")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Score the pairs and print a table. Raises DataError for a file that holds no pairs."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    training = chosen_training(options)
    pairs = read_contrastive_pairs(options.pairs)
    system = training.files()
    with lease(1):
        from phrasemt.search.translator import Translator

        preferred = _preferred(Translator(system, decoding=system.settings.decoding, cores=options.cores), pairs)
    groups = [(name, len(flags), sum(flags)) for name, flags in _groups(pairs, preferred)]
    if options.json:
        place = {"dataset": training.dataset, "system": training.system, "seed": training.seed}
        print(
            json.dumps(place | {"groups": {name: {"pairs": n, "right": right} for name, n, right in groups}}, indent=1)
        )
        return
    rows = [[name, f"{n:,}", f"{100 * right / n:.1f}"] for name, n, right in groups]
    print(*table([["pairs", "number", "right, %"], *rows], right_aligned=("number", "right, %")), sep="\n")


def _preferred(translator: Translator, pairs: Sequence[ContrastivePair]) -> list[bool]:
    """Whether the right translation of each pair is more probable. Each different pair of lines is forced once."""
    lines = list(dict.fromkeys((pair.source, target) for pair in pairs for target in (pair.right, pair.wrong)))
    forced = translator.force([source for source, _ in lines], [target for _, target in lines])
    scores = {line: sentence.log_prob for line, sentence in zip(lines, forced, strict=True)}
    return [scores[pair.source, pair.right] > scores[pair.source, pair.wrong] for pair in pairs]


def _groups(pairs: Sequence[ContrastivePair], preferred: Sequence[bool]) -> Iterator[tuple[str, list[bool]]]:
    """Yield all pairs, those of each kind of mistake if there are several, and those of each group of distances."""
    from phrasemt.search.contrasts import GROUPS

    yield "all", list(preferred)
    kinds = list(dict.fromkeys(pair.kind for pair in pairs))
    for kind in kinds if len(kinds) > 1 else []:
        yield kind or "other", [flag for pair, flag in zip(pairs, preferred, strict=True) if pair.kind == kind]
    for low, high in GROUPS:
        name = f"distance {low}+" if high is None else f"distance {low}-{high}"
        flags = [
            flag
            for pair, flag in zip(pairs, preferred, strict=True)
            if pair.distance is not None and low <= pair.distance <= (high or pair.distance)
        ]
        if flags:
            yield name, flags
