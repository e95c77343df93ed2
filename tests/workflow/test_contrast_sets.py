"""A set of contrastive pairs that a study names, from its file to the counts of a trained system."""

from __future__ import annotations

import json

import pytest
import yaml
from workplace import STUDY, Workplace

FOLDER = "results/tiny/demo.en-de"


@pytest.mark.parametrize("system", ["max"])  # it reads phrases of parses, so sources of pairs are parsed, too
def test_pairs_of_a_file_count_as_the_same_pairs_of_the_generator(finished: Workplace, system: str) -> None:
    generated = finished.folder / FOLDER / "raw/test.contrasts.tsv"
    _, *rows = generated.read_text().splitlines()
    (finished.folder / "pairs.tsv").write_text("".join(f"{row.partition(chr(9))[2]}\n" for row in rows))
    study = yaml.safe_load(STUDY)
    study["datasets"]["demo"]["contrast_sets"] = {"mine": [{"pairs": "pairs.tsv"}]}
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    counts = f"{FOLDER}/contrasts/{system}/1"
    done = finished.snakemake(f"{counts}/mine.json")
    assert done.returncode == 0, done.stderr[-3000:]
    mine, own = (json.loads((finished.folder / counts / f"{name}.json").read_text()) for name in ("mine", "test"))
    assert mine["contrast_set"] == "mine"
    assert mine["kinds"] == own["kinds"]
    assert sum(kind["pairs"] for kind in own["kinds"]) == len(rows) > 5
