"""The file of `tune_length_penalty`: BLEU on dev with each length penalty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from phrasemt.fields import Settings
from phrasemt.scoring.scores import read_artefact
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import BleuTokenizer


class LengthPenaltyScore(Settings):
    """BLEU on dev with one alpha of the length penalty."""

    length_penalty: float
    dev_bleu: float


class LengthPenaltyFile(Settings):
    """The content of the file. scores: the alpha of the settings, then the others. chosen: the best of them."""

    format: Literal[1]
    dataset: str
    system: str
    seed: int
    sentences: int
    beam: int
    dev_bleu_tokenizer: BleuTokenizer
    scores: list[LengthPenaltyScore]
    chosen: LengthPenaltyScore


def chosen_decoding(decoding: Decoding, files: Sequence[Path]) -> Decoding:
    """The settings of a search with the length penalty of a file of `tune_length_penalty`; no file: as they are."""
    if not files:
        return decoding
    (path,) = files
    chosen = read_artefact(path, LengthPenaltyFile).chosen.length_penalty
    return decoding.model_copy(update={"length_penalty": chosen, "length_penalties": None})
