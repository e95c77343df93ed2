"""Blocks for perplexities: language models on one test set (Table 3 of Nguyen et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.table import Block, Column, Row
from phrasemt.artefacts.translations import Perplexity, PerplexityScores
from phrasemt.report.cells import Grid, check_same_size, mean_cell, note_on_seeds, read_grid, runs_of, select_test_set
from phrasemt.stages.report import MakeTable

_COLUMNS = [
    Column(key="per_token", heading="per token", meaning="exp(NLL / tokens), </s> included"),
    Column(key="per_word", heading="per word", meaning="exp(NLL / (words + sentences))"),
]
_NOTE = "Perplexity without label smoothing; each sentence is a text of its own. No test of significance."


def perplexity_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has language models."""
    names = settings.language_models
    grid = read_grid(
        "perplexity",
        paths,
        PerplexityScores,
        lambda file: file.by_place,
        [(*test_set, *run) for test_set in settings.test_sets for run in runs_of(settings, names)],
    )
    return [_block(settings, test_set, grid) for test_set in settings.test_sets if names]


def _block(settings: MakeTable, test_set: tuple[str, str], grid: Grid[Perplexity]) -> Block:
    chosen = select_test_set(grid, test_set)
    check_same_size(
        test_set[1], chosen, lambda part: {"sentences": part.sentences, "words": part.words, "tokens": part.tokens}
    )
    _, first = next(iter(chosen.values()))
    signature = f"perplexity|smooth:none|sentences:{first.sentences}|words:{first.words}|tokens:{first.tokens}"
    rows = []
    for system in settings.language_models:
        of_seeds = {seed: chosen[system, seed] for seed in settings.seeds_of[system]}
        cells = {
            column.key: mean_cell(
                {seed: getattr(part, column.key) for seed, (_, part) in of_seeds.items()},
                signature=signature,
                sources=[source for source, _ in of_seeds.values()],
            )
            for column in _COLUMNS
        }
        rows.append(Row(system=system, title=dict(settings.systems)[system], cells=cells))
    return Block(
        kind="perplexity",
        dataset=test_set[0],
        test_set=test_set[1],
        size=first.sentences,
        columns=_COLUMNS,
        rows=rows,
        notes=[note_on_seeds(settings), _NOTE],
    )
