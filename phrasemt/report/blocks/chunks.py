"""Blocks for decisions about chunks: chunk-based decoders on one test set (Table 3 of Zhou et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, Column, Row
from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions
from phrasemt.report.cells import Grid, check_same_size, mean_cell, note_on_seeds, read_grid, runs_of, select_test_set
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
    names = settings.chunking
    grid = read_grid(
        "scores of chunks",
        paths,
        ChunkAccuracies,
        lambda file: file.by_place,
        [(*test_set, *run) for test_set in settings.test_sets for run in runs_of(settings, names)],
    )
    return [_block(settings, test_set, grid) for test_set in settings.test_sets if names]


def _block(settings: MakeTable, test_set: tuple[str, str], grid: Grid[ChunkAccuracy]) -> Block:
    chosen = select_test_set(grid, test_set)
    check_same_size(test_set[1], chosen, lambda part: {"positions": part.positions, "chunks": part.chunks})
    source, first = next(iter(chosen.values()))
    titles = dict(settings.systems)
    rows = [_row("", _MAJORITY, {settings.seeds[0]: (source, first.majority)}, first)]
    for system in settings.chunking:
        seeds = settings.seeds_of[system]
        rows.append(_row(system, titles[system], {seed: chosen[system, seed] for seed in seeds}, first))
    return Block(
        kind="chunks",
        dataset=test_set[0],
        test_set=test_set[1],
        size=first.sentences,
        columns=_COLUMNS,
        rows=rows,
        notes=[note_on_seeds(settings), _NOTE],
    )


def _row(system: str, title: str, by_seed: dict[int, tuple[DigestedFile, ChunkDecisions]], sizes: ChunkAccuracy) -> Row:
    cells = {
        column.key: mean_cell(
            {seed: 100 * getattr(decisions, column.key) for seed, (_, decisions) in by_seed.items()},
            signature=f"chunks|teacher_forced|positions:{sizes.positions}|chunks:{sizes.chunks}",
            sources=[source for source, _ in by_seed.values()],
        )
        for column in _COLUMNS
    }
    return Row(system=system, title=title, cells=cells)
