"""A study with all variants of a paper, of any number of systems, seeds, corpora, parse jobs and test sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PHRASES = ("ngram", "parse", "random", "right")


def write_paper_study(folder: Path, *, systems: int, seeds: int, corpora: int, parse_jobs: int, test_sets: int) -> Path:
    """The study file in a folder, beside the (empty) texts and model files that it names."""

    def file(name: str) -> str:
        path = folder / "texts" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        return str(path)

    def text(dataset: str, split: str) -> list[dict[str, str]]:
        return [{side: file(f"{dataset}.{split}.{side}") for side in ("source", "target")}]

    def files(*roles: str) -> dict[str, str]:
        return {role: file(f"{roles[0]}.{role}.pt") for role in roles}

    datasets = {
        f"corpus{number}": {
            "source_language": "en",
            "target_language": "de",
            "splits": {
                "train": text(f"corpus{number}", "train"),
                "dev": text(f"corpus{number}", "dev"),
                "test": {f"test{year}": text(f"corpus{number}", f"test{year}") for year in range(test_sets)},
            },
            "subwords": {"merges": 32000},
            "source_parser": "english",
            "target_chunks": {"origin": "chunker", "chunker": "german"},
            "parse_jobs": parse_jobs,
        }
        for number in range(corpora)
    }
    study = {
        "study": "paper",
        "seeds": list(range(seeds)),
        "datasets": datasets,
        "parsers": {"english": {"language": "en", "files": files("constituency", "tagger", "vectors")}},
        "chunkers": {"german": {"language": "de", "files": files("chunker", "vectors")}},
        "systems": {f"system{number}": {"model": _model(number)} for number in range(systems)},
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    return path


def _model(number: int) -> dict[str, Any]:
    """The first is the baseline; then phrase representations of all kinds of phrases, and chunk-based decoders."""
    if number == 0:
        return {"family": "transformer"}
    if number % 5 == 0:
        return {"family": "biscale", "hidden": 1000 + number}
    mode = PHRASES[number % len(PHRASES)]
    return {"family": "phrase_representation", "phrase": {"mode": mode}, "dropout": number / 100}
