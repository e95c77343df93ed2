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
UTILISATION = 0.3  # of a training with large updates; a search computes with small matrices
UTILISATION_OF_A_SEARCH = 0.03
MEASURED = "measured"  # in place of a kind of GPU: the device of the finished trainings

TOKENS = 27  # a sentence, about the mean of WMT in subwords: POSITIONS of phrasemt/models/cost.py


def target_tokens(training: Training) -> int:
    """Return the target tokens of all updates, as far as they are known before the training."""
    return (training.tokens_per_update or TOKENS * (training.sentences_per_update or 0)) * training.max_updates
