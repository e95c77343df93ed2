"""Line ends, strict pairs, spaces, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import gzip
import json
import os
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from phrasemt.corpus.contrastive_pairs import read_contrastive_pairs
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.lines import (
    LONGEST_LINE,
    blocks_of_lines,
    bounded_lines,
    count_lines,
    decode_lines,
    new_folder,
    read_blocks,
    read_lines,
    read_parallel,
    remove_leftovers,
    write_atomic,
    write_text,
)
from phrasemt.files.preprocessing import comparable, normalise_spaces
from phrasemt.syntax.conll import read_conll
from phrasemt.syntax.trees import read_treebank

# Each of these ends a line for str.splitlines and must not end one here.
INSIDE_A_LINE = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]


@pytest.mark.parametrize("character", INSIDE_A_LINE)
def test_only_line_feeds_end_lines(tmp_path: Path, character: str) -> None:
    text = f"one{character}still one\ntwo\n"
    assert len(text.splitlines()) > 2
    (tmp_path / "text").write_bytes(text.encode())
    assert list(read_lines(tmp_path / "text")) == [f"one{character}still one", "two"]
    assert count_lines(tmp_path / "text") == 2


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\n\n", ["a", ""]), (b"a\nb", ["a", "b"])],
)
def test_the_last_line(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "text").write_bytes(data)
    assert list(read_lines(tmp_path / "text")) == lines
    assert count_lines(tmp_path / "text") == len(lines)


@pytest.mark.parametrize("damaged", range(3))
def test_of_several_files_the_damaged_one_is_named(tmp_path: Path, damaged: int) -> None:
    paths = [tmp_path / f"text.{number}.gz" for number in range(3)]
    for number, path in enumerate(paths):
        data = gzip.compress(b"".join(b"line %d\n" % line for line in range(5000)))
        path.write_bytes(data[: len(data) // 2] if number == damaged else data)
    with pytest.raises(DataError, match="the compressed file is damaged or cut off") as raised:
        list(read_parallel(*paths))
    assert str(raised.value).startswith(f"{paths[damaged]}: ")


READERS: dict[str, Callable[[Path], Iterable[object]]] = {
    "lines": read_lines,
    "blocks": lambda path: [block.lines() for block in read_blocks(path)],
    "parallel": lambda path: read_parallel(path, path),
    "stream": lambda path: decode_lines(bounded_lines(path.open("rb"), path), path),
}


@pytest.mark.parametrize("reader", READERS)
def test_the_longest_line(tmp_path: Path, reader: str) -> None:
    """A compressed file of one line, such as a damaged corpus, would fill the memory: 1 MB of it becomes 1 GB."""
    (tmp_path / "fits").write_bytes(b"a\n" + b"b" * LONGEST_LINE + b"\n" + b"c" * LONGEST_LINE)
    assert len([*READERS[reader](tmp_path / "fits")]) >= 2
    for name, begin in (("first.gz", b""), ("second.gz", b"a\n"), ("late.gz", b"a" * 200_000 + b"\n")):
        data = gzip.compress(begin + b"b" * 40_000_000, 1)
        path = tmp_path / (name if reader != "stream" else Path(name).stem)
        path.write_bytes(data if reader != "stream" else begin + b"b" * 2_000_000)
        tracemalloc.start()
        with pytest.raises(DataError, match=f"{path}, line {begin.count(10) + 1}: this line is too long"):
            list(READERS[reader](path))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("read", "content"),
    [
        *((reader, "a\nb\n") for reader in READERS.values()),
        (read_treebank, "(S (NN a))\n"),
        (read_conll, "a\tB-NP\n\n"),
        (lambda path: read_contrastive_pairs([path]), "a\tb\tc\n"),
    ],
)
def test_a_byte_order_mark_is_no_text(tmp_path: Path, read: Callable[[Path], Iterable[object]], content: str) -> None:
    for name, mark in (("plain", ""), ("marked", "\ufeff")):
        (tmp_path / name).write_text(mark + content, encoding="utf-8")
    assert list(read(tmp_path / "marked")) == list(read(tmp_path / "plain"))
    (tmp_path / "inside").write_text("a\n\ufeffb\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "inside")) == ["a", "\ufeffb"], "a mark elsewhere is left to the normalisation"


def test_a_byte_order_mark_before_json(tmp_path: Path) -> None:
    sentence = {"source": "a", "reference": "b", "errors": [{"type": "x", "contrastive": "c"}]}
    (tmp_path / "pairs.json").write_text("\ufeff" + json.dumps([sentence]), encoding="utf-8")
    assert [pair.wrong for pair in read_contrastive_pairs([tmp_path / "pairs.json"])] == ["c"]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        list(read_lines(tmp_path / "nothing"))
    assert str(raised.value) == f"{tmp_path / 'nothing'}: no such file. Next: check the path"


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin1"
    path.write_bytes("eins\nzwölf\n".encode("latin-1"))
    with pytest.raises(DataError) as raised:
        list(read_lines(path))
    assert str(raised.value) == (
        f"{path}, line 2, byte 3: not UTF-8 (expected UTF-8 text, found bytes f6 6c 66 0a). "
        "Next: convert the file to UTF-8 (iconv) or remove the line on both sides"
    )


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [("a\nb\n", "a\n", "2 and 1"), ("a\n", "a\nb\n", "1 and 2"), ("a\n\n", "a\n", "2 and 1"), ("a\n", "", "1 and 0")],
)
def test_sides_of_unequal_length(tmp_path: Path, source: str, target: str, counts: str) -> None:
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text)
    with pytest.raises(DataError) as raised:
        list(read_parallel(*paths))
    assert str(raised.value) == (
        f"{paths[0]}, {paths[1]}: the sides of a parallel text have unequal numbers of lines (expected the same number "
        f"of lines in each file, found {counts}). "
        "Next: restore the missing line; phrasemt never cuts the longer side"
    )


def test_devices_pipes_and_folders_are_not_replaced(tmp_path: Path) -> None:
    """As root, a rename to /dev/null would take the device away from all programs."""
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder):
        with pytest.raises(PhrasemtError, match="a finished file would replace what is here"):
            write_text(path, "text")
    assert sorted(tmp_path.iterdir()) == [folder, pipe]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\n", [[b"a"]]),
        (b"a", [[b"a"]]),
        (b"\n\n", [[b"", b""]]),
        (b"a\nb\nc\nd\ne", [[b"a", b"b"], [b"c", b"d"], [b"e"]]),
        (b"a\r\nb\x00\x85\n", [[b"a\r", b"b\x00\x85"]]),
    ],
)
def test_a_file_comes_in_whole_blocks(tmp_path, content, expected):
    (tmp_path / "text").write_bytes(content)
    with (tmp_path / "text").open("rb") as stream:
        blocks = list(blocks_of_lines(stream.fileno(), "text", lines=2))
    assert [line for block in blocks for line in block] == [line for block in expected for line in block]
    assert [len(block) for block in blocks] == [len(block) for block in expected] or len(expected) == 1


def test_a_pipe_gives_what_it_holds_and_is_not_waited_for():
    read, write = os.pipe()
    blocks = blocks_of_lines(read, "pipe", lines=100)
    os.write(write, b"one\ntwo\nunfin")
    assert next(blocks) == [b"one", b"two"]  # would hang if it waited for the third line
    os.write(write, b"ished\n")
    assert next(blocks) == [b"unfinished"]
    os.write(write, b"last")
    os.close(write)
    assert list(blocks) == [[b"last"]]
    os.close(read)


ALL_CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def test_every_character_between_two_words() -> None:
    """Witness: the categories of Unicode. Zs, Zl, Zp are its white space, Cc its control characters."""
    for character in ALL_CHARACTERS:
        spaces = unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc") or character == "\ufeff"
        assert normalise_spaces(f"a{character}b") == ("a b" if spaces else f"a{character}b"), hex(ord(character))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" \t\u2028\x0c", ""),
        ("\ufeffHallo  Welt\r", "Hallo Welt"),
        ("ein\x0czwei\x85drei\x00vier", "ein zwei drei vier"),
        ("\u200b \u200e\u3164", ""),
    ],
)
def test_examples(line: str, expected: str) -> None:
    assert normalise_spaces(line) == expected


def test_comparisons_ignore_every_format_character() -> None:
    """Witness: the category Cf of Unicode, without the signs of Arabic and other scripts that are visible."""
    formats = [character for character in ALL_CHARACTERS if unicodedata.category(character) == "Cf"]
    kept = [character for character in formats if comparable(f"{character}é {character} {character}f") != "é f"]
    visible = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN")
    assert all(unicodedata.name(character).startswith(visible) and character != "\u061c" for character in kept)
    assert len(formats) - len(kept) > 130


def test_only_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    def old(path: Path) -> None:
        os.utime(path, (1, 1))

    file, folder = tmp_path / "out", tmp_path / "model"
    others = [tmp_path / ".out.txt.12.part", tmp_path / ".other.12.part"]
    (tmp_path / ".model.12.part").mkdir()
    for path in (tmp_path / ".out.12.part", tmp_path / ".model.12.part" / "weights", *others):
        path.touch()
    for path in tmp_path.iterdir():
        old(path)
    fresh = tmp_path / ".out.13.part"
    fresh.touch()
    with write_atomic(file) as stream, new_folder(folder) as unfinished:
        old(Path(stream.name))
        old(unfinished)
        for path in (file, folder):
            remove_leftovers(path)
        assert set(tmp_path.iterdir()) == {fresh, Path(stream.name), unfinished, *others}
    assert set(tmp_path.iterdir()) == {fresh, file, folder, *others}


def test_an_error_of_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too large") as caught, write_atomic(tmp_path / "out"):
        raise OSError(errno.EFBIG, "File too large")
    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())
