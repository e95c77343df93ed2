"""A study with all variants of a paper: how many jobs each rule has, and how few of them a new test set brings."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from paper_study import write_paper_study
from warm_python import WarmPython
from workplace import Workplace

PLANS = """
import sys
from phrasemt.cli import main
code = main(["plan", "study.yaml"])
assert not {"torch", "stanza", "sacrebleu", "matplotlib"} & sys.modules.keys()
sys.exit(code)
"""
SYSTEMS, SEEDS, CORPORA, PARSE_JOBS, TEST_SETS = 20, 2, 1, 8, 4
SIZE = {"systems": SYSTEMS, "seeds": SEEDS, "corpora": CORPORA, "parse_jobs": PARSE_JOBS, "test_sets": TEST_SETS}
# Those that take all test sets at once.
OF_ALL_TEST_SETS = {
    "compare_splits",
    "score_system",
    "score_chunks",
    "compare_systems",
    "score_by_length",
    "make_table",
    "write_report",
}


def test_the_jobs_of_each_rule(repository: Path, tmp_path: Path) -> None:
    workplace = Workplace.new(repository, tmp_path)
    write_paper_study(tmp_path, **SIZE)
    done = workplace.run(sys.executable, "-c", PLANS)
    assert done.returncode == 0, done.stderr
    jobs = {
        rule: int(number.replace(",", "")) for rule, number in re.findall(r"^  (\w+) +([\d,]+) ", done.stdout, re.M)
    }
    splits = CORPORA * (2 + TEST_SETS)
    trainings = CORPORA * SYSTEMS * SEEDS
    chunkers, phrase_systems = 3, {"ngram": 4, "parse": 4, "random": 4, "right": 4}
    assert sum(phrase_systems.values()) + chunkers + 1 == SYSTEMS
    expected = {
        "describe_annotator": 2,
        "clean_pairs": splits,
        "tokenize_text": 2 * splits,
        "learn_subwords": CORPORA,
        "apply_subwords": 2 * splits,
        "build_vocabulary": CORPORA,
        "pack_examples": splits,
        "compare_splits": CORPORA,
        "collect_sentences": 2 * splits,
        "parse_sentences": CORPORA * (PARSE_JOBS + 1 + TEST_SETS),
        "tag_sentences": CORPORA * (PARSE_JOBS + 1 + TEST_SETS),
        "extract_chunks": splits,
        # Phrases of n tokens are columns only where they are measured: of train and the test sets.
        "extract_phrases": 3 * splits + CORPORA * (1 + TEST_SETS),
        "measure_phrases": len(phrase_systems) * CORPORA * (1 + TEST_SETS),
        "train_model": trainings,
        "average_checkpoints": trainings,
        "translate_examples": trainings * TEST_SETS,
        "score_system": trainings,
        "score_chunks": CORPORA * chunkers * SEEDS,
        "analyse_attention": trainings * TEST_SETS,
        "compare_systems": CORPORA * (SYSTEMS - 1),
        "score_by_length": CORPORA * SYSTEMS,
        "make_table": 1,
        "write_report": 1,
    }
    assert jobs.pop("all") == sum(expected.values())
    assert jobs == expected


def _planned(workplace: Workplace, *, only_new: bool = True) -> set[tuple[str, str]]:
    """Rules and outputs that Snakemake would make."""
    done = workplace.snakemake("--summary")
    assert done.returncode == 0, done.stderr
    header, *rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    files = [dict(zip(header, row, strict=True)) for row in rows]
    return {(file["rule"], file["output_file"]) for file in files if not only_new or file["plan"] != "no update"}


def test_a_new_test_set_trains_and_translates_nothing_old(repository: Path, tmp_path: Path, warm: WarmPython) -> None:
    """Nor parses, nor cuts into phrases. Every output is there, as if the study had run."""
    workplace = Workplace.new(repository, tmp_path, warm=warm)
    size = {"systems": 6, "seeds": 1, "corpora": 1, "parse_jobs": 2}
    write_paper_study(tmp_path, **size, test_sets=1)
    outputs = _planned(workplace, only_new=False)
    for _, path in outputs:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    done = workplace.snakemake("--touch", "--forceall")
    assert done.returncode == 0, done.stderr
    assert _planned(workplace) == set()
    write_paper_study(tmp_path, **size, test_sets=2)
    planned = _planned(workplace)
    assert {rule for rule, _ in planned} >= {
        "translate_examples",
        "parse_sentences",
        "extract_phrases",
        *OF_ALL_TEST_SETS,
    }
    assert not [entry for entry in planned & outputs if entry[0] not in OF_ALL_TEST_SETS]
