"""Blocks for the averaged weights, which translate: their scores on dev beside the scores of the last update."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from phrasemt.artefacts.table import Block, Cell, Column
from phrasemt.artefacts.training import AverageScores
from phrasemt.report.cells import Runs, dev_bleu_signature, make_blocks
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
    titles = {name: title for name, title in settings.systems if name in settings.trained}
    knowing = ", ".join(titles[system] for system in settings.chunking if system in titles)
    blocks = []
    for block, runs in make_blocks(
        settings,
        "averages",
        "scores of averaged weights",
        paths,
        AverageScores,
        list(titles),
        places=[(dataset, "dev") for dataset in settings.datasets],
        columns=_COLUMNS,
        cells=_cells,
        note=_NOTE,
    ):
        if knowing:
            given = "Dev perplexities given where the chunks of the reference begin, unlike others"
            block.notes.append(f"{given}: {knowing}.")
        worse = [
            f"{titles[system]} (seed {seed})"
            for system, of_system in runs.items()
            for seed, file in of_system.parts.items()
            if file.worse_than_last
        ]
        if worse:
            what = f"Averages of {block.dataset} that are worse on dev than the last update"
            block.notes.append(f"{what}: {', '.join(worse)}.")
        blocks.append(block)
    return blocks


def _cells(runs: Runs[AverageScores]) -> dict[str, Cell]:
    """The cells of a system, by column. A language model has no BLEU."""
    first = runs.first
    sentences = f"sentences:{first.sentences}"
    bleu = f"{dev_bleu_signature(first.dev_bleu_tokenizer)}|beam:1|{sentences}"
    perplexity = f"perplexity|smooth:none|{sentences}"
    updates = runs.mean(lambda file: len(file.updates), "number of averaged checkpoints")
    text = "; ".join(dict.fromkeys(_range(file.updates) for file in runs.parts.values()))
    cells = {
        "dev_perplexity": runs.mean(lambda file: file.dev_perplexity, perplexity),
        "last_perplexity": runs.mean(lambda file: file.last.dev_perplexity, perplexity),
        "updates": updates.model_copy(update={"text": text}),
    }
    if first.dev_bleu is not None:
        cells["dev_bleu"] = runs.mean(attrgetter("dev_bleu"), bleu)
        cells["last_bleu"] = runs.mean(attrgetter("last.dev_bleu"), bleu)
    return cells


def _range(updates: Sequence[int]) -> str:
    """The averaged updates: `360 to 400 (5)`, or `400` for a single checkpoint."""
    return str(updates[0]) if len(updates) == 1 else f"{updates[0]} to {updates[-1]} ({len(updates)})"
