"""Outputs in the folder that studies share: whole, damaged, out of reach."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from phrasemt.artefacts.sidecar import Origin
from phrasemt.files.system import digest_file
from phrasemt.workflow.run_stage import copy_shared, share, shared_folder

OUTPUTS = ("tagger", "scores")


def _origin(**changes: object) -> Origin:
    made_of = {"stage": "train_tagger", "settings": {"seed": 1}, "code": "c", "versions": {"stanza": "1"}}
    inputs = {"train": [{"path": "a/train.trees", "sha256": "s"}]}
    return Origin.model_validate({**made_of, "inputs": inputs, **changes})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHRASEMT_CACHE", str(tmp_path / "cache"))
    for name in OUTPUTS:
        (tmp_path / name).write_text(name)
    found = shared_folder(_origin())
    assert found is not None
    share(found, {name: tmp_path / name for name in OUTPUTS}, {name: digest_file(tmp_path / name) for name in OUTPUTS})
    return found


def _copies(tmp_path: Path) -> dict[str, Path]:
    return {name: tmp_path / f"copy.{name}" for name in OUTPUTS}


def test_equal_work_in_another_place_is_copied(folder: Path, tmp_path: Path) -> None:
    assert shared_folder(_origin(inputs={"train": [{"path": "b/train.trees", "sha256": "s"}]})) == folder
    assert copy_shared(folder, _copies(tmp_path))
    assert [path.read_text() for path in _copies(tmp_path).values()] == list(OUTPUTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"seed": 2}},
        {"code": "d"},
        {"versions": {"stanza": "2"}},
        {"inputs": {"train": [{"path": "a/train.trees", "sha256": "t"}]}},
        {"inputs": {"dev": [{"path": "a/train.trees", "sha256": "s"}]}},
    ],
)
def test_other_work_is_not_copied(folder: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    other = shared_folder(_origin(**changes))
    assert other is not None
    assert other != folder
    assert not copy_shared(other, _copies(tmp_path))


@pytest.mark.parametrize("name", [*OUTPUTS, "sha256.json"])
def test_a_damaged_file_is_not_copied(
    folder: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / name).write_text("[]")
    assert not copy_shared(folder, _copies(tmp_path))
    assert not any(path.exists() for path in _copies(tmp_path).values())
    assert "it is trained" in caplog.text
    share(folder, {one: tmp_path / one for one in OUTPUTS}, {one: digest_file(tmp_path / one) for one in OUTPUTS})
    assert copy_shared(folder, _copies(tmp_path))


def test_a_folder_out_of_reach_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    (tmp_path / "tagger").write_text("t")
    with caplog.at_level(logging.WARNING):
        share(tmp_path / "file" / "trained" / "key", {"tagger": tmp_path / "tagger"}, {"tagger": "0"})
    assert "the shared folder cannot be used" in caplog.text


def test_without_a_shared_folder_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHRASEMT_CACHE", raising=False)
    assert shared_folder(_origin()) is None
