"""BLEU of tokenised lines as in multi-bleu.perl, and of plain text by sacreBLEU.

Training uses this module, too. It is separate from the stage `score_system`, so that edits of the stage do not retrain
models.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics import BLEU


def multi_bleu() -> BLEU:
    """sacreBLEU with the definition of multi-bleu.perl: unchanged tokens, no smoothing."""
    return BLEU(tokenize="none", smooth_method="none", force=True)


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of tokenised lines, from 0 to 100. Training uses it as dev BLEU."""
    assert len(hypotheses) == len(references), (len(hypotheses), len(references))
    return float(multi_bleu().corpus_score(hypotheses, [references]).score)


def standard_bleu(tokenizer: str, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of plain text by sacreBLEU, from 0 to 100. tokenizer: `13a`, `zh`, `ja-mecab` or `char`."""
    assert len(hypotheses) == len(references), (len(hypotheses), len(references))
    return float(BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references]).score)
