"""The stage `score_chunks` against an example worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stage_settings import of_model

import phrasemt.decoding.forced_scores as chunks_stage
from phrasemt.batching.batch import Chunks
from phrasemt.batching.pack import pack_examples
from phrasemt.files.columns import RaggedArray, write_columns
from phrasemt.files.lines import write_lines
from phrasemt.models.interface import ChunkingModel, ChunkLogProbs
from phrasemt.stages.decoding import ScoreChunks
from phrasemt.stages.subwords import BuildVocabulary, PackExamples
from phrasemt.study.architectures import BiscaleModel
from phrasemt.symbols import CHUNK_LABELS
from phrasemt.text.subwords import build_vocabulary

NP, VP, EOS, NULL, PP = (CHUNK_LABELS.index(label) for label in ("NP", "VP", "eos", "NULL", "PP"))
TARGETS = ["the do@@ g sleeps", "a cat"]
GOLD = {"starts": [[0, 3, 4], [0, 2]], "labels": [[NP, VP, EOS], [NP, EOS]]}
# The third position of the first sentence is within a word. Decisions there and after </s> must not count.
STARTS = [[True, True, True, False, True], [True, False, True, True, True]]
LABELS = [[NP, NP, PP, VP, EOS], [VP, NULL, EOS, PP, PP]]


class FixedDecisions(ChunkingModel):
    """A model with fixed decisions. shown: the chunks of the last batch that it was given."""

    for name in ("encode", "decode", "start", "step"):
        vars()[name] = None
    device = torch.device("cpu")

    def chunk_log_probs(self, batch):
        decided = [list(batch.rows).index(row) for row in range(2)]
        self.shown = batch.target.chunks
        boundary_BT2 = F.one_hot(torch.tensor(STARTS)[decided].long(), 2)
        label_BTL = F.one_hot(torch.tensor(LABELS)[decided], len(CHUNK_LABELS))
        return ChunkLogProbs(boundary_BT2=boundary_BT2.float().log(), label_BTL=label_BTL.float().log())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    paths = {name: tmp_path / name for name in ("source", "target", "rows")}
    write_lines(paths["source"], ["x y", "x"])
    write_lines(paths["target"], TARGETS)
    write_lines(paths["rows"], ["0", "1"])
    vocabularies = {name: tmp_path / f"{name}.tsv" for name in ("source_vocabulary", "target_vocabulary")}
    sides = {side: paths[side] for side in ("source", "target")}
    build_vocabulary(settings=BuildVocabulary(shared=False), cores=1, **sides, **vocabularies)
    examples, chunks = tmp_path / "examples.arrow", tmp_path / "chunks.arrow"
    pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=examples)
    write_columns(
        chunks,
        columns=["starts", "labels"],
        texts={},
        description={"origin": "gold", "labels": CHUNK_LABELS},
        batches=[(np.arange(2), {name: RaggedArray.of(column) for name, column in GOLD.items()})],
    )
    return {"examples": [examples], "chunks": [chunks], **vocabularies}


def test_an_example_worked_out_by_hand(files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven positions count: the, do@@, sleeps, </s>; a, cat, </s>. Five of them start a chunk."""
    monkeypatch.setattr(chunks_stage, "load_model", lambda *_: FixedDecisions())
    chunks_stage.score_chunks(
        settings=ScoreChunks(
            **of_model(BiscaleModel(family="biscale")), dataset="d", system="s", seed=1, test_sets=["test", "again"]
        ),
        cores=1,
        weights=tmp_path,
        **files | {name: 2 * files[name] for name in ("examples", "chunks")},
        scores=tmp_path / "scores.json",
    )
    file = json.loads((tmp_path / "scores.json").read_text())
    assert [file[key] for key in ("format", "dataset", "system", "seed")] == [3, "d", "s", 1]
    assert file["test_sets"]["test"] == file["test_sets"].pop("again")  # each is counted by itself
    assert file["test_sets"].pop("test") == {
        "sentences": 2,
        "positions": 7,
        "chunks": 5,
        "boundary_acc": 5 / 7,  # wrong: do@@ starts a chunk, sleeps does not
        "boundary_precision": 4 / 5,  # the, (do@@), </s>, a, </s>
        "boundary_recall": 4 / 5,  # the, (sleeps), </s>, a, </s>
        "boundary_f1": 4 / 5,
        "label_acc_paper": 4 / 7,  # the, </s>, cat (NULL), </s>; sleeps has the right label but no boundary
        "label_acc": 4 / 5,  # the, sleeps, </s>, </s>; "a" is not a VP
        "majority": {
            "boundary_acc": 5 / 7,
            "boundary_precision": 5 / 7,
            "boundary_recall": 1.0,
            "boundary_f1": 10 / 12,
            "label_acc_paper": 2 / 7,  # two of the five are NP
            "label_acc": 2 / 5,
        },
    }
    assert file["test_sets"] == {}


def test_no_decided_start_gives_zero_and_no_division_by_zero() -> None:
    gold = Chunks(starts_BT=torch.tensor([[True, True]]), labels_BT=torch.tensor([[NP, EOS]]))
    counts = chunks_stage.ChunkCounts()
    decided = dataclasses.replace(gold, starts_BT=torch.tensor([[False, False]]))
    counts.add(gold, decided, torch.tensor([[True, True]]))
    found = counts.accuracy(1)
    assert (found.boundary_precision, found.boundary_f1, found.label_acc) == (0.0, 0.0, 1.0)
