"""Blocks for accuracies on contrastive pairs: by kind of mistake, and by the distance between words that must agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from phrasemt.artefacts.table import Block, Column, Row
from phrasemt.artefacts.translations import ContrastAccuracy, Counts
from phrasemt.errors import check_equal
from phrasemt.report.cells import Grid, note_on_seeds, read_grid, runs_in, runs_of
from phrasemt.stages.report import MakeTable

_NOTE_ON_CONTRASTS = (
    "Contrastive pairs: percentage of pairs whose right target is more probable than the target with a single mistake, "
    "for all pairs, by kind of mistake and by the distance between the two words that must agree (in brackets: number "
    "of pairs). Bars in the figures: 95 % intervals of Wilson (1927)."
)


def contrast_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make the blocks of each set of contrastive pairs."""
    titles = {name: title for name, title in settings.translating if name in settings.trained}
    grid = read_grid(
        "contrastive accuracy",
        paths,
        ContrastAccuracy,
        lambda file: {(file.dataset, file.contrast_set, file.system, file.seed): file},
        [(*place, *run) for place in settings.contrasts for run in runs_of(settings, titles)],
    )
    return [block for place in settings.contrasts if titles for block in _blocks(settings, place, grid, titles)]


def _blocks(
    settings: MakeTable, place: tuple[str, str], grid: Grid[ContrastAccuracy], titles: Mapping[str, str]
) -> Iterator[Block]:
    """Yield one block of a set with one kind of mistake, else one of all kinds and one of each kind with distances."""
    files = {where[2:]: entry for where, entry in grid.items() if where[:2] == place}
    expected = _pairs(next(iter(files.values()))[1])
    for source, file in files.values():
        what, next_step = "not the contrastive pairs of the first system", "score all systems on the same pairs"
        check_equal(expected, _pairs(file), what, where=source.path, next_step=next_step)
    for mistake, sizes in expected.items():
        rows = []
        for system, title in titles.items():
            runs = runs_in(files, system, settings)
            cells = {}
            for group, pairs in sizes.items():
                key = f"{mistake} {group}" if mistake else group
                signature = f"contrastive_accuracy|group:{key}|pairs:{pairs}"
                cell = runs.mean(partial(_accuracy, mistake, group), signature, decimals=1)
                low, high = wilson_interval(cell.value / 100, pairs)
                cells[key] = cell.model_copy(update={"low": 100 * low, "high": 100 * high})
            rows.append(Row(system=system, title=title, cells=cells))
        headings = [f"{group} ({pairs:,})" for group, pairs in sizes.items()]
        yield Block(
            kind="contrasts" if mistake or len(expected) == 1 else "mistakes",
            dataset=place[0],
            contrast_set=place[1],
            mistake=mistake or None,
            size=sizes["all"],
            columns=[Column(key=key, heading=heading) for key, heading in zip(rows[0].cells, headings, strict=True)],
            rows=rows,
            notes=[note_on_seeds(settings), _NOTE_ON_CONTRASTS],
        )


def wilson_interval(share: float, pairs: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, 0 to 1, of so many pairs (Wilson 1927).

    The share may be a mean over seeds; the interval is then that of one training, because all seeds see the same pairs.
    scipy.stats takes whole numbers of pairs only.
    """
    z = 1.959963984540054  # 97.5 % of a normal distribution lie below
    middle = (share + z * z / (2 * pairs)) / (1 + z * z / pairs)
    half = z / (1 + z * z / pairs) * math.sqrt(share * (1 - share) / pairs + z * z / (4 * pairs * pairs))
    return middle - half, middle + half


def _accuracy(mistake: str, group: str, file: ContrastAccuracy) -> float:
    counts = _counts(file)[mistake][group]
    return 100 * counts.right / counts.pairs


def _counts(file: ContrastAccuracy) -> dict[str, dict[str, Counts]]:
    """Return the counts of each group of each block of the set, by kind of mistake; "": the block of all pairs."""
    by_distance = {kind.kind: {"all": kind, **{group.name: group for group in kind.by_distance}} for kind in file.kinds}
    if len(file.kinds) == 1:
        return {"": by_distance[file.kinds[0].kind]}
    return {
        "": {"all": file.total, **{kind.kind: kind for kind in file.kinds}},
        **{kind: groups for kind, groups in by_distance.items() if len(groups) > 1},
    }


def _pairs(file: ContrastAccuracy) -> dict[str, dict[str, int]]:
    return {
        mistake: {group: counts.pairs for group, counts in groups.items()} for mistake, groups in _counts(file).items()
    }
