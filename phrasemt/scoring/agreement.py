"""Agreement between raters beyond chance: the kappas of Cohen and Fleiss.

scikit-learn and statsmodels have them; both would be dependencies for these lines alone.

Letters: I items, R raters, C categories.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def counts_of(ratings: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return how many raters gave each category to each item [I, C]. ratings: of each item, one by each rater."""
    categories = sorted({rating for item in ratings for rating in item})
    return np.array([[list(item).count(category) for category in categories] for item in ratings], dtype=np.int64)


def fleiss_kappa(counts_IC: NDArray[np.int64]) -> float | None:
    """Return Fleiss' kappa (Fleiss 1971), 1 for full agreement and 0 for chance.

    counts_IC: number of raters that gave a category to an item; all items have the same number of raters, at least two.
    None without items, and if all ratings are of one category, because then chance alone explains the agreement.
    """
    if not len(counts_IC):
        return None
    raters = int(counts_IC[0].sum())
    assert raters > 1, raters
    assert (counts_IC.sum(1) == raters).all()
    agreement_I = ((counts_IC**2).sum(1) - raters) / (raters * (raters - 1))
    chance = float(((counts_IC.sum(0) / counts_IC.sum()) ** 2).sum())
    return None if chance == 1 else (float(agreement_I.mean()) - chance) / (1 - chance)


def cohen_kappa(first: Sequence[int], second: Sequence[int], *, weights: str = "none") -> float | None:
    """Return Cohen's kappa of two raters (Cohen 1960); with quadratic weights that of 1968, for ratings on a scale.

    weights: `none` (each disagreement counts alike) or `quadratic` (the square of the difference of two ratings).
    None without items, and if chance explains all: both raters gave the same category to all items.
    """
    assert weights in ("none", "quadratic"), weights
    assert len(first) == len(second)
    if not len(first):
        return None
    categories = np.array(sorted({*first, *second}))
    places = {category: place for place, category in enumerate(categories.tolist())}
    table_CC = np.zeros((len(categories), len(categories)))
    for one, other in zip(first, second, strict=True):
        table_CC[places[one], places[other]] += 1
    table_CC /= len(first)
    expected_CC = np.outer(table_CC.sum(1), table_CC.sum(0))
    distances_CC = (categories[:, None] - categories) ** 2 if weights == "quadratic" else 1 - np.eye(len(categories))
    chance = float((distances_CC * expected_CC).sum())
    return None if chance == 0 else 1 - float((distances_CC * table_CC).sum()) / chance
