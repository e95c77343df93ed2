"""The file of `tune_length_penalty`: BLEU on dev with each length penalty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.translations import LengthPenaltyScores
from phrasemt.study.schema import Decoding


def chosen_decoding(decoding: Decoding, files: Sequence[Path]) -> Decoding:
    """The settings of a search with the length penalty of a file of `tune_length_penalty`; no file: as they are."""
    if not files:
        return decoding
    (path,) = files
    chosen = LengthPenaltyScores.read(path).chosen.length_penalty
    return decoding.model_copy(update={"length_penalty": chosen, "length_penalties": None})
