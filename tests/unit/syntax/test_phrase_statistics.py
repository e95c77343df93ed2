"""Witness: counts made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phrasemt.files.columns import RaggedArray, write_columns
from phrasemt.files.lines import write_lines
from phrasemt.stages.syntax import MeasurePhrases
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.annotations import Annotation, sentence_key, write_annotations
from phrasemt.syntax.phrases import measure_phrases

TREES = {
    # S: positions 0-5, NP 0-3 (the second word has two subwords), D 0-1, N 1-3, V 3-4, P 4-5
    "the dog barks .": Annotation("(S (NP (D 0) (N 1)) (V 2) (P 3))", None),
    "a b": Annotation("(S (A 0) (B 1))", None),
    "c d": Annotation(None, "too long"),
    "e f": Annotation(None, "gave up"),
}
SENTENCES = ["the dog barks .", "the dog barks .", "a b", "c d", "e f", ""]
SUBWORDS = ["the do@@ g barks .", "the do@@ g barks .", "a b", "c d", "e f", ""]
ENDS = [
    [3, 6],  # NP, and "barks . </s>", which is no node
    [1, 2, 4, 5, 6],  # D; half of N; no node; P; </s> alone, which is left out
    [3],  # S with </s>
    [3],
    [2, 3],
    [1],
]


@pytest.fixture
def measure(tmp_path: Path):
    def measure(mode="parse", **options) -> dict:
        segmentation = PhraseSegmentation(mode=mode, **options)
        batches = [(list(range(len(ENDS))), {"ends": RaggedArray.of(ENDS)})]
        description = {"segmentation": segmentation.model_dump(mode="json")}
        write_columns(tmp_path / "phrases", columns=["ends"], texts={}, description=description, batches=batches)
        write_lines(tmp_path / "tokens", SENTENCES)
        write_lines(tmp_path / "subwords", SUBWORDS)
        keys = [sentence_key(sentence.split(" ")) for sentence in TREES]
        write_annotations(tmp_path / "parses", keys, list(TREES.values()), {"fingerprint": "0" * 32})
        measure_phrases(
            settings=MeasurePhrases(segmentation=segmentation.folder_name, needs_parses=segmentation.reads_parses),
            cores=1,
            phrases=tmp_path / "phrases",
            tokens=tmp_path / "tokens",
            subwords=tmp_path / "subwords",
            parses=[tmp_path / "parses"],
            statistics=tmp_path / "statistics.json",
        )
        return json.loads((tmp_path / "statistics.json").read_text(encoding="utf-8"))

    return measure


def test_counts(measure):
    assert measure(ntok_max=9) == {
        "format": 2,
        "segmentation": "parse_ntok_max-9",
        "sentences": 6,
        "phrases": 12,
        "tokens": 22,
        "lengths": {"1": 6, "2": 2, "3": 4},
        "fallbacks": {"too long": 1, "gave up": 1},
        "constituents": 4,
        "comparable": 7,
    }


def test_fallbacks_are_those_of_segmentations_that_need_parses(measure):
    statistics = measure(mode="ngram")
    assert (statistics["fallbacks"], statistics["constituents"], statistics["segmentation"]) == ({}, 4, "ngram")
