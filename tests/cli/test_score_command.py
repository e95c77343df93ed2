"""`phrasemt score` as a user runs it. Witnesses: sacreBLEU's functions on the same text, its paired tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from phrasemt.cli import main
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.tokenize import line_tokenizer

REFERENCE = [
    "Der Hund sieht die Katze an.",
    "Sie sagt: „Ja, gern.“",
    "Das ist's nicht.",
    "Wir gehen in das alte Haus.",
] * 5
FURTHER = [
    "Ein Hund schaut die Katze an.",
    "„Ja, gern“, sagt sie.",
    "Das ist es nicht.",
    "Wir gehen ins alte Haus.",
] * 5
FIRST = [line.replace("die", "eine").replace("alte", "neue") for line in REFERENCE]
SECOND = [line.replace("Katze", "Kuh") for line in REFERENCE]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref": REFERENCE, "ref2": FURTHER, "first": FIRST, "second": SECOND}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))


def scored(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, float]]:
    assert main(["score", *arguments, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    return {path: {name: one["score"] for name, one in found["metrics"].items()} for path, found in files.items()}


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["score", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    (line,) = captured.err.splitlines()
    return line


def test_scores_are_those_of_sacrebleu(capsys: pytest.CaptureFixture[str]) -> None:
    found = scored(capsys, "first", "--references", "ref", "ref2", "--language", "de")["first"]
    references = [REFERENCE, FURTHER]
    assert found["bleu_detok"] == pytest.approx(sacrebleu.corpus_bleu(FIRST, references).score)
    assert found["chrf2pp"] == pytest.approx(sacrebleu.corpus_chrf(FIRST, references, word_order=2).score)
    assert found["ter"] == pytest.approx(sacrebleu.corpus_ter(FIRST, references).score)


def test_tokens_and_text_of_one_translation_score_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """Moses tokens with and without escapes, and a file with a byte order mark and Windows line ends."""
    lines = list(map(line_tokenizer(Tokenizer.for_language("de")), FIRST))
    assert any("&apos;" in line for line in lines)
    Path("tokens").write_text("".join(f"{line}\n" for line in lines))
    Path("unescaped").write_text("".join(f"{line}\n" for line in lines).replace("&apos;", "'"))
    Path("windows").write_bytes(b"\xef\xbb\xbf" + Path("first").read_bytes().replace(b"\n", b"\r\n"))
    common = ["--references", "ref", "--language", "de"]
    expected = scored(capsys, "first", *common)["first"]
    assert scored(capsys, "windows", *common)["windows"] == expected
    for name in ("tokens", "unescaped"):
        found = scored(capsys, name, *common, "--tokenised")[name]
        assert found["bleu_tok"] == pytest.approx(expected["bleu_tok"])


def test_two_files_are_tested_as_by_sacrebleu(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["score", "first", "second", "--references", "ref", "--language", "de", "--samples", "100"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparison"]["bleu_detok"]
    named = [("first", FIRST), ("second", SECOND)]
    _, results = PairedTest(named, {"BLEU": BLEU()}, [REFERENCE], test_type="bs", n_samples=100)()
    for side, result in zip(("baseline", "system"), results["BLEU"], strict=True):
        assert (found[side]["high"] - found[side]["low"]) / 2 == pytest.approx(result.ci, abs=1e-4)
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["metric", "system", "score", "difference"]
    assert [line.split()[:2] for line in lines[2:4]] == [["bleu_tok", "first"], ["bleu_tok", "second"]]
    assert any(line.startswith("bleu_tok: nrefs:1|case:mixed|") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("short", "--references", "ref", "--language", "de"), "unequal numbers of lines"),
        (("subwords", "--references", "ref", "--language", "de"), "the text is cut into subwords"),
        (("empty", "--references", "empty2", "--language", "de"), "no lines"),
        (("first", "--references", "ref", "--language", "th"), "no spaces between words"),
        (("first", "second", "ref2", "--references", "ref", "--language", "de"), "one file, or two to compare"),
        (("first", "--references", "ref", "--language", "de", "--dataset", "x"), "a data set belongs to a study"),
        (("first", "--references", "subwords", "--language", "de"), "subwords, line 1: the text is cut into subwords"),
        (("first", "--references", "escaped", "--language", "de"), "preprocessed in different ways"),
        (("first", "--references", "ref", "escaped", "--language", "de"), "escaped, first: two texts of one language"),
        (("first", "--references", "spaced", "--language", "de"), "preprocessed in different ways"),
        (("log", "--references", "ref", "--language", "de"), "log, line 1: a log of fairseq"),
        (("first", "--references", "json", "--language", "de"), "json, line 1: the lines are JSON"),
        (("first", "--references", "ref", "log", "--language", "de"), "log, line 1: a log of fairseq"),
        (("many", "--references", "many_spaced", "--language", "de"), "is still tokenised"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    Path("short").write_text("Ja.\n")
    Path("subwords").write_text("Der Hu@@ nd\n" * len(REFERENCE))
    text = Path("ref").read_text()
    Path("escaped").write_text(text.replace("'", "&apos;"))
    Path("spaced").write_text(text.replace(".\n", " .\n"))
    Path("log").write_text("".join(f"H-{number}\t-0.1\t{line}\n" for number, line in enumerate(REFERENCE)))
    Path("json").write_text("".join(f"{json.dumps([line])}\n" for line in REFERENCE))
    Path("many").write_text(text * 7)
    Path("many_spaced").write_text(text.replace(".\n", " .\n") * 7)
    for name in ("empty", "empty2"):
        Path(name).write_text("")
    assert message in fails(capsys, *arguments)


def test_blank_lines_of_references_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The length of the shortest reference would be 0."""
    Path("gaps").write_text("\n".join(["", *FURTHER[1:-1], " "]) + "\n")
    assert main(["score", "first", "--references", "ref", "gaps", "--language", "de"]) == 0
    assert capsys.readouterr().err == ("score: warning: gaps: 2 blank lines, which count as references of length 0\n")
