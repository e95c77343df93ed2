"""Blocks for decisions about chunks: chunk-based decoders on one test set (Table 3 of Zhou et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from phrasemt.artefacts.table import Block, Cell, Column, Row
from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions
from phrasemt.report.cells import Runs, make_blocks
from phrasemt.stages.report import MakeTable

_COLUMNS = [
    Column(key="boundary_acc", heading="boundary", meaning="share of positions with the right decision"),
    Column(key="boundary_precision", heading="P", meaning="share of predicted starts that are right"),
    Column(key="boundary_recall", heading="R", meaning="share of reference starts that are predicted"),
    Column(key="boundary_f1", heading="F1", meaning="of starts"),
    Column(key="label_acc_paper", heading="label/all", meaning="share of positions with the right boundary and label"),
    Column(key="label_acc", heading="label", meaning="share of reference chunks with the right label"),
]
_NOTE = (
    "Chunks: decisions in percent. At each position (a word or </s>) the model knows the words and chunks of the "
    "reference before it. label/all is the label accuracy of Zhou et al. (2017): a position counts as right if its "
    "boundary and label are right, also within chunks, where no label is learned."
)
_MAJORITY = "always a start, always the most frequent label"


def chunk_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has chunk-based decoders."""
    blocks = []
    for block, runs in make_blocks(
        settings,
        "chunks",
        "scores of chunks",
        paths,
        ChunkAccuracies,
        settings.chunking,
        places=settings.test_sets,
        columns=_COLUMNS,
        cells=lambda runs: _cells(runs, lambda part: part),
        sizes=("sentences", "positions", "chunks"),
        note=_NOTE,
    ):
        first = runs[settings.chunking[0]]
        one = Runs(parts={settings.seeds[0]: first.first}, sources=first.sources[:1])
        block.rows.insert(0, Row(system="", title=_MAJORITY, cells=_cells(one, lambda part: part.majority)))
        blocks.append(block)
    return blocks


def _cells(runs: Runs[ChunkAccuracy], decisions: Callable[[ChunkAccuracy], ChunkDecisions]) -> dict[str, Cell]:
    signature = f"chunks|teacher_forced|positions:{runs.first.positions}|chunks:{runs.first.chunks}"

    def percentage(key: str) -> Callable[[ChunkAccuracy], float]:
        return lambda part: 100 * getattr(decisions(part), key)

    return {column.key: runs.mean(percentage(column.key), signature) for column in _COLUMNS}
