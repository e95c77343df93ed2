"""Digests of code: what is code, what is not, and which module was edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from phrasemt.workflow import code
from phrasemt.workflow.code import code_digest

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
            (tmp_path / "phrasemt" / f"{name}.py").write_text(source)
        _forget()
        return code_digest("phrasemt.stage")

    (tmp_path / "phrasemt").mkdir()
    monkeypatch.setattr(code, "FOLDER_OF_PACKAGES", tmp_path)
    yield digest
    _forget()


def _forget() -> None:
    for function in (code_digest, code.module_path, code._code, code._imports, code._tree):
        function.cache_clear()


def test_comments_docstrings_and_layout_are_no_code(digest: Callable[..., str]) -> None:
    other = MODULE.replace("# why", "# another reason").replace("Says what.", "Says more.").replace("A stage.", "B.")
    assert digest(stage=other) == digest()
    assert digest(stage=MODULE.replace("double(number) + 1", "(double( number )\n        + 1)")) == digest()
    assert digest(helper='"""New."""\n\n\n' + HELPER) == digest()


def test_versions_of_python_agree(digest: Callable[..., str]) -> None:
    """Computed with Python 3.11; `make test-versions` asks others. Trees of f-strings and of classes differ most."""
    source = """class C[0]:
    def f(self, *, a=None, b: 'int' = 0x10, **more) -> str:
        match a:
            case {'é': [1, *rest]} if rest: return f'{a!r:>{b}} \\x00{"x"}' f'{b}'
        return f'{a=}' '' "it's" + '''two
lines'''
"""
    assert digest(helper=source.replace("C[0]", "C") + HELPER) == "9087d4fee21bf005"


def test_a_changed_formula_is_code_also_where_it_is_imported_from(digest: Callable[..., str]) -> None:
    assert digest(stage=MODULE.replace("+ 1", "+ 2")) != digest()
    assert digest(helper=HELPER.replace("2 *", "3 *")) != digest()


def test_modules_that_are_not_imported_do_not_matter(digest: Callable[..., str]) -> None:
    assert digest(stranger="X = 1\n") == digest(stranger="X = 2\n")
