"""`phrasemt trace`: one sentence pair through every hop, from the raw line to its translation.

The hops are read off the sidecars: from the last artefact back to the inputs of each stage. So the command shows the
files that really made a translation, and has no list of stages of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.batching.example import Examples
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import count_lines, read_lines
from phrasemt.files.sidecars import read_sidecar
from phrasemt.text.vocab import Vocabulary
from phrasemt.verbs import _pair
from phrasemt.verbs._pair import nth
from phrasemt.verbs._study import choose


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("trace", help="show one sentence pair after every hop")
    _pair.add_arguments(parser)
    parser.add_argument("--system", help="system whose translation is shown; without it the preparation alone")
    parser.add_argument("--seed", type=int, help="seed of the system (default: the study's first)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints the hops of a pair; raises PhrasemtError for a pair or a system that is not there."""
    pair = _pair.chosen_pair(options)
    for hop, path, text in _preparation(pair):
        print(f"{hop:<22} {text}   [{path}]")
    if options.system is not None:
        system = choose("system", options.system, list(pair.study.systems))
        seed = pair.study.seeds[0] if options.seed is None else options.seed
        stem = Path(pair.paths.translations.at(system=system, seed=seed, split=pair.split)).with_suffix("")
        for hop, path, text in _translation(stem, pair.row):
            print(f"{hop:<22} {text}   [{path}]")


def _preparation(pair: _pair.Pair) -> Iterator[tuple[str, Path, str]]:
    examples, line = Path(pair.paths.examples.at(split=pair.split)), pair.line
    packed = _inputs(examples)
    subwords = {side: packed[side] for side in ("source", "target")}
    tokens = {side: _inputs(path).get("tokens", path) for side, path in subwords.items()}  # perhaps words are not cut
    clean = {side: _inputs(path)["text"] for side, path in tokens.items()}
    for side in ("source", "target"):
        path, raw_line = _raw(clean[side], side, pair.row)
        yield f"raw {side}", path, nth(path, raw_line)
    hops = [("clean_pairs", clean), ("tokenize_text", tokens), ("apply_subwords", subwords)]
    for stage, paths in hops[: 2 if subwords == tokens else 3]:
        for side, path in paths.items():
            yield f"{stage} {side}", path, nth(path, line)
    store = Examples.open(examples)
    for side, ids in (("source", store.source(line)), ("target", store.target(line))):
        words = Vocabulary.from_file(packed[f"{side}_vocabulary"])
        shown = " ".join(f"{word}={number}" for word, number in zip(words.tokens(ids), ids.tolist(), strict=True))
        yield f"pack_examples {side}", examples, shown


def _translation(stem: Path, row: int) -> Iterator[tuple[str, Path, str]]:
    found = stem.with_name(stem.name + ".jsonl")
    if not found.exists():
        raise PhrasemtError("not translated yet", where=found, next_step="run snakemake, or choose another --seed")
    translations = [json.loads(line) for line in read_lines(found)]
    line = next((line for line, translation in enumerate(translations) if translation["row"] == row), None)
    if line is None:
        raise PhrasemtError("no translation of this row", where=found, found=f"row {row}")
    for rank, hypothesis in enumerate(translations[line]["n_best"], start=1):
        yield f"translate {rank}-best", found, f"{hypothesis['subwords']} ({hypothesis['score']:.4f})"
    for suffix, hop in ((".tok", "joined"), (".txt", "detokenised")):
        path = stem.with_name(stem.name + suffix)
        yield hop, path, nth(path, line)


def _inputs(artefact: Path) -> dict[str, Path]:
    return {name: Path(files[0]["path"]) for name, files in read_sidecar(artefact)["inputs"].items() if files}


def _raw(clean: Path, side: str, row: int) -> tuple[Path, int]:
    """The raw file that holds a row of the concatenated inputs, and the line in it."""
    for file in read_sidecar(clean)["inputs"][f"raw_{side}"]:
        path = Path(file["path"])
        lines = count_lines(path)
        if row < lines:
            return path, row
        row -= lines
    raise AssertionError("a kept row lies in one of the inputs")
