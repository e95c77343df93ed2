"""Tables of results and decisions on contrastive pairs that are made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phrasemt.artefacts.table import Block, Cell, Row, Table
from phrasemt.artefacts.translations import ContrastAccuracy


def cell(value: float, *, width: float | None = None, **others: Any) -> Cell:
    """width: of half the interval."""
    ends = {} if width is None else {"low": value - width, "high": value + width}
    about = {"better": "higher", "signature": "", "sources": [], "by_seed": {1: value}}
    return Cell(value=value, text=f"{value:.2f}", **{**about, **ends, **others})


def block(cells: Mapping[str, Mapping[str, Cell]], test_set: str = "news") -> Block:
    """Scores on the data set wmt, by system and column."""
    rows = [Row(system=name, title=name, cells=dict(of_row)) for name, of_row in cells.items()]
    return Block(kind="scores", dataset="wmt", test_set=test_set, size=3003, columns=[], rows=rows, notes=[])


def table(titles: Mapping[str, str], baselines: Mapping[str, str], *blocks: Block, **others: Any) -> Table:
    """A table of systems, the first of which is the baseline."""
    seeds: Sequence[int] = others.pop("seeds", [1])
    about: dict[str, Any] = {"study": "study", "title": "t", "signatures": [], "command": ""}
    return Table(
        baseline=next(iter(titles)),
        baselines=dict(baselines),
        pool_groups=dict.fromkeys(titles, "attention"),
        systems=list(titles.items()),
        trained={name: list(seeds) for name in titles},
        seeds=list(seeds),
        blocks=list(blocks),
        **{**about, **others},
    )


def accuracy(
    system: str,
    right: Sequence[bool],
    distances: Sequence[int | None],
    kinds: Sequence[str] = (),
    clusters: Sequence[int] = (),
    *,
    seed: int = 1,
    dataset: str = "d",
    contrast_set: str = "c",
) -> ContrastAccuracy:
    """Which of the pairs a training decides right. Without kinds all are of one, without clusters each is alone."""
    from phrasemt.decoding.contrasts import count_preferred, decisions  # imports torch

    columns = kinds or ["subj_verb_agreement"] * len(right), distances, right
    decided = decisions(*columns, clusters or range(len(right)))
    about: dict[str, Any] = {"dataset": dataset, "contrast_set": contrast_set, "system": system, "seed": seed}
    return ContrastAccuracy(**about, kinds=count_preferred(*columns), decisions=decided)
