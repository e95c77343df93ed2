"""Blocks of decisions about chunks: chunk-based decoders on one test set (Table 3 of Zhou et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.fields import Settings
from phrasemt.paper.cells import (
    Block,
    Column,
    Grid,
    Row,
    Source,
    check_equal,
    mean_cell,
    note_on_seeds,
    of_test_set,
    read_grid,
)
from phrasemt.scoring.scores import OfTestSets
from phrasemt.settings import TableSettings

_COLUMNS = [
    Column(key="boundary_acc", heading="boundary", meaning="right decisions, of all positions"),
    Column(key="boundary_precision", heading="P", meaning="starts that are right, of those decided"),
    Column(key="boundary_recall", heading="R", meaning="starts that are right, of those of the reference"),
    Column(key="boundary_f1", heading="F1", meaning="of starts"),
    Column(key="label_acc_paper", heading="label/all", meaning="boundary and label right, of all positions"),
    Column(key="label_acc", heading="label", meaning="right labels, of the chunks of the reference"),
]
_NOTE = (
    "Chunks: right decisions in percent, with the words and chunks of the reference given up to each position, which "
    "are words and </s>. label/all is the label accuracy as Zhou et al. (2017) count it: both decisions right, of all "
    "positions, even within chunks, where no label is learned."
)
_MAJORITY = "always a start, always the most frequent label"


class Decisions(Settings):
    """Shares, 0 to 1."""

    boundary_acc: float
    boundary_precision: float
    boundary_recall: float
    boundary_f1: float
    label_acc_paper: float
    label_acc: float


class ChunkScores(Decisions):
    """On one test set. chunks: of the reference; majority: of the most frequent decision."""

    sentences: int
    positions: int
    chunks: int
    majority: Decisions


class ChunkScoreFile(OfTestSets[ChunkScores]):
    """The file that `score_chunks` writes."""


def chunk_blocks(settings: TableSettings, paths: Sequence[Path]) -> list[Block]:
    """A block for each test set; none without chunk-based decoders."""
    names = settings.chunking
    grid = read_grid(
        "scores of chunks",
        paths,
        ChunkScoreFile,
        lambda file: file.by_place,
        [(*test_set, name, seed) for test_set in settings.test_sets for name in names for seed in settings.seeds],
    )
    return [_block(settings, test_set, grid) for test_set in settings.test_sets if names]


def _block(settings: TableSettings, test_set: tuple[str, str], grid: Grid[ChunkScores]) -> Block:
    chosen = of_test_set(grid, test_set)
    check_equal(test_set[1], chosen, lambda part: {"positions": part.positions, "chunks": part.chunks})
    source, first = next(iter(chosen.values()))
    titles = dict(settings.systems)
    rows = [_row("", _MAJORITY, {settings.seeds[0]: (source, first.majority)}, first)]
    for system in settings.chunking:
        rows.append(_row(system, titles[system], {seed: chosen[system, seed] for seed in settings.seeds}, first))
    return Block(
        kind="chunks",
        dataset=test_set[0],
        test_set=test_set[1],
        size=first.sentences,
        columns=_COLUMNS,
        rows=rows,
        notes=[note_on_seeds(settings), _NOTE],
    )


def _row(system: str, title: str, of_seeds: dict[int, tuple[Source, Decisions]], about: ChunkScores) -> Row:
    cells = {
        column.key: mean_cell(
            {seed: 100 * getattr(decisions, column.key) for seed, (_, decisions) in of_seeds.items()},
            signature=f"chunks|teacher_forced|positions:{about.positions}|chunks:{about.chunks}",
            sources=[source for source, _ in of_seeds.values()],
        )
        for column in _COLUMNS
    }
    return Row(system=system, title=title, cells=cells)
