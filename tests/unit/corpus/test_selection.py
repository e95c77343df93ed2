"""Parts that a rule makes of the rows of other texts, and the verses of SWORD modules."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from stage_settings import extracting, register

from phrasemt.corpus.extract import extract_text, select_rows
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines
from phrasemt.registry.corpora import CorpusPart, files_of


def sword(books: Mapping[str, list[list[str]]]) -> bytes:
    """A zip archive with a module: for each testament its books, for each book its entries; "" is a title.

    The numbers are written byte by byte, so a mistake of the reader's `struct` formats cannot hide here.
    """

    def number(value: int, size: int) -> bytes:
        return bytes(value >> 8 * place & 255 for place in range(size))

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for testament, of_testament in books.items():
            bzs, bzv, bzz = b"", b"", b""
            for block, verses in enumerate(of_testament):
                text = b""
                for verse in verses:
                    data = verse.encode()
                    bzv += number(block, 4) + number(len(text), 4) + number(len(data), 2)
                    text += data
                piece = zlib.compress(text)
                bzs += number(len(bzz), 4) + number(len(piece), 4) + number(len(text), 4)
                bzz += piece
            for kind, data in (("bzs", bzs), ("bzv", bzv), ("bzz", bzz)):
                archive.writestr(f"texts/tiny/{testament}.{kind}", data)
    return packed.getvalue()


ENGLISH = {
    "ot": [
        ["", "In the  <w lemma='x'>beginning</w>\n God<note>or: gods</note> made", "It was good"],
        ["", "A new book"],
    ],
    "nt": [["", "Ende<note type='a'>two\nlines</note> gut"]],
}


def listed(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "url": f"http://host/{name}", "md5": "0" * 32} for name in names]


@pytest.fixture
def verses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a registered module."""
    side = {"file": "a.zip", "member": "texts/tiny", "format": "sword"}
    register(monkeypatch, listed("a.zip"), {"all": {"sides": {"en": side}}})
    (tmp_path / "a.zip").write_bytes(sword(ENGLISH))
    return tmp_path / "a.zip"


def extracted(path: Path) -> list[str]:
    text = path.with_name("text")
    extract_text(settings=extracting("tiny", "all", "en"), cores=1, files=[path], text=text)
    return list(read_lines(text))


def test_verses_of_a_sword_module(verses: Path) -> None:
    expected = ["", "In the beginning God made", "It was good", "", "A new book", "", "Ende gut"]
    assert extracted(verses) == expected


SIDES = {"en": {"file": "en"}, "de": {"file": "de"}}
ROWS = {
    "all": [("a b", "x y"), ("c", "long text"), ("d e", "y z y z"), ("f g", "w w"), ("a b", "x y"), ("h i", "j k")],
    "other": [("f g", "something else"), ("q", "j k")],
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"min_words": 2}, [0, 2, 3, 4, 5]),
        ({"ratio_below": 2.5}, [0, 2, 3, 4, 5]),
        ({"ratio_below": 7 / 3}, [0, 3, 4, 5]),  # 7 characters to 3 are not below
        ({"blocks": {"size": 2, "period": 2, "numbers": [1]}}, [2, 3]),
        ({"min_words": 2, "blocks": {"size": 2, "period": 2, "numbers": [1]}}, [3, 4]),  # of the rows that are left
        ({"apart_from": ["other"]}, [0, 1, 2, 4]),
        ({"distinct": True}, [0, 1, 2, 3, 5]),
    ],
)
def test_rows_that_a_rule_takes(rule: dict[str, object], expected: list[int]) -> None:
    parts = {"all": {"sides": SIDES, "selection": rule}, "other": {"sides": SIDES}}
    made = {name: CorpusPart.model_validate(part) for name, part in parts.items()}
    rows = {id(part): ROWS[name] for name, part in made.items()}
    assert [*select_rows(made["all"], made, lambda part: iter(rows[id(part)]))] == [
        ROWS["all"][row] for row in expected
    ]


def test_a_text_made_of_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of their files, or the ready text where it is at hand; a wrong text is none."""
    texts = {
        "ready.en": "ready",
        "1.en": "a\nb",
        "1.de": "u\nv",
        "2.en": "b\nc\na",
        "2.de": "v\nw\nx",
        "3.en": "c",
        "3.de": "q",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n")
    parts = {f"{n}": {"sides": {"en": {"file": f"{n}.en"}, "de": {"file": f"{n}.de"}}} for n in (1, 2, 3)}
    rule = {"parts": ["1", "2"], "distinct": True, "apart_from": ["3"]}
    sides = {"en": {"file": "ready.en"}, "de": {"file": "ready.en"}}
    made = {"sides": sides, "selection": rule, "lines": 3}
    register(monkeypatch, listed(*texts), {**parts, "train": made})
    names = files_of("tiny", "train", "de")
    assert names == ["1.en", "1.de", "2.en", "2.de", "3.en", "3.de"]
    settings = extracting("tiny", "train", "de")
    files = [tmp_path / name for name in names]
    extract_text(settings=settings, cores=1, files=files, text=tmp_path / "text")
    assert list(read_lines(tmp_path / "text")) == ["u", "v", "x"]
    assert files_of("tiny", "train", "de", lambda file: file == "ready.en") == ["ready.en"]
    ready = settings.model_copy(update={"lines": 1})
    extract_text(settings=ready, cores=1, files=[tmp_path / "ready.en"], text=tmp_path / "text")
    assert list(read_lines(tmp_path / "text")) == ["ready"]
    wrong = settings.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(DataError, match=r"not the text that the registry describes \(expected a text with sha256 00"):
        extract_text(settings=wrong, cores=1, files=files, text=tmp_path / "text")
