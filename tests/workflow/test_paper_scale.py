"""A study at the size of a paper: how many jobs each rule has, asked of `phrasemt plan`, which loads no torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from paper_study import CORPORA, PARSE_JOBS, SEEDS, SYSTEMS, TEST_SETS, write_paper_study
from workplace import Workplace

PLANS = """
import sys
from phrasemt.cli import main
code = main(["plan", "study.yaml"])
assert not {"torch", "stanza", "sacrebleu", "matplotlib"} & sys.modules.keys()
sys.exit(code)
"""
# Jobs that take seconds whatever the data are; all others grow with the data or with the training.
TINY = {
    "describe_annotator",
    "build_vocabulary",
    "average_checkpoints",
    "score_system",
    "compare_systems",
    "make_table",
}


def test_the_jobs_of_each_rule(repository: Path, tmp_path: Path) -> None:
    workplace = Workplace.new(repository, tmp_path)
    write_paper_study(tmp_path)
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
        "collect_sentences": 2 * CORPORA,
        "parse_sentences": CORPORA * PARSE_JOBS,
        "tag_sentences": CORPORA * PARSE_JOBS,
        "extract_chunks": splits,
        # Phrases of n tokens are columns only where they are measured: of train and the test sets.
        "extract_phrases": 3 * splits + CORPORA * (1 + TEST_SETS),
        "measure_phrases": len(phrase_systems) * CORPORA * (1 + TEST_SETS),
        "train_model": trainings,
        "average_checkpoints": trainings,
        "translate": trainings * TEST_SETS,
        "score_system": trainings * TEST_SETS,
        "score_chunks": CORPORA * chunkers * SEEDS * TEST_SETS,
        "compare_systems": CORPORA * (SYSTEMS - 1) * TEST_SETS,
        "make_table": 1,
        "write_report": 1,
    }
    assert jobs.pop("all") == sum(expected.values())
    assert jobs == expected
    assert sum(jobs[rule] for rule in TINY) < 1200
