"""Files of phrase-based systems (docs/moses.md)."""

from __future__ import annotations

from phrasemt.artefacts.artefact import Artefact, JsonFile, of_dataset


class Truecaser(Artefact, pattern=of_dataset("moses/truecaser.{language}")):
    """The truecasing model of one language."""


class MosesText(Artefact, pattern=of_dataset("moses/{phrase_model}/text/{split}.{language}")):
    """One side of a split as Moses reads it."""


class LanguageModel(Artefact, pattern=of_dataset("moses/{phrase_model}/language_model.trie")):
    """The n-gram model of the target language (KenLM)."""


class AlignedText(Artefact, pattern=of_dataset("moses/{phrase_model}/aligned.{language}")):
    """One side of the pairs that could be aligned."""


class Alignment(Artefact, pattern=of_dataset("moses/{phrase_model}/alignment")):
    """The word alignment of the training pairs."""


class PhraseTable(Artefact, pattern=of_dataset("moses/{phrase_model}/phrase-table.gz")):
    """The phrase table."""


class ReorderingTable(Artefact, pattern=of_dataset("moses/{phrase_model}/reordering-table.gz")):
    """The lexicalised reordering table."""


class TunedWeights(JsonFile, pattern=of_dataset("models/{system}/{seed}/weights.json")):
    """The weights of the features that a tuner found. bleu: on dev; run: the best one of these runs."""

    bleu: float
    run: int
    runs: int
    weights: dict[str, list[float]]


class TuningState(Artefact, pattern=of_dataset("models/{system}/{seed}/tuning")):
    """The folder in which a tuner goes on after a stop."""
