"""An output that is made in parts goes on where it was, if input, model and settings are the same."""

from __future__ import annotations

import pytest

from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.files.continued import continued_output

LINES = [b"a", b"", b"c", b"d", b"e"]
BLOCKS = [LINES[:2], LINES[2:4], LINES[4:]]
WHOLE = b"A\n\nC\nD\nE\n"


class KilledError(Exception):
    pass


def _work(path, blocks, *, made_of="model 1", killed_at=None):
    """Write capitals; returns the lines that had to be done."""
    done = []
    with continued_output(path, made_of) as output:
        for number, block in enumerate(output.left(blocks)):
            if number == killed_at:
                raise KilledError
            done += block
            output.add(block, b"".join(line.upper() + b"\n" for line in block))
    return done


def _interrupted(path):
    with pytest.raises(KilledError):
        _work(path, BLOCKS, killed_at=2)
    assert not path.exists()
    return path


def test_an_uninterrupted_output_leaves_nothing_beside(tmp_path):
    assert _work(tmp_path / "out", BLOCKS) == LINES
    assert (tmp_path / "out").read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("blocks", [BLOCKS, [LINES], [[line] for line in LINES]], ids=["same", "one", "single"])
def test_an_interrupted_output_goes_on_behind_the_last_whole_part(tmp_path, blocks):
    path = _interrupted(tmp_path / "out")
    with (tmp_path / "out.part").open("ab") as stream:
        stream.write(b"half a li")  # of a part that the kill cut off
    assert _work(path, blocks) == [b"e"]
    assert path.read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("made_of", "blocks", "message"),
    [
        ("model 2", BLOCKS, "of another model or of other settings"),
        ("model 1", [[b"a", b"", b"x", b"d", b"e"]], "of other input is here; it has 4 lines"),
        ("model 1", [[b"a", b""]], "of other input is here"),
    ],
)
def test_other_input_or_settings_are_refused_and_nothing_is_lost(tmp_path, made_of, blocks, message):
    path = _interrupted(tmp_path / "out")
    kept = (tmp_path / "out.part").read_bytes()
    with pytest.raises(MismatchError, match=message):
        _work(path, blocks, made_of=made_of)
    assert (tmp_path / "out.part").read_bytes() == kept == b"A\n\nC\nD\n"


def test_a_damaged_note_is_refused(tmp_path):
    path = _interrupted(tmp_path / "out")
    (tmp_path / "out.part.json").write_text("{")
    with pytest.raises(MismatchError, match=r"delete out\.part and out\.part\.json"):
        _work(path, BLOCKS)


def test_two_commands_never_write_one_output(tmp_path):
    with continued_output(tmp_path / "out", 1), pytest.raises(PhrasemtError, match="another process writes this file"):
        _work(tmp_path / "out", BLOCKS)
