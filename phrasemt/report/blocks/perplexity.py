"""Blocks for perplexities: language models on one test set (Table 3 of Nguyen et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from phrasemt.artefacts.table import Block, Cell, Column
from phrasemt.artefacts.translations import Perplexity, PerplexityScores
from phrasemt.report.cells import Runs, make_blocks
from phrasemt.stages.report import MakeTable

_COLUMNS = [
    Column(key="per_token", heading="per token", meaning="exp(NLL / tokens), </s> included"),
    Column(key="per_word", heading="per word", meaning="exp(NLL / (words + sentences))"),
]
_NOTE = "Perplexity without label smoothing; each sentence is a text of its own. No test of significance."


def perplexity_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has language models."""
    made = make_blocks(
        settings,
        "perplexity",
        "perplexity",
        paths,
        PerplexityScores,
        settings.language_models,
        places=settings.test_sets,
        columns=_COLUMNS,
        cells=_cells,
        sizes=("sentences", "words", "tokens"),
        note=_NOTE,
    )
    return [block for block, _ in made]


def _cells(runs: Runs[Perplexity]) -> dict[str, Cell]:
    size = runs.first
    signature = f"perplexity|smooth:none|sentences:{size.sentences}|words:{size.words}|tokens:{size.tokens}"
    return {column.key: runs.mean(attrgetter(column.key), signature) for column in _COLUMNS}
