"""`phrasemt trace`: one sentence pair through every hop, from the raw line to its translation.

The hops are read off the sidecars: from the last artefact back to the inputs of each stage. So the command shows the
files that really made a translation, and has no list of stages of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.batching.example import Examples
from phrasemt.errors import PhrasemtError
from phrasemt.flow import dataset_folder
from phrasemt.lines import count_lines, read_lines
from phrasemt.provenance import read_sidecar
from phrasemt.study import load_study
from phrasemt.text.vocab import Vocabulary


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser("trace", help="show one sentence pair after every hop")
    parser.add_argument("pair", metavar="SPLIT:ROW", help="e.g. test:17; rows count from 0 in the raw text")
    parser.add_argument("--system", help="system whose translation is shown; without it the preparation alone")
    parser.add_argument("--seed", type=int, help="seed of the system (default: the study's first)")
    parser.add_argument("--dataset", help="data set (default: the study's first)")
    parser.add_argument("--study", type=Path, default=Path("config.yaml"), metavar="PATH", help="study file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints the hops of a pair; raises PhrasemtError for a pair or a system that is not there."""
    study = load_study(options.study)
    split, _, number = options.pair.partition(":")
    if not number.isdecimal():
        raise PhrasemtError("not a pair", where=options.pair, expected="SPLIT:ROW, e.g. test:17")
    dataset = _choose("dataset", options.dataset, list(study.datasets))
    folder = dataset_folder(study, dataset)
    examples = folder / "examples" / f"{split}.arrow"
    if not examples.exists():
        raise PhrasemtError(
            "no such split, or not prepared yet",
            where=examples,
            expected=f"one of train, dev, {', '.join(study.datasets[dataset].test_sets)}",
            found=split,
            next_step=f"snakemake --profile profiles/local --configfile {options.study}",
        )
    for hop, path, text in _preparation(examples, int(number)):
        print(f"{hop:<22} {text}   [{path}]")
    if options.system is not None:
        system = _choose("system", options.system, list(study.systems))
        seed = study.seeds[0] if options.seed is None else options.seed
        for hop, path, text in _translation(folder / "translations" / system / str(seed) / split, int(number)):
            print(f"{hop:<22} {text}   [{path}]")


def _choose(kind: str, wanted: str | None, known: list[str]) -> str:
    if wanted is not None and wanted not in known:
        raise PhrasemtError(f"no such {kind}", where=wanted, expected=f"one of {', '.join(known)}")
    return wanted or known[0]


def _preparation(examples: Path, row: int) -> Iterator[tuple[str, Path, str]]:
    packed = _inputs(examples)
    line = _line_of_row(packed["rows"], row)
    subwords = {side: packed[side] for side in ("source", "target")}
    tokens = {side: _inputs(path)["tokens"] for side, path in subwords.items()}
    clean = {side: _inputs(path)["text"] for side, path in tokens.items()}
    for side in ("source", "target"):
        path, raw_line = _raw(clean[side], side, row)
        yield f"raw {side}", path, _nth(path, raw_line)
    for stage, paths in (("clean_pairs", clean), ("tokenize_text", tokens), ("apply_subwords", subwords)):
        for side, path in paths.items():
            yield f"{stage} {side}", path, _nth(path, line)
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
        yield hop, path, _nth(path, line)


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


def _line_of_row(rows: Path, row: int) -> int:
    for line, text in enumerate(read_lines(rows)):
        if int(text) == row:
            return line
    dropped = Path(read_sidecar(rows)["outputs"]["dropped"]["path"])
    head, _, *entries = read_lines(dropped)  # "# read N kept K dropped D", names of columns, dropped pairs
    for text in entries:
        dropped_row, name, value = text.split("\t")
        if int(dropped_row) == row:
            raise PhrasemtError("this pair was dropped by clean_pairs", where=f"row {row}", found=f"{name} {value}")
    raise PhrasemtError("no such row", where=rows, expected=f"0 to {int(head.split()[2]) - 1}", found=row)


def _nth(path: Path, line: int) -> str:
    return next(itertools.islice(read_lines(path), line, None))
