"""Lines of a stream in blocks: whole blocks of a file, and what a pipe holds."""

from __future__ import annotations

import os

import pytest

from phrasemt.errors import DataError
from phrasemt.files.lines import blocks_of_lines


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


def test_a_file_without_line_breaks_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"fine\n" + b"x" * 3_000_000)
    with (tmp_path / "binary").open("rb") as stream, pytest.raises(DataError, match=r"binary, line 2: .* too long"):
        list(blocks_of_lines(stream.fileno(), "binary", lines=10))
