"""One side out of every kind of container, and one clear error for every kind of damage.

Also parts that a rule makes of the rows of other texts, and the verses of SWORD modules.
"""

from __future__ import annotations

import gzip
import html
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from stage_settings import extracting, register

from phrasemt.corpus.extract import extract_text, select_rows, sgm_segments
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines
from phrasemt.registry.corpora import CorpusPart, files_of

LINES = [f"Zeile {number}: ü\u2028 \x0c\x85 – 三" for number in range(3000)]  # nothing here but "\n" ends a line
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def as_zip(folder: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / "corpus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return folder / "corpus.zip"


def as_tar(folder: Path, members: dict[str, bytes], *, suffix: str = "tgz") -> Path:
    path = folder / f"corpus.{suffix}"
    with tarfile.open(path, "w" if suffix == "tar" else "w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


Extract = Callable[..., list[str]]


@pytest.fixture
def extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extract:
    """Extracts a file as a registry entry describes it and returns the lines."""

    def run(path: Path, *, lines: int | None = len(LINES), **side: object) -> list[str]:
        file = {"name": path.name, "url": f"http://host/{path.name}", "md5": "0" * 32}
        sides = dict.fromkeys(("en", "de"), {"file": path.name, **side})  # noqa: RUF024
        register(monkeypatch, [file], {"all": {"lines": lines, "sides": sides}})
        extract_text(settings=extracting("tiny", "all", "de"), cores=1, files=[path], text=tmp_path / "text")
        return list(read_lines(tmp_path / "text"))

    return run


def test_plain_and_gzip(tmp_path: Path, extract: Extract) -> None:
    for name, data in (("corpus.txt", TEXT), ("corpus.de", TEXT[:-1]), ("corpus.de.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(data)
        assert extract(tmp_path / name) == LINES
        assert (tmp_path / "text").read_bytes() == TEXT


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tgz"])
def test_tar(tmp_path: Path, extract: Extract, suffix: str) -> None:
    path = as_tar(
        tmp_path, {"train/a.en": b"x\n", "./train/a.de": TEXT, "train/a.de.gz": gzip.compress(TEXT)}, suffix=suffix
    )
    assert extract(path, member="train/a.de") == LINES
    assert extract(path, member="train/a.de.gz") == LINES


def test_shards_of_a_tar_archive_come_in_its_order(tmp_path: Path, extract: Extract) -> None:
    path = as_tar(tmp_path, {f"shard-{number}": f"{number}\n".encode() for number in (3, 1, 2, 9)})
    shards = {"pattern": "shard-{number}", "first": 1, "last": 3}
    assert extract(path, lines=3, member=shards) == ["3", "1", "2"]
    with pytest.raises(DataError, match=r"the archive has no such member \(expected shard-4, found 4 members"):
        extract(path, lines=None, member={**shards, "last": 4})


def test_column_of_a_table(tmp_path: Path, extract: Extract) -> None:
    table = b"Hi.\tHallo!\tCC-BY\nRun!\tLauf!\n\t\n"
    path = as_zip(tmp_path, {"deu.txt": table})
    assert extract(path, lines=3, member="deu.txt", format="tsv", column=1) == ["Hi.", "Run!", ""]
    assert extract(path, lines=3, member="deu.txt", format="tsv", column=2) == ["Hallo!", "Lauf!", ""]
    with pytest.raises(DataError, match=r"member deu.txt, line 2: a column is missing .*found 2: 'Run!\\tLauf!'\)"):
        extract(path, lines=3, member="deu.txt", format="tsv", column=3)


SGM = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="de">
<hl>
<seg id="1">Orlando Bloom and  Miranda Kerr\tstill love each other</seg>
</hl>
<p>
<seg id="2"> "R&amp;B" &quot;x&quot; &lt;seg&gt; </seg>
<seg id="3"></seg>
</p>
</doc>
</srcset>
"""


def test_segments_as_sacrebleu_reads_them(tmp_path: Path, extract: Extract) -> None:
    (tmp_path / "set.sgm").write_text(SGM)
    FakeSGMLDataset("set", langpairs={})._convert_format(str(tmp_path / "set.sgm"), str(tmp_path / "witness"))
    witness = (tmp_path / "witness").read_text().split("\n")[:-1]
    assert len(witness) == 3
    witness = [*map(html.unescape, witness)]  # of which sacreBLEU leaves `&quot;` to its tokeniser
    assert '"R&B" "x" <seg>' in witness
    assert list(sgm_segments(SGM.split("\n"))) == witness
    path = as_tar(tmp_path, {"test/set.sgm": SGM.encode()})
    assert extract(path, lines=3, member="test/set.sgm", format="sgm") == witness


def test_wrong_number_of_lines(tmp_path: Path, extract: Extract) -> None:
    path = as_zip(tmp_path, {"a.de": TEXT})
    assert len(extract(path, lines=None, member="a.de")) == 3000
    (tmp_path / "text").unlink()
    for expected in (2999, 3001):
        with pytest.raises(DataError, match=rf"member a.de: .*\(expected {expected} lines, found 3000 lines\)"):
            extract(path, lines=expected, member="a.de")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("pack", [as_zip, as_tar])
def test_missing_member(tmp_path: Path, extract: Extract, pack: Callable[..., Path]) -> None:
    path = pack(tmp_path, {"training/europarl-v7.de-en.de": TEXT, "README": b"x\n"})
    with pytest.raises(DataError, match=r"no such member .*found 2 members, such as training/europarl-v7.de-en.de"):
        extract(path, member="europarl-v7.de-en.de")


@pytest.mark.parametrize("kept", [0.3, 0.9])
@pytest.mark.parametrize("kind", ["zip", "tgz", "tar", "gz"])
def test_archives_that_were_cut_off(tmp_path: Path, extract: Extract, kind: str, kept: float) -> None:
    if kind == "gz":
        path, member = tmp_path / "corpus.gz", None
        path.write_bytes(gzip.compress(TEXT))
    else:
        member = "a.de"
        path = as_zip(tmp_path, {"a.de": TEXT}) if kind == "zip" else as_tar(tmp_path, {"a.de": TEXT}, suffix=kind)
    size = len(TEXT) if kind == "tar" else path.stat().st_size  # a tar ends in a lot of padding
    path.write_bytes(path.read_bytes()[: int(size * kept)])
    with pytest.raises(DataError) as raised:
        extract(path, **({"member": member} if member else {}))
    where, what = (f"{path}, member a.de", "archive") if member else (path, "file")
    assert str(raised.value).startswith(f"{where}: the {what} is damaged or cut off (found ")
    assert str(raised.value).endswith("). Next: delete it and fetch it again")
    assert list(tmp_path.iterdir()) == [path]


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
