"""Lines of other formats are refused, whatever the format, and the command of the message gives the text back."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from phrasemt.errors import DataError
from phrasemt.files.preprocessing import Preprocessing

SENTENCES = [f"{name} sees the {thing}, and I'm {mood}." for name in ("Anna", "Tom", "Ms. Lee", "Ömer")
             for thing in ("old dog", "cat", "red house") for mood in ("happy", "not sad", "tired")]  # fmt: skip
Lines = Sequence[str]


def each(pattern: str) -> Callable[[Lines], list[str]]:
    """Every sentence in place of TEXT, with its number in place of NUMBER."""
    return lambda lines: [
        pattern.replace("TEXT", line).replace("NUMBER", str(number)) for number, line in enumerate(lines)
    ]


def shuffled(pattern: str, *others: str) -> Callable[[Lines], list[str]]:
    """A log of fairseq: the sentences in the order of batches, with other lines between them."""

    def log(lines: Lines) -> list[str]:
        blocks = [
            [one.replace("TEXT", line).replace("NUMBER", str(number)) for one in (*others, pattern)]
            for number, line in enumerate(lines)
        ]
        random.Random(1).shuffle(blocks)
        return [line for block in blocks for line in block]

    return log


def quoted(line: str) -> str:
    return '"' + line.replace('"', '""') + '"'


# For each form: of lines, and whether the command of the message gives the sentences back as it stands.
WRITTEN: dict[str, tuple[Callable[[Lines], list[str]], bool]] = {
    "jsonl": (lambda lines: [json.dumps({"id": 1, "KEY": line}, ensure_ascii=False) for line in lines], True),
    "json of a list": (lambda lines: [json.dumps([line, "x"]) for line in lines], False),
    "json over lines": (each('  "translation": "TEXT",'), False),
    "dictionaries": (lambda lines: [repr({"en": line, "de": "x"}) for line in lines], False),
    "csv": (lambda lines: [f"{quoted(line)},x{number}" for number, line in enumerate(lines)], True),
    "csv with numbers": (lambda lines: [f"{number},{quoted(line)},x" for number, line in enumerate(lines)], False),
    "csv with headings": (lambda lines: ["id,source,target", *lines], False),
    "csv with semicolons": (lambda lines: [f"{quoted(line)};{quoted(line)}" for line in lines], False),
    "tsv": (each("NUMBER\tTEXT"), True),
    "tsv of three columns": (each("wmt\tTEXT\tder Hund"), True),
    "tsv with headings": (lambda lines: ["source\ttarget", *lines], False),
    "numbers": (each("NUMBER TEXT"), True),
    "numbers with dots": (each("NUMBER. TEXT"), True),
    "numbers in brackets": (each("[NUMBER] TEXT"), True),
    "numbers in parentheses": (each("(NUMBER) TEXT"), True),
    "ids": (each("newstest2014-NUMBER TEXT"), True),
    "ids of documents": (each("doc_1.NUMBER: TEXT"), True),
    "verses": (each("Gen 1:NUMBER TEXT"), True),
    "verses in one word": (each("GEN.1.NUMBER TEXT"), True),
    "paragraphs": (each("<p>TEXT</p>"), True),
    "paragraphs that do not end": (each("<p>TEXT"), True),
    "verses in tags": (each('<verse osisID="Gen.1.NUMBER">TEXT</verse>'), True),
    "list of HTML": (each("<li>TEXT</li>"), True),
    "own tags": (each('<utt id="NUMBER">TEXT</utt>'), True),
    "fairseq": (shuffled("H-NUMBER\t-0.1\tTEXT"), True),
    "fairseq with all lines": (
        shuffled("H-NUMBER\t-0.1\tTEXT", "S-NUMBER\tein Hund", "T-NUMBER\tTEXT", "P-NUMBER\t-0.1 -0.2"),
        True,
    ),
    "moses": (each("NUMBER ||| TEXT ||| LM0= -7 ||| -1.5"), True),
    "moses n-best": (
        lambda lines: [f"{n} ||| {one} ||| -1" for n, line in enumerate(lines) for one in (line, "x", "y")],
        True,
    ),
    "pairs in a line": (each("ein Hund NUMBER ||| TEXT"), True),
    "opennmt": (each("PRED NUMBER: TEXT"), True),
    "opennmt with scores": (
        lambda lines: [one for n, line in enumerate(lines)
                       for one in ("", f"SENT {n}: ['a']", f"PRED {n}: {line}", "PRED SCORE: -0.1")], True,
    ),
    "gettext": (each('msgid "TEXT"'), False),
    "labels": (each("Source: TEXT"), False),
    "bounds": (each("<s> TEXT </s>"), True),
    "ends": (each("TEXT </s>"), True),
    "quotes": (lambda lines: [quoted(line) for line in lines], True),
    "names": (each("TEXT (newstest-NUMBER)"), True),
    "names of speakers": (each("TEXT (spk_1-000NUMBER)"), True),
    "srt": (
        lambda lines: [one for n, line in enumerate(lines)
                       for one in (str(n), "00:00:01,000 --> 00:00:02,000", line, "")], False,
    ),
    "log": (each("2024-01-01 12:00:00 | INFO | TEXT"), False),
    "bullets": (each("- TEXT"), True),
    "table of Markdown": (each("| NUMBER | TEXT |"), False),
    "tags of words": (lambda lines: [" ".join(f"{word}|NN" for word in line.split()) for line in lines], True),
    "trees": (lambda lines: ["(ROOT (S (NP " + line.replace(" ", ") (NN ") + ")))" for line in lines], False),
    "tmx": (each("<tuv><seg>TEXT</seg></tuv>"), False),
    "sgm": (each('<seg id="NUMBER">TEXT</seg>'), False),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_other_formats_are_refused_with_the_command_that_gives_the_text(name: str, tmp_path: Path) -> None:
    write, gives_text = WRITTEN[name]
    lines = write(SENTENCES)
    Preprocessing.of(SENTENCES).check_plain_text("text")
    with pytest.raises(DataError) as error:
        Preprocessing.of(lines).check_plain_text("text")
    assert "text, line " in str(error.value)
    assert error.value.next_step
    file = tmp_path / "text"
    file.write_text("".join(f"{line}\n" for line in lines))
    if gives_text:
        command, _, _ = error.value.next_step.partition(", with")
        done = subprocess.run(
            ["bash", "-c", command.replace("FILE", str(file))], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == SENTENCES


def test_a_few_lines_of_a_form_are_no_refusal() -> None:
    """Texts from the web hold such lines by chance."""
    for write, _ in WRITTEN.values():
        lines = [line for line in write(SENTENCES) if line][2:4]
        Preprocessing.of([*SENTENCES * 10, *lines]).check_plain_text("text")


def test_a_form_in_the_last_part_of_a_long_text_is_seen() -> None:
    lines = SENTENCES * 200 + [f"H-{number}\t-0.1\tx" for number in range(3000)]
    with pytest.raises(DataError, match="a log of fairseq"):
        Preprocessing.of(lines).check_plain_text("text")


def test_a_very_long_line_takes_no_time() -> None:
    """Patterns that go back and forth would take hours."""
    for piece in (" ", "(", '"', ",", "a|", "<a>", "[", "a,", "(a_", "1.", "</", '""', "a ", "|"):
        Preprocessing.of([piece * (2**16 // len(piece)) + "x"] * 3)


def test_real_texts_have_none_of_the_forms(shared_data: Path) -> None:
    texts = {str(path): gzip.decompress(path.read_bytes()).decode() for path in shared_data.rglob("*.gz")}
    plain = (*shared_data.glob("newstest-en-de/*"), *shared_data.rglob("*.raw"), *shared_data.rglob("*.human/*"))
    texts |= {str(path): path.read_text() for path in plain}
    for archive, member in (("tatoeba-en-de/deu-eng.zip", "deu.txt"), ("tatoeba-zh-en/cmn-eng.zip", "cmn.txt")):
        with zipfile.ZipFile(shared_data / archive) as opened:
            rows = [row.split("\t") for row in opened.read(member).decode().rstrip("\n").split("\n")]
        texts |= {f"{member} {column}": "\n".join(row[column] for row in rows) for column in (0, 1)}
    assert len(texts) > 30
    for name, text in texts.items():
        lines = text.rstrip("\n").split("\n")
        for part in (lines, lines[:100], lines[-100:]):  # `phrasemt check` reads the beginning
            Preprocessing.of(part).check_plain_text(name)
