"""Contrastive pairs in the forms of LingEval97 and DistilLingEval, and as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phrasemt.corpus.contrastive_pairs import ContrastivePair, read_contrastive_pairs
from phrasemt.errors import DataError

# The example of LingEval97's own description.
PRAGUE = {
    "source": "Prague Stock Market falls to minus by the end of the trading day",
    "reference": "Die Prager Börse stürzt gegen Geschäftsschluss ins Minus.",
    "origin": "newstest2009.1",
    "errors": [
        {
            "type": "np_agreement",
            "contrastive": "Der Prager Börse stürzt gegen Geschäftsschluss ins Minus.",
            "distance": 2,
            "frequency": 2020,
        },
        {
            "type": "polarity_particle_nicht_ins",
            "contrastive": "Die Prager Börse stürzt gegen Geschäftsschluss nicht ins Minus.",
        },
    ],
}


def test_lingeval(tmp_path: Path) -> None:
    path = tmp_path / "lingeval97.json"
    path.write_text(json.dumps([PRAGUE, {**PRAGUE, "errors": []}]))
    first, second = read_contrastive_pairs(path)
    assert (first.kind, first.distance) == ("np_agreement", 2)
    assert (second.kind, second.distance) == ("polarity_particle_nicht_ins", None)
    assert first.right == second.right == PRAGUE["reference"]
    assert first.wrong.startswith("Der ")


def test_distil_lingeval(tmp_path: Path) -> None:
    folder = tmp_path / "polarity"
    folder.mkdir()
    for name, line in (("src.en", "No."), ("tgt.correct.de", "Nein."), ("tgt.incorrect.de", "Ja.")):
        (folder / name).write_text(f"{line}\n")
    assert read_contrastive_pairs(folder) == [ContrastivePair("No.", "Nein.", "Ja.", kind="polarity")]
    (folder / "tgt.incorrect.de").unlink()
    with pytest.raises(DataError, match=r"expected one file tgt.incorrect"):
        read_contrastive_pairs(folder)


def test_table(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\t4\na\tb\td\n")
    assert [pair.distance for pair in read_contrastive_pairs(path)] == [4, None]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.tsv", "a\tb\n", "line 1: not a contrastive pair"),
        ("pairs.tsv", "a\tb\tc\nx\ty\tz\tfar\n", "line 2: not a contrastive pair"),
        ("pairs.tsv", "", "no contrastive pairs"),
        ("pairs.json", "[]", "no contrastive pairs"),
        ("pairs.json", "{", "not the JSON of LingEval97"),
        ("pairs.json", '[{"source": "a", "reference": "b", "errors": [{"type": "x"}]}]', r"0.errors.0.contrastive"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_contrastive_pairs(path)
