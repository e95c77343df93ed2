"""moses.ini: the features of a phrase-based model, their files, and their weights.

Koehn, Och and Marcu 2003: a translation maximises the weighted sum of its features. The features and untuned weights
are those that Moses' train-model.perl writes by default; a test compares both files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.study.moses import MosesModel, Search

Weights = Mapping[str, list[float]]  # of each feature of moses.ini, by its name
REORDERING = "msd-bidirectional-fe"  # lexicalised reordering: orientations, directions and conditions
_REORDERING_SCORES = 6


def untuned_weights() -> Weights:
    """The weights that train-model.perl begins with."""
    return {
        "UnknownWordPenalty0": [1.0],
        "WordPenalty0": [-1.0],
        "PhrasePenalty0": [0.2],
        "TranslationModel0": [0.2] * 4,
        "LexicalReordering0": [0.3] * _REORDERING_SCORES,
        "Distortion0": [0.3],
        "LM0": [0.5],
    }


def moses_ini(
    model: MosesModel,
    search: Search,
    language_model: Path,
    phrase_table: Path,
    reordering_table: Path,
    weights: Weights,
) -> str:
    """The text of moses.ini, with absolute paths."""
    lines = [
        "[input-factors]",
        "0",
        "[mapping]",
        "0 T 0",
        "[distortion-limit]",
        str(search.distortion_limit),
        "[stack]",
        str(search.stack),
        "[feature]",
        "UnknownWordPenalty",
        "WordPenalty",
        "PhrasePenalty",
        f"PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={phrase_table.absolute()} input-factor=0 "
        "output-factor=0",
        f"LexicalReordering name=LexicalReordering0 num-features={_REORDERING_SCORES} "
        f"type=wbe-{REORDERING}-allff input-factor=0 output-factor=0 path={reordering_table.absolute()}",
        "Distortion",
        f"KENLM name=LM0 factor=0 path={language_model.absolute()} order={model.lm_order}",
        "[weight]",
        *(f"{name}= {' '.join(map(str, values))}" for name, values in weights.items()),
    ]
    return "\n".join(lines) + "\n"


def weights_of_ini(path: Path) -> dict[str, list[float]]:
    """The section [weight] of a moses.ini. Raises PhrasemtError if it has none."""
    weights: dict[str, list[float]] = {}
    section = ""
    for line in map(str.strip, read_lines(path)):
        if line.startswith("["):
            section = line
        elif section == "[weight]" and "=" in line and not line.startswith("#"):
            name, values = line.split("=", 1)
            weights[name.strip()] = [float(value) for value in values.split()]
    if not weights:
        raise PhrasemtError("no weights of features", where=path, expected="a section [weight]")
    return weights
