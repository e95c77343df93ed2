"""The values of `phrase.mode`, an object for each: what a mode reads, and how its phrases come about.

Everything else asks for these attributes. No code compares the names of modes.
"""

from __future__ import annotations

from dataclasses import dataclass

_SIZES = frozenset(["ntok_div", "ntok_min", "ntok_max"])


@dataclass(frozen=True)
class PhraseMode:
    """A way to cut a source into phrases.

    segmenter: a function of phrasemt/syntax/segmenters.py; None for a model without phrases. keys: the settings
    of `PhraseSegmentation` that have an effect. stored: `extract_phrases` writes the phrases of each split; those of
    other modes follow from lengths, and each batch computes them. reads_parses, reads_given: what the segmenter needs.
    """

    segmenter: str | None
    keys: frozenset[str]
    stored: bool = True
    reads_parses: bool = False
    reads_given: bool = False


PHRASE_MODES = {
    "ngram": PhraseMode("cut_ngrams", _SIZES | {"ntok_scope"}, stored=False),
    "parse": PhraseMode("cut_parse", _SIZES, reads_parses=True),
    "random": PhraseMode("cut_random_tree", _SIZES),
    "right": PhraseMode("cut_right_tree", _SIZES),
    "shuffled": PhraseMode("shuffle_parse", _SIZES, reads_parses=True),
    "given": PhraseMode("cut_as_given", frozenset(["given"]), reads_given=True),
    "none": PhraseMode(None, frozenset(), stored=False),
}
