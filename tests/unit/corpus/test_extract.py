"""One side out of every kind of container, and one clear error for every kind of damage."""

from __future__ import annotations

import gzip
import html
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from stage_settings import extracting, register

from phrasemt.corpus.extract import extract_text, sgm_segments
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines

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
