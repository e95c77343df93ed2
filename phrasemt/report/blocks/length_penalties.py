"""Blocks for length penalties that dev chose, beside the length penalties of the study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from phrasemt.artefacts.table import Block, Cell, Column
from phrasemt.artefacts.translations import LengthPenaltyScore, LengthPenaltyScores
from phrasemt.report.cells import Runs, dev_bleu_signature, make_blocks
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
    made = make_blocks(
        settings,
        "length penalty",
        "scores of length penalties",
        paths,
        LengthPenaltyScores,
        settings.tuned,
        places=[(dataset, "dev") for dataset in settings.datasets],
        columns=_COLUMNS,
        cells=_cells,
        note=_NOTE,
    )
    return [block for block, _ in made]


def _cells(runs: Runs[LengthPenaltyScores]) -> dict[str, Cell]:
    first = runs.first
    bleu = f"{dev_bleu_signature(first.dev_bleu_tokenizer)}|beam:{first.beam}|sentences:{first.sentences}"

    def alpha(score: Callable[[LengthPenaltyScores], LengthPenaltyScore]) -> Cell:
        cell = runs.mean(lambda file: score(file).length_penalty, "alpha of the length penalty")
        text = "; ".join(dict.fromkeys(f"{value:g}" for value in (cell.by_seed or {}).values()))
        return cell.model_copy(update={"text": text})

    return {
        "alpha": alpha(lambda file: file.chosen),
        "dev_bleu": runs.mean(lambda file: file.chosen.dev_bleu, bleu),
        "fixed_alpha": alpha(lambda file: file.scores[0]),
        "fixed_bleu": runs.mean(lambda file: file.scores[0].dev_bleu, bleu),
    }
