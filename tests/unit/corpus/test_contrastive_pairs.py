"""Contrastive pairs in the forms of LingEval97 and DistilLingEval, and as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_settings import arguments_of

from phrasemt.artefacts.corpus import ContrastivePair, Contrasts
from phrasemt.cli import main
from phrasemt.corpus.contrastive_pairs import read_contrastive_pairs
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines

# The example of the README of github.com/rsennrich/lingeval97. Its evaluate.py also reads 0 as text; its published
# statistics by distance begin at 1.
PRAGUE: dict[str, Any] = {
    "source": "Prague Stock Market falls to minus by the end of the trading day",
    "reference": "Die Prager Börse stürzt gegen Geschäftsschluss ins Minus.",
    "origin": "newstest2009.1",
    "errors": [
        {"type": kind, "contrastive": f"{wrong} ins Minus."} | more
        for kind, wrong, more in (
            ("np_agreement", "Der Prager Börse stürzt gegen Geschäftsschluss", {"distance": 2, "frequency": 2020}),
            ("polarity_particle_nicht_ins", "Die Prager Börse stürzt gegen Geschäftsschluss nicht", {}),
            ("subj_verb_agreement", "Die Prager Börse stürzen gegen Geschäftsschluss", {"distance": 1}),
        )
    ],
}
YES = {"type": "transliteration", "contrastive": "Aj", "distance": "0", "frequency": "0"}
LINGEVAL97 = [
    PRAGUE,
    {"source": "Congress", "reference": "Kongress", "origin": "newstest2009.2", "errors": []},
    {"source": "Yes", "reference": "Ja", "origin": "newstest2009.3", "errors": [YES]},
]


@pytest.mark.parametrize("escaped", [False, True])
def test_lingeval(tmp_path: Path, escaped: bool) -> None:
    """Characters beyond ASCII may be written as they are, or as escapes, which Python's json writes."""
    path = tmp_path / "lingeval97.json"
    path.write_text(json.dumps(LINGEVAL97, ensure_ascii=escaped, indent=2), encoding="utf-8")
    pairs = read_contrastive_pairs([path])
    assert [(pair.kind, pair.distance) for pair in pairs] == [
        ("np_agreement", 2),
        ("polarity_particle_nicht_ins", None),
        ("subj_verb_agreement", 1),
        ("transliteration", None),
    ]
    assert {pair.right for pair in pairs[:3]} == {PRAGUE["reference"]}
    assert [pair.wrong for pair in pairs[:3]] == [error["contrastive"] for error in PRAGUE["errors"]]
    assert pairs[3].source == "Yes"


def test_distil_lingeval(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("src.en", "tgt.correct.de", "tgt.incorrect.de")]
    for path, line in zip(files, ("No.", "Nein.", "Ja."), strict=True):
        path.write_text(f"{line}\n")
    assert read_contrastive_pairs(files, kind="polarity") == [ContrastivePair("No.", "Nein.", "Ja.", kind="polarity")]


def test_table(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\t4\na\tb\td\na\tb\te\t\tnumber\r\na\tb\tf\t\t\tidiom\n")
    pairs = read_contrastive_pairs([path], kind="case")
    assert [(pair.distance, pair.kind) for pair in pairs] == [
        (4, "case"),
        (None, "case"),
        (None, "number"),
        (None, "case"),
    ]
    assert [pair.cluster for pair in pairs] == ["", "", "", "idiom"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.tsv", "a\tb\n", "line 1: not a contrastive pair"),
        ("pairs.tsv", "a\tb\tb\n", "no contrastive pairs"),
        ("pairs.tsv", "source\tright\twrong\n", "no contrastive pairs"),
        ("pairs.tsv", "a\tb\tc\nx\ty\tz\tfar\n", "line 2: not a contrastive pair"),
        ("pairs.tsv", "a\tb\tc\t0\n", "line 1: not a contrastive pair .*distance of at least 1"),
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


@pytest.mark.parametrize(
    "header",
    ["source\tright\twrong", "Source\tReference\tContrastive\tdistance\tkind\r", "\ufeffsrc\tcorrect\tincorrect"],
)
def test_the_names_of_columns_are_no_pair(tmp_path: Path, header: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{header}\na\tb\tc\nsource\tright\twrong\n")
    assert [pair.source for pair in read_contrastive_pairs([path])] == ["a", "source"]


@pytest.mark.parametrize("equal", ["b", "b ", "\u00a0b"])
@pytest.mark.parametrize("form", ["table", "texts", "json"])
def test_equal_translations_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, equal: str
) -> None:
    """No system could prefer one of them, and each would count as an error."""
    rows = [("a", "b", equal), ("x", "y", "z")]
    for name, lines in zip(("source", "right", "wrong"), zip(*rows, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    sentences = [{"source": s, "reference": r, "errors": [{"type": "t", "contrastive": w}]} for s, r, w in rows]
    (tmp_path / "pairs.json").write_text(json.dumps(sentences))
    files = {"table": ["pairs.tsv"], "texts": ["source", "right", "wrong"], "json": ["pairs.json"]}[form]
    assert [pair.wrong for pair in read_contrastive_pairs([tmp_path / name for name in files])] == ["z"]
    (warning,) = caplog.messages
    assert "left out 1 pairs whose right and wrong translations are equal" in warning


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
    assert main(arguments_of("extract_contrasts", settings, files=files, **outputs)) == 0
    assert list(read_lines(outputs["source"])) == ["Two lines", "No.", "Oh no."]
    assert list(read_lines(outputs["target"])) == [PRAGUE["reference"], "Nein.", "O nein."]
    rows, pairs = Contrasts.read(outputs["contrasts"])
    assert rows == [0, 0, 0, 1, 2]
    assert [pair.kind for pair in pairs] == [*(error["type"] for error in PRAGUE["errors"]), *["polarity"] * 2]
    assert pairs[4] == ContrastivePair("Oh no.", "O nein.", "O ja.", "polarity")
