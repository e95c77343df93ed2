"""Blocks for accuracies on contrastive pairs, by the distance between the two words that must agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from phrasemt.errors import MismatchError
from phrasemt.fields import Settings
from phrasemt.paper.cells import Block, Column, Grid, Row, mean_cell, note_on_seeds, read_grid
from phrasemt.stages.paper import MakeTable

_NOTE_ON_CONTRASTS = (
    "Contrastive pairs: percentage of pairs whose right target is more probable than the target with a single mistake, "
    "for all pairs and by the distance between the two words that must agree (in brackets: number of pairs). Bars "
    "in the figure: 95 % intervals of Wilson (1927)."
)


class DistanceGroup(Settings):
    """Contrastive pairs with distances from low to high. high: None for no limit; accuracy: None without pairs."""

    low: int
    high: int | None
    pairs: int
    accuracy: float | None


class ContrastFile(Settings):
    """The content of a file of `score_contrasts`. Accuracies are shares, 0 to 1."""

    format: Literal[1]
    dataset: str
    system: str
    seed: int
    pairs: int
    accuracy: float
    by_distance: list[DistanceGroup]


def contrast_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each data set with contrastive pairs."""
    names = [name for name, _ in settings.translating if name in settings.trained]
    grid = read_grid(
        "contrastive accuracy",
        paths,
        ContrastFile,
        lambda file: {(file.dataset, file.system, file.seed): file},
        list(itertools.product(settings.contrasts, names, settings.seeds)),
    )
    return [_block(settings, dataset, grid) for dataset in settings.contrasts if names]


def _block(settings: MakeTable, dataset: str, grid: Grid[ContrastFile]) -> Block:
    sources = {place[1:]: source for place, (source, _) in grid.items() if place[0] == dataset}
    contents = {place[1:]: file for place, (_, file) in grid.items() if place[0] == dataset}
    groups = _groups(next(iter(contents.values())))
    for place, file in contents.items():
        if _groups(file) != groups:
            raise MismatchError(
                "not the contrastive pairs of the first system",
                where=sources[place].path,
                expected=groups,
                found=_groups(file),
                next_step="score all systems on the same pairs",
            )
    rows = []
    titles = {name: title for name, title in settings.translating if name in settings.trained}
    for system, title in titles.items():
        by_seed = {seed: _accuracies(contents[system, seed]) for seed in settings.seeds}
        cells = {
            group: mean_cell(
                {seed: 100 * accuracies[group] for seed, accuracies in by_seed.items()},
                signature=f"contrastive_accuracy|distance:{group}|pairs:{pairs}",
                sources=[sources[system, seed] for seed in settings.seeds],
                decimals=1,
            )
            for group, pairs in groups.items()
        }
        for group, pairs in groups.items():
            low, high = wilson_interval(cells[group].value / 100, pairs)
            cells[group] = cells[group].model_copy(update={"low": 100 * low, "high": 100 * high})
        rows.append(Row(system=system, title=title, cells=cells))
    columns = [Column(key=group, heading=f"{group} ({pairs:,})") for group, pairs in groups.items()]
    notes = [note_on_seeds(settings), _NOTE_ON_CONTRASTS]
    return Block(kind="contrasts", dataset=dataset, size=groups["all"], columns=columns, rows=rows, notes=notes)


def wilson_interval(share: float, pairs: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, 0 to 1, of so many pairs (Wilson 1927).

    The share may be a mean over seeds; the interval is then that of one training, because all seeds see the same pairs.
    """
    z = 1.959963984540054  # 97.5 % of a normal distribution lie below
    middle = (share + z * z / (2 * pairs)) / (1 + z * z / pairs)
    half = z / (1 + z * z / pairs) * math.sqrt(share * (1 - share) / pairs + z * z / (4 * pairs * pairs))
    return middle - half, middle + half


def _groups(file: ContrastFile) -> dict[str, int]:
    """Return the number of all pairs, and of the pairs in each group of distances that has any."""
    return {"all": file.pairs, **{_range(group): group.pairs for group in file.by_distance if group.pairs}}


def _accuracies(file: ContrastFile) -> dict[str, float]:
    by_distance = {_range(group): group.accuracy for group in file.by_distance if group.accuracy is not None}
    return {"all": file.accuracy, **by_distance}


def _range(group: DistanceGroup) -> str:
    return f"{group.low}+" if group.high is None else f"{group.low}-{group.high}"
