"""Close decisions: a model's choices that could change with the batch in which a sentence is annotated.

The sums in a model differ in their last digits between batches (measured: by up to 2e-5), and so may a choice between
two scores that are almost equal. The annotators annotate a sentence with such a choice again, alone. The annotation of
a sentence therefore never depends on the other sentences. About one sentence in a thousand has a close decision.

Shapes: S parser states, D parser decisions, N tokens, K tags, B sentences, T positions.
"""

from __future__ import annotations

from typing import Any

CLOSE = 1e-3  # largest difference of scores in a close decision


def close_states(scores_SD: Any, chosen_S: Any) -> Any:
    """Parser states in which another decision scores almost as much as the chosen one, bool [S]."""
    return ((scores_SD - chosen_S.unsqueeze(1)).abs_() < CLOSE).sum(1) > 1


def close_tokens(scores_NK: Any) -> Any:
    """Tokens whose two best tags have almost the same score, bool [N]."""
    best_N2 = scores_NK.topk(2).values
    return best_N2[:, 0] - best_N2[:, 1] < CLOSE


def close_sequences(scores_BTK: Any, transitions_KK: Any, lengths_B: Any) -> Any:
    """Sentences whose two best tag sequences have almost the same score, bool [B]."""
    return margins(scores_BTK, transitions_KK, lengths_B) < CLOSE


def margins(scores_BTK: Any, transitions_KK: Any, lengths_B: Any) -> Any:
    """Score of the best tag sequence minus score of the second-best one, float [B].

    scores_BTK: scores of the tags at each position; transitions_KK: scores of a tag (column) after a tag (row). The
    margin is the smallest difference, over positions, between the two best tags of a position, where a tag counts with
    the best sequence through it.
    """
    import torch

    positions = scores_BTK.shape[1]
    lengths_B1 = lengths_B.to(scores_BTK.device).unsqueeze(1)
    best_up_to = [scores_BTK[:, 0]]  # [B, K]: score of the best sequence up to a position that ends with each tag
    for t in range(1, positions):
        best_up_to.append(scores_BTK[:, t] + (best_up_to[-1].unsqueeze(2) + transitions_KK).amax(1))
    after_BK = torch.zeros_like(scores_BTK[:, 0])  # score of the best sequence after each tag; 0 at the last position
    margins_B = torch.full_like(after_BK[:, 0], torch.inf)
    for t in reversed(range(positions)):
        best_B2 = (best_up_to[t] + after_BK).topk(2).values
        margins_B = torch.where(lengths_B1[:, 0] > t, margins_B.minimum(best_B2[:, 0] - best_B2[:, 1]), margins_B)
        before_BK = (transitions_KK + (scores_BTK[:, t] + after_BK).unsqueeze(1)).amax(2)
        after_BK = torch.where(lengths_B1 > t, before_BK, after_BK)
    return margins_B
