"""Blocks for the averaged weights, which translate: their scores on dev beside the scores of the last update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, Cell, Column, Row
from phrasemt.artefacts.training import AverageScores
from phrasemt.report.cells import Grid, check_same_size, mean_cell, note_on_seeds, read_grid, runs_of
from phrasemt.stages.report import MakeTable

_BLEU, _PERPLEXITY = "greedy search", "per token of the vocabulary, without label smoothing"
_COLUMNS = [
    Column(key="dev_bleu", heading="dev BLEU", meaning=_BLEU),
    Column(key="dev_perplexity", heading="dev perplexity", meaning=_PERPLEXITY),
    Column(key="last_bleu", heading="last BLEU"),
    Column(key="last_perplexity", heading="last perplexity"),
    Column(key="updates", heading="averaged updates"),
]
_NOTE = (
    "Averages: dev scores of the weights that translate. They are the mean of the weights after the averaged updates "
    "(in brackets: how many). last: dev scores of the weights after the last update alone."
)


def average_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each data set; no blocks for a study that trains nothing."""
    grid = read_grid(
        "scores of averaged weights",
        paths,
        AverageScores,
        lambda file: {(file.dataset, file.system, file.seed): file},
        [(dataset, *run) for dataset in settings.datasets for run in runs_of(settings, settings.trained)],
    )
    return [_block(settings, dataset, grid) for dataset in settings.datasets] if grid else []


def _block(settings: MakeTable, dataset: str, grid: Grid[AverageScores]) -> Block:
    chosen = {place[1:]: entry for place, entry in grid.items() if place[0] == dataset}
    check_same_size(f"dev of {dataset}", chosen, lambda file: {"sentences": file.sentences})
    _, first = next(iter(chosen.values()))
    rows = []
    titles = {name: title for name, title in settings.systems if name in settings.trained}
    for system, title in titles.items():
        by_seed = {seed: chosen[system, seed] for seed in settings.seeds_of[system]}
        rows.append(Row(system=system, title=title, cells=dict(_cells(by_seed))))
    worse = [
        f"{title} (seed {seed})"
        for system, title in titles.items()
        for seed in settings.seeds_of[system]
        if chosen[system, seed][1].worse_than_last
    ]
    knowing = [titles[system] for system in settings.chunking if system in titles]
    given = f"Dev perplexities given where the chunks of the reference begin, unlike others: {', '.join(knowing)}."
    warning = f"Averages of {dataset} that are worse on dev than the last update: {', '.join(worse)}."
    return Block(
        kind="averages",
        dataset=dataset,
        test_set="dev",
        size=first.sentences,
        columns=[column for column in _COLUMNS if any(column.key in row.cells for row in rows)],
        rows=rows,
        notes=[note_on_seeds(settings), _NOTE, *([given] if knowing else []), *([warning] if worse else [])],
    )


def _cells(by_seed: dict[int, tuple[DigestedFile, AverageScores]]) -> Iterator[tuple[str, Cell]]:
    """The cells of a system, by column. A language model has no BLEU."""
    sources = [source for source, _ in by_seed.values()]
    files = {seed: file for seed, (_, file) in by_seed.items()}
    first = next(iter(files.values()))
    tokenizer, smoothing = ("none", "none") if first.dev_bleu_tokenizer == "13a" else (first.dev_bleu_tokenizer, "exp")
    bleu = f"BLEU|case:mixed|tok:{tokenizer}|smooth:{smoothing}|beam:1"
    for key, signature, values in (
        ("dev_bleu", bleu, {seed: file.dev_bleu for seed, file in files.items()}),
        ("dev_perplexity", "perplexity|smooth:none", {seed: file.dev_perplexity for seed, file in files.items()}),
        ("last_bleu", bleu, {seed: file.last.dev_bleu for seed, file in files.items()}),
        ("last_perplexity", "perplexity|smooth:none", {s: file.last.dev_perplexity for s, file in files.items()}),
    ):
        scores = {seed: value for seed, value in values.items() if value is not None}
        if scores:
            yield key, mean_cell(scores, signature=f"{signature}|sentences:{first.sentences}", sources=sources)
    numbers = {seed: float(len(file.updates)) for seed, file in files.items()}
    cell = mean_cell(numbers, signature="number of averaged checkpoints", sources=sources)
    text = "; ".join(dict.fromkeys(_range(file.updates) for file in files.values()))
    yield "updates", cell.model_copy(update={"text": text})


def _range(updates: Sequence[int]) -> str:
    """The averaged updates: `360 to 400 (5)`, or `400` for a single checkpoint."""
    return str(updates[0]) if len(updates) == 1 else f"{updates[0]} to {updates[-1]} ({len(updates)})"
