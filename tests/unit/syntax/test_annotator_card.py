"""The card: what makes a fingerprint, and what is noticed when a card or a model file has changed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import tiny

from phrasemt.artefacts.syntax import Card, Kind
from phrasemt.errors import DamagedFileError


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """Small files in a folder of their own, by role."""
    folder = tmp_path / "models"
    folder.mkdir()
    paths = {role: folder / f"{role}.pt" for role in tiny.ROLES}
    for role, path in paths.items():
        path.write_text(role)
    return paths


def describe(path: Path, models: dict[str, Path], *roles: str, kind: Kind = "constituency") -> Card:
    return Card.read(tiny.describe(path, kind, {role: models[role] for role in roles}))


def test_the_fingerprint_is_of_what_decides_results(tmp_path: Path, models: dict[str, Path]) -> None:
    files = {"chunker": models["chunker"], "vectors": models["vectors"]}
    card = Card.of_files(kind="chunks", origin="published", language="en", files=files)
    copy = tmp_path / "copy.pt"
    copy.write_text("vectors")
    moved = {**files, "vectors": copy}
    same = Card.of_files(kind="chunks", origin="trained", language="en", files=moved, scores={"f1": 0.9})
    assert same.fingerprint == card.fingerprint
    assert len(card.fingerprint) == 32
    copy.write_text("other vectors")
    assert Card.of_files(kind="chunks", origin="published", language="en", files=moved).fingerprint != card.fingerprint
    for change in ({"stanza": "1.16.0"}, {"options": {**card.options, "version": 2}}, {"kind": "constituency"}):
        assert card.model_copy(update=change).fingerprint != card.fingerprint


def test_a_changed_model_file_is_noticed(tmp_path: Path, models: dict[str, Path]) -> None:
    card = describe(tmp_path / "card.json", models, "constituency", "vectors")
    models["vectors"].write_text("other vectors")
    expected, found = (hashlib.sha256(text).hexdigest() for text in (b"vectors", b"other vectors"))
    with pytest.raises(DamagedFileError) as raised:
        card.verify()
    assert str(raised.value) == (
        f"{models['vectors']}: the model file (vectors) is not the one that the card describes (expected sha256 "
        f"{expected[:12]}, found sha256 {found[:12]}). Next: restore the file, or delete the annotator's card to "
        "describe the new one"
    )
    models["vectors"].unlink()
    with pytest.raises(DamagedFileError, match="found no such file"):
        card.verify()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format": 1', '"format": 2', "expected format 1, found 2"),
        ('"longest": 1000', '"longest": 10', "fingerprint .* instead of"),
        ('"language": "en",', '"language": "en", "speed": 3,', "speed"),
        ("}", "", "not JSON"),
        (r',\s*"fingerprint": "\w+"', "", "fingerprint None instead of"),
    ],
)
def test_an_altered_card_is_noticed(tmp_path: Path, models: dict[str, Path], old: str, new: str, message: str) -> None:
    path = tmp_path / "card.json"
    describe(path, models, "constituency", "vectors")
    path.write_text(re.sub(old, new, path.read_text()))
    with pytest.raises(DamagedFileError, match=f"(?s){message}"):
        Card.read(path)
