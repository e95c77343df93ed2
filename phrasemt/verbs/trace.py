"""`phrasemt trace`: show one sentence pair after each stage, from the raw line to the cells of the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.verbs import _pair
from phrasemt.verbs._hops import hops_to, views
from phrasemt.verbs._numbers import in_range
from phrasemt.verbs._study import choose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _pair.add_arguments(parser)
    parser.add_argument(
        "--system", metavar="NAME", help="also show the translation of this system (default: the preparation only)"
    )
    parser.add_argument(
        "--seed",
        type=in_range(int, 0),
        metavar="N",
        help="seed of the system's training (default: the first of the study)",
    )


def run(options: argparse.Namespace) -> None:
    """Print a pair after each stage. Raises PhrasemtError when the pair or the translation does not exist."""
    pair = _pair.chosen_pair(options)
    prepared = [Path(pair.paths.examples.at(split=pair.split)), Path(pair.paths.chunk_columns.at(split=pair.split))]
    if options.system is None:
        phrases = pair.paths.phrase_columns.at(split=pair.split)
        ends = [*prepared, *(Path(phrases.at(segmenter=segmenter)) for segmenter in pair.study.segmentations)]
    else:
        system = choose("system", options.system, list(pair.study.systems))
        if system not in pair.study.translating:
            raise PhrasemtError(
                "a language model does not translate",
                where=f"--system {system}",
                next_step="leave out --system to see the stages up to the examples",
            )
        seed = pair.study.seeds_of(system)[0] if options.seed is None else options.seed
        translations = Path(pair.paths.translated_tokens.at(system=system, seed=seed, split=pair.split))
        if not translations.exists():
            next_step = "run snakemake, or choose another --seed"
            raise PhrasemtError("not translated yet", where=translations, next_step=next_step)
        ends = [*prepared, translations]
    hops = hops_to(ends)
    if options.system is not None and (table := Path(pair.paths.table)).exists():
        hops += [hop for hop in hops_to([table]) if hop.stage == "make_table"]
    for stage, role, path, text in views(pair, hops):
        first, *others = text.split("\n")
        print(f"{f'{stage} {role}':<32} {first}   [{path}]")
        for line in others:
            print(f"{'':<32} {line}")
