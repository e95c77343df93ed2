"""How fast devices compute, by their data sheets. Apart from _price.py, whose import of torch takes seconds."""

from __future__ import annotations

from phrasemt.study.training import Training

# Multiply-adds of 16-bit matrices with sums in float32, without sparsity, in 10^12 floating-point operations a second,
# as the data sheets state them.
# GPUs without bfloat16 units (the first three) compute in float32.
GPUS = {
    "t4": 8.1,
    "gtx1080ti": 11.3,
    "v100": 15.7,
    "rtx3090": 71,
    "l4": 121,
    "a10": 125,
    "rtx4090": 165,
    "a100": 312,
    "l40s": 362,
    "h100": 989,
    "h200": 989,
}
# Shares of that rate that a training reaches, by family: estimates for an H100 from counts of launches, with updates of
# 25,000 tokens. What an H200 reached with a slow host stands beside them in docs/performance-log.md, "On a GPU".
# `MEASURED` is better.
UTILISATION = {
    "transformer": 0.12,
    "language_model": 0.12,
    "relative_positions": 0.1,
    "phrase_representation": 0.08,
    "phrasal_attention": 0.08,
    "dl4mt": 0.01,
    "biscale": 0.008,
}
OF_OTHER_FAMILIES = 0.05
SEARCH = 0.25  # of the rate of a training; a search computes with small matrices
MEASURED = "measured"  # in place of a kind of GPU: the device of the finished trainings

TOKENS = 27  # a sentence, about the mean of WMT in subwords: POSITIONS of phrasemt/models/cost.py


def target_tokens(training: Training) -> int:
    """Return the target tokens of all updates, as far as they are known before the training."""
    return (training.tokens_per_update or TOKENS * (training.sentences_per_update or 0)) * training.max_updates
