"""Sidecars, and outputs that appear whole or not at all."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from phrasemt.artefacts.sidecar import DigestedFile, Origin, Sidecar, library_versions, produce, sidecar_path
from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.system import digest_file
from phrasemt.stages.subwords import LearnSubwords


def test_settings_have_one_text_whatever_the_order(tmp_path: Path) -> None:
    class Two(Settings):
        first: int
        second: str

    one, other = ({"first": 1, "second": "ä"}, {"second": "ä", "first": 1})
    assert Two.model_validate(one).canonical_json() == Two.model_validate(other).canonical_json()
    assert Two(first=1, second="ä").canonical_json() != Two(first=2, second="ä").canonical_json()


def _produce(tmp_path: Path, content: str = "text\n", *, fail: bool = False) -> Path:
    source, output = tmp_path / "in", tmp_path / "folder" / "out"
    source.write_text("input\n")
    made_of = Origin.of(
        "learn_subwords",
        inputs={"source": [source]},
        settings=LearnSubwords(merges=3),
        code="abc",
        versions=library_versions(("subword-nmt",)),
    )
    with produce(made_of, {"codes": output}) as unfinished:
        unfinished["codes"].write_text(content)
        assert unfinished["codes"].parent == output.parent, "renaming is atomic within one folder only"
        if fail:
            raise RuntimeError
    return output


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_artefact_and_its_sidecar(tmp_path: Path) -> None:
    output = _produce(tmp_path)
    assert output.read_text() == "text\n"
    sidecar = Sidecar.beside(output)
    assert sidecar.inputs["source"] == [DigestedFile(path=str(tmp_path / "in"), sha256=digest_file(tmp_path / "in"))]
    assert sidecar.outputs["codes"].sha256 == digest_file(output)
    assert sidecar.settings == LearnSubwords(merges=3).model_dump()
    assert (sidecar.stage, sidecar.code) == ("learn_subwords", "abc")
    assert {"phrasemt", "python", "subword-nmt"} == sidecar.versions.keys()


def test_the_same_work_gives_the_same_sidecar(tmp_path: Path) -> None:
    first = sidecar_path(_produce(tmp_path)).read_bytes()
    assert sidecar_path(_produce(tmp_path)).read_bytes() == first


def test_a_failure_leaves_the_old_artefact_and_nothing_else(tmp_path: Path) -> None:
    output = _produce(tmp_path)
    with pytest.raises(RuntimeError):
        _produce(tmp_path, "half", fail=True)
    assert output.read_text() == "text\n"
    assert _names(output.parent) == ["out", "out.meta.json"]


@pytest.mark.parametrize("step", [*itertools.product(["fsync", "replace"], [1, 2, 3, 4]), ("write_text", 1)])
def test_a_full_disk_leaves_no_output_without_its_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int]
) -> None:
    """Whichever step of the end it stops: what the system is asked to do then, by its name, and how often it was."""
    name, left = step
    owner = os if name == "fsync" else Path
    real = getattr(owner, name)

    def full(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    outputs = {name: tmp_path / "folder" / name for name in ("codes", "counts")}
    made_of = Origin.of("learn_subwords", inputs={}, settings=LearnSubwords(merges=3), code="abc")
    with pytest.raises(OSError, match="No space"), produce(made_of, outputs) as unfinished:  # noqa: PT012
        for path in unfinished.values():
            path.write_text("text\n")
        monkeypatch.setattr(owner, name, full)
    assert left <= 0
    assert not list((tmp_path / "folder").iterdir())


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".out.123.part").write_text("half")
    output = _produce(tmp_path)
    assert _names(output.parent) == ["out", "out.meta.json"]


@pytest.mark.parametrize("content", [None, b"{", b"{}", b"[]", b'{"format": 1, "settings": {}}'])
def test_a_missing_or_damaged_sidecar(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "out.meta.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"Next: delete (\S*/out|the file that it belongs to),? and run again"):
        Sidecar.beside(tmp_path / "out")
