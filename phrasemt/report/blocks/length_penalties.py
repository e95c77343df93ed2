"""Blocks for length penalties that dev chose, beside the length penalties of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, Cell, Column, Row
from phrasemt.artefacts.translations import LengthPenaltyScores
from phrasemt.report.cells import Grid, check_same_size, mean_cell, note_on_seeds, read_grid, runs_of
from phrasemt.stages.report import MakeTable

_COLUMNS = [
    Column(key="alpha", heading="alpha"),
    Column(key="dev_bleu", heading="dev BLEU", meaning="beam search with the chosen length penalty"),
    Column(key="fixed_alpha", heading="fixed alpha"),
    Column(key="fixed_bleu", heading="fixed BLEU", meaning="beam search with the length penalty of the study, dev"),
]
_NOTE = (
    "Length penalty: the alpha with the best BLEU of beam search on dev, which translates the test sets, beside the "
    "fixed one of the study. The chosen score is the best of several on dev; test sets tell whether the choice helps."
)


def length_penalty_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each data set, if dev chooses the length penalty of a system."""
    grid = read_grid(
        "scores of length penalties",
        paths,
        LengthPenaltyScores,
        lambda file: {(file.dataset, file.system, file.seed): file},
        [(dataset, *run) for dataset in settings.datasets for run in runs_of(settings, settings.tuned)],
    )
    return [_block(settings, dataset, grid) for dataset in settings.datasets if settings.tuned]


def _block(settings: MakeTable, dataset: str, grid: Grid[LengthPenaltyScores]) -> Block:
    chosen = {place[1:]: entry for place, entry in grid.items() if place[0] == dataset}
    check_same_size(f"dev of {dataset}", chosen, lambda file: {"sentences": file.sentences})
    rows = [
        Row(
            system=system,
            title=title,
            cells=dict(_cells({seed: chosen[system, seed] for seed in settings.seeds_of[system]})),
        )
        for system, title in settings.systems
        if system in settings.tuned
    ]
    return Block(
        kind="length penalty",
        dataset=dataset,
        test_set="dev",
        size=next(iter(chosen.values()))[1].sentences,
        columns=_COLUMNS,
        rows=rows,
        notes=[note_on_seeds(settings), _NOTE],
    )


def _cells(by_seed: dict[int, tuple[DigestedFile, LengthPenaltyScores]]) -> Iterator[tuple[str, Cell]]:
    sources = [source for source, _ in by_seed.values()]
    files = {seed: file for seed, (_, file) in by_seed.items()}
    first = next(iter(files.values()))
    tokenizer, smoothing = ("none", "none") if first.dev_bleu_tokenizer == "13a" else (first.dev_bleu_tokenizer, "exp")
    bleu = f"BLEU|case:mixed|tok:{tokenizer}|smooth:{smoothing}|beam:{first.beam}|sentences:{first.sentences}"
    for prefix, alphas, scores in (
        ("", "alpha", {seed: file.chosen for seed, file in files.items()}),
        ("fixed_", "fixed_alpha", {seed: file.scores[0] for seed, file in files.items()}),
    ):
        values = {seed: score.length_penalty for seed, score in scores.items()}
        cell = mean_cell(values, signature="alpha of the length penalty", sources=sources)
        text = "; ".join(f"{value:g}" for value in dict.fromkeys(values.values()))
        yield alphas, cell.model_copy(update={"text": text})
        key = f"{prefix}bleu" if prefix else "dev_bleu"
        yield key, mean_cell({seed: score.dev_bleu for seed, score in scores.items()}, signature=bleu, sources=sources)
