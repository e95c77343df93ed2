"""Digests of code, and outputs that appear whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.files.sidecars import origin, produce, read_sidecar, sidecar_path
from phrasemt.settings import LearnSubwordsSettings
from phrasemt.workflow import provenance
from phrasemt.workflow.code import code_digest, edited_since_read, module_digests

MODULE = '''"""A stage."""

from phrasemt.helper import double


def stage(number: int) -> int:
    """Says what."""
    return double(number) + 1  # why
'''
HELPER = "def double(number):\n    return 2 * number\n"


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The digest of a stage in a package of these sources."""

    def digest(**sources: str) -> str:
        for name, source in {"stage": MODULE, "helper": HELPER, **sources}.items():
            (tmp_path / f"{name}.py").write_text(source)
        _forget()
        return code_digest("phrasemt.stage")

    monkeypatch.setattr(provenance, "PACKAGE_FOLDER", tmp_path)
    yield digest
    _forget()


def _forget() -> None:
    for function in (code_digest, provenance._code, provenance._imports, provenance._tree):
        function.cache_clear()


def test_comments_docstrings_and_layout_are_no_code(digest: Callable[..., str]) -> None:
    other = MODULE.replace("# why", "# another reason").replace("Says what.", "Says more.").replace("A stage.", "B.")
    assert digest(stage=other) == digest()
    assert digest(stage=MODULE.replace("double(number) + 1", "(double( number )\n        + 1)")) == digest()
    assert digest(helper='"""New."""\n\n\n' + HELPER) == digest()


def test_a_changed_formula_is_code_also_where_it_is_imported_from(digest: Callable[..., str]) -> None:
    assert digest(stage=MODULE.replace("+ 1", "+ 2")) != digest()
    assert digest(helper=HELPER.replace("2 *", "3 *")) != digest()


def test_an_edited_module_is_named(digest: Callable[..., str]) -> None:
    digest()
    before = module_digests("phrasemt.stage")
    digest(helper=HELPER.replace("2 *", "3 *"))
    now = module_digests("phrasemt.stage")
    assert {module for module in now if now[module] != before[module]} == {"phrasemt.helper"}
    assert before.keys() == now.keys() == {"phrasemt.stage", "phrasemt.helper"}


def test_a_module_edited_after_it_was_read_is_seen(digest: Callable[..., str], tmp_path: Path) -> None:
    digest()
    modules = ("phrasemt.stage", "phrasemt.helper")
    assert edited_since_read(*modules) == []
    (tmp_path / "helper.py").write_text(HELPER + "# even a comment\n")
    assert edited_since_read(*modules) == ["phrasemt.helper"]


def test_modules_that_are_not_imported_do_not_matter(digest: Callable[..., str]) -> None:
    assert digest(stranger="X = 1\n") == digest(stranger="X = 2\n")


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
    made_of = origin(
        "learn_subwords",
        inputs={"source": [source]},
        settings=LearnSubwordsSettings(merges=3),
        code="abc",
        libraries=("subword-nmt",),
    )
    with produce(made_of, {"codes": output}) as unfinished:
        unfinished.paths["codes"].write_text(content)
        assert unfinished.paths["codes"].parent == output.parent, "renaming is atomic within one folder only"
        if fail:
            raise RuntimeError
    return output


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_artefact_and_its_sidecar(tmp_path: Path) -> None:
    output = _produce(tmp_path)
    assert output.read_text() == "text\n"
    sidecar = read_sidecar(output)
    assert sidecar["inputs"]["source"] == [{"path": str(tmp_path / "in"), "sha256": digest_file(tmp_path / "in")}]
    assert sidecar["outputs"]["codes"]["sha256"] == digest_file(output)
    assert sidecar["settings"] == {"merges": 3}
    assert (sidecar["stage"], sidecar["code"]) == ("learn_subwords", "abc")
    assert {"phrasemt", "python", "subword-nmt"} == sidecar["versions"].keys()


def test_the_same_work_gives_the_same_sidecar(tmp_path: Path) -> None:
    first = sidecar_path(_produce(tmp_path)).read_bytes()
    assert sidecar_path(_produce(tmp_path)).read_bytes() == first


def test_a_failure_leaves_the_old_artefact_and_nothing_else(tmp_path: Path) -> None:
    output = _produce(tmp_path)
    with pytest.raises(RuntimeError):
        _produce(tmp_path, "half", fail=True)
    assert output.read_text() == "text\n"
    assert _names(output.parent) == ["out", "out.meta.json"]


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".out.123.part").write_text("half")
    output = _produce(tmp_path)
    assert _names(output.parent) == ["out", "out.meta.json"]


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"{}", b"[]", b"12", b'{"settings": {}}'])
def test_a_missing_or_damaged_sidecar(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "out.meta.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match="no readable sidecar") as caught:
        read_sidecar(tmp_path / "out")
    assert f"Next: delete {tmp_path / 'out'} and run again" in str(caught.value)


def test_settings_with_unknown_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="merge"):
        LearnSubwordsSettings.model_validate_json(json.dumps({"merges": 3, "merge": 3}))
