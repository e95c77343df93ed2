"""Parsers and chunkers from their cards: Stanza's models without Stanza's Pipeline.

The Pipeline may use the network, and it may lose or shift sentences on which a model fails.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from phrasemt.artefacts.card import ANNOTATION_VERSION, Card
from phrasemt.errors import check_equal
from phrasemt.syntax.given_trees import TreeAnnotator
from phrasemt.syntax.stanza.annotator import StanzaAnnotator
from phrasemt.syntax.stanza.chunker import ChunkerAnnotator
from phrasemt.syntax.stanza.parser import ParserAnnotator


def load_annotator(card_path: Path) -> StanzaAnnotator | TreeAnnotator:
    """Load the parser or chunker of a card, on a GPU if torch sees one, or its trees, and verify the files.

    Raises DamagedFileError if the card or a model file was altered, MismatchError if the card was written with another
    version of Stanza or the model files do not fit together, DataError if a model file is unusable.
    """
    card = Card.read(card_path)
    for what, described, present in (
        ("Stanza", card.stanza, importlib.metadata.version("stanza")),
        ("phrasemt's annotations", card.options.get("version"), ANNOTATION_VERSION),
    ):
        problem = f"the annotator was described under another version of {what}"
        next_step = "install that version, or delete the card and run again"
        check_equal(described, present, problem, where=card_path, next_step=next_step)
    card.verify()
    files = {role: file.path for role, file in card.files.items()}
    if card.origin == "trees":
        return TreeAnnotator(files["trees"])
    annotator = ParserAnnotator if card.kind == "constituency" else ChunkerAnnotator
    return annotator(files, card.options["longest"])
