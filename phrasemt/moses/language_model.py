"""The stage `train_lm`: KenLM's language model of the target side, with modified Kneser-Ney smoothing.

Heafield et al. 2013, Scalable Modified Kneser-Ney Language Model Estimation.
"""

from __future__ import annotations

from pathlib import Path

from phrasemt.files.system import work_folder
from phrasemt.moses.installation import run
from phrasemt.stages.moses import TrainLm

# Larger texts are sorted on the disk in parts of this size, so it limits no text. No result depends on it.
_MEMORY = "1G"


def train_lm(*, settings: TrainLm, cores: int, text: Path, language_model: Path) -> None:
    """Estimate a model of this order from all lines of a text; write it in KenLM's binary form (trie).

    Counts of counts of very small texts give no discounts; KenLM then takes its fallback (0.5, 1 and 1.5).
    """
    with work_folder(language_model) as work:
        arpa, binary = work / "arpa", work / "binary"
        run(
            "bin/lmplz", "-o", settings.order, "-S", _MEMORY, "-T", work, "--discount_fallback",
            stdin=text, stdout=arpa, work=work,
        )  # fmt: skip
        run("bin/build_binary", "-T", work, "trie", arpa, binary, work=work)
        binary.replace(language_model)
