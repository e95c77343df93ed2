"""The file `card.json` in the folder of an annotator: the store's format version and the annotator's description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.syntax.store.annotations import checked_card

FORMAT = 1
CARD = "card.json"


def card_text(card: Mapping[str, Any]) -> bytes:
    """The content of the file. card: the description of the annotator (`annotator_card.Card.description`)."""
    return (json.dumps({"format": FORMAT, "annotator": dict(card)}, indent=1, sort_keys=True) + "\n").encode()


def read_card(folder: Path) -> dict[str, Any]:
    """The description of the annotator whose annotations are in a folder.

    Raises MismatchError for another format version and DamagedFileError for an unreadable file.
    """
    path = folder / CARD
    try:
        return parse_card(path.read_bytes(), folder.name, path)
    except ValueError as reason:
        raise DamagedFileError(
            "the card of the annotator is not readable",
            where=path,
            found=reason,
            next_step="delete the file; the next run with this annotator writes it again",
        ) from None


def parse_card(text: bytes, fingerprint: str, where: Path) -> dict[str, Any]:
    """The description of the annotator with this fingerprint, from the content of a card file.

    Raises MismatchError, which names the file `where`, for another format version, and ValueError for other defects.
    """
    content = json.loads(text)
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("no format version")
    if (version := content["format"]) != FORMAT:
        raise MismatchError(
            "the store has another format version",
            where=where,
            expected=FORMAT,
            found=version,
            next_step="use another folder (`cache` in the study), or the version of phrasemt that wrote this one",
        )
    card = checked_card(content.get("annotator"))
    if card["fingerprint"] != fingerprint:
        raise ValueError(f"the card of {card['fingerprint']}")
    return card
