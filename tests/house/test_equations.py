"""The equations that a model family or an attention claims are those its code marks."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NOT_FAMILIES = {"__init__", "interface", "weights", "cost", "ctranslate2_export"}
FAMILIES = sorted(path for path in (REPOSITORY / "phrasemt" / "models").glob("*.py") if path.stem not in NOT_FAMILIES)
ATTENTIONS = [REPOSITORY / "phrasemt" / "nn" / f"{name}_attention.py" for name in ("relative", "ngram")]

EQUATION = re.compile(r"Eqs?\. \(([0-9]+)(?:-([0-9]+))?\)")


def _numbers(text: str) -> set[int]:
    """Numbers in "Eq. (4)" and "Eqs. (3-5)"."""
    spans = [(int(first), int(last or first)) for first, last in EQUATION.findall(text)]
    return {number for first, last in spans for number in range(first, last + 1)}


def _claimed(docstring: str) -> set[int]:
    """The equations under the heading "Equations", one at the start of each line."""
    section = re.search(r"^Equations\b[^\n]*\n((?:[ \t]+[^\n]*\n|\n)+)", docstring + "\n", flags=re.MULTILINE)
    assert section, 'the docstring has no section "Equations"'
    return _numbers("\n".join(line for line in section.group(1).splitlines() if line.lstrip().startswith("Eq")))


def _comments(path: Path) -> str:
    with path.open("rb") as stream:
        return "\n".join(token.string for token in tokenize.tokenize(stream.readline) if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("path", [*FAMILIES, *ATTENTIONS], ids=lambda path: path.stem)
def test_the_equation_map_is_that_of_the_code(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None
    claimed, marked = _claimed(docstring), _numbers(_comments(path))
    assert claimed, "a family computes at least one equation of its paper"
    assert claimed == marked, f"in the docstring {sorted(claimed)}, marked in the code {sorted(marked)}"
