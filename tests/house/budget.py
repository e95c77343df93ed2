"""The size of the project, counted for each room, and the budget that only falls.

`python tests/house/budget.py` (`make budget`) lowers each number of `budget.yaml` to what is counted now. It never
raises one: that takes a line in CHANGELOG.md and the same number from another room (CONTRIBUTING.md).
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import yaml

from phrasemt import artefacts
from phrasemt.commands import COMMANDS
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("budget.yaml")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_VARIABLE = re.compile(r"PHRASEMT_[A-Z_]+")


def lines_of_code(source: str) -> int:
    """The number of lines with a token of code: no blank line, comment or docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
                    docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def count() -> dict[str, int]:
    """What is counted now, by the names of the table: lines of code of each room, then numbers of the whole project."""
    files = [ROOT / name for name in _tracked()]
    python = [path for path in files if path.suffix == ".py"]
    lines: Counter[str] = Counter()
    for path in python:
        lines[_room(path.relative_to(ROOT))] += lines_of_code(path.read_text(encoding="utf-8"))
    lines["rules"] = sum(_lines_of_rules(path) for path in files if path.suffix == ".smk" or path.name == "Snakefile")
    package = [path for path in python if path.is_relative_to(ROOT / "phrasemt")]
    schema = Study.model_json_schema()
    sources = [path.read_text(encoding="utf-8") for path in files if _reads_the_environment(path.relative_to(ROOT))]
    return dict(sorted(lines.items())) | {
        "all lines of the package": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in package),
        "files of the package": len(package),
        "keys of a study": sum(len(one.get("properties", {})) for one in (schema, *schema["$defs"].values())),
        "commands": len(COMMANDS),
        "stages": len(STAGES),
        "kinds of artefacts": len(artefacts.kinds()),
        "environment variables": len({name for source in sources for name in _VARIABLE.findall(source)}),
    }


def _tracked() -> Iterable[str]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    return (name for name in listed.splitlines() if (ROOT / name).exists())


def _room(path: Path) -> str:
    """A folder of the package, a module of its top, or what stands beside the package."""
    if path.parts[0] == "phrasemt":
        return f"phrasemt/{path.parts[1]}" if len(path.parts) > 2 else "phrasemt/*.py"
    return path.parts[0]


def _lines_of_rules(path: Path) -> int:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def _reads_the_environment(path: Path) -> bool:
    return path.parts[0] in ("phrasemt", "rules", "workflow", "profiles", "Makefile") and path.suffix != ".json"


def lower() -> None:
    """Lower the numbers of the table to what is counted now; drop rooms that are gone, add rooms that are new."""
    old = yaml.safe_load(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    counted = {name: min(number, old.get(name, number)) for name, number in count().items()}
    TABLE.write_text("".join(f"{name}: {number}\n" for name, number in counted.items()), encoding="utf-8")


if __name__ == "__main__":
    lower()
