"""Contrastive pairs in the forms of LingEval97 and DistilLingEval, and as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phrasemt.cli import main
from phrasemt.corpus.contrastive_pairs import (
    ContrastivePair,
    files_of_folder,
    read_contrastive_pairs,
    read_contrasts,
)
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines

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
    first, second = read_contrastive_pairs([path])
    assert (first.kind, first.distance) == ("np_agreement", 2)
    assert (second.kind, second.distance) == ("polarity_particle_nicht_ins", None)
    assert first.right == second.right == PRAGUE["reference"]
    assert first.wrong.startswith("Der ")


def test_distil_lingeval(tmp_path: Path) -> None:
    folder = tmp_path / "polarity"
    folder.mkdir()
    for name, line in (("src.en", "No."), ("tgt.correct.de", "Nein."), ("tgt.incorrect.de", "Ja.")):
        (folder / name).write_text(f"{line}\n")
    assert read_contrastive_pairs(files_of_folder(folder), kind="polarity") == [
        ContrastivePair("No.", "Nein.", "Ja.", kind="polarity")
    ]
    (folder / "tgt.incorrect.de").unlink()
    with pytest.raises(DataError, match=r"expected one file tgt.incorrect"):
        files_of_folder(folder)


def test_table(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\t4\na\tb\td\na\tb\te\t\tnumber\r\n")
    pairs = read_contrastive_pairs([path], kind="case")
    assert [(pair.distance, pair.kind) for pair in pairs] == [(4, "case"), (None, "case"), (None, "number")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.tsv", "a\tb\n", "line 1: not a contrastive pair"),
        ("pairs.tsv", "a\tb\tc\nx\ty\tz\tfar\n", "line 2: not a contrastive pair"),
        ("pairs.tsv", "a\tb\tc\t0\n", "line 1: not a contrastive pair .*distance of at least 1"),
        ("pairs.tsv", "a\tb\tc\t1\tx\ty\n", "line 1: not a contrastive pair"),
        ("pairs.tsv", "a\t\tc\n", "line 1: not a contrastive pair"),
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
        read_contrastive_pairs([path])


def test_a_set_of_several_texts_becomes_a_split(tmp_path: Path) -> None:
    """Sentences with several mistakes stand in the split once; a line break in the JSON does not divide a line."""
    sentence = {**PRAGUE, "source": "Two\nlines"}
    (tmp_path / "lingeval97.json").write_text(json.dumps([sentence]))
    for name, lines in (("src", "No.\nOh no."), ("right", "Nein.\nO nein."), ("wrong", "Ja.\nO ja.")):
        (tmp_path / name).write_text(f"{lines}\n")
    files = [tmp_path / name for name in ("lingeval97.json", "src", "right", "wrong")]
    settings = {"texts": [{"files": 1, "kind": ""}, {"files": 3, "kind": "polarity"}]}
    outputs = {name: tmp_path / "split" / name for name in ("source", "target", "contrasts")}
    (tmp_path / "split").mkdir()
    words = [word for name, path in outputs.items() for word in (f"--{name}", str(path))]
    command = ["extract_contrasts", "--files", *map(str, files), *words, "--settings", json.dumps(settings)]
    assert main([*command, "--cores", "1"]) == 0
    assert list(read_lines(outputs["source"])) == ["Two lines", "No.", "Oh no."]
    assert list(read_lines(outputs["target"])) == [PRAGUE["reference"], "Nein.", "O nein."]
    rows, pairs = read_contrasts(outputs["contrasts"])
    assert rows == [0, 0, 1, 2]
    assert [pair.kind for pair in pairs] == ["np_agreement", "polarity_particle_nicht_ins", "polarity", "polarity"]
    assert pairs[3] == ContrastivePair("Oh no.", "O nein.", "O ja.", "polarity")
