"""Files of phrase-based systems (docs/moses.md)."""

from __future__ import annotations

from phrasemt.artefacts.artefact import JsonFile, of_dataset


class TunedWeights(JsonFile, pattern=of_dataset("models/{system}/{seed}/weights.json")):
    """The weights of the features that a tuner found. bleu: on dev; run: the best one of these runs."""

    bleu: float
    run: int
    runs: int
    weights: dict[str, list[float]]
