"""BLEU on tokenised lines as multi-bleu.perl computes it.

Apart from the stage that scores systems, because training uses it too: a change of that stage must not retrain models.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics import BLEU


def multi_bleu() -> BLEU:
    """sacreBLEU set to multi-bleu.perl's definition: the tokens as they are, no smoothing."""
    return BLEU(tokenize="none", smooth_method="none", force=True)


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of tokenised lines, 0 to 100: the dev BLEU of training."""
    assert len(hypotheses) == len(references), (len(hypotheses), len(references))
    return float(multi_bleu().corpus_score(hypotheses, [references]).score)
