"""What every source file keeps: a docstring, a readable length, and no torch where none is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from phrasemt.commands import COMMANDS
from phrasemt.stages import STAGES

MOST_LINES = 600
# The command line asks these of a stage before it does anything; they must not wait for torch (about two seconds).
WITHOUT_TORCH = [
    "phrasemt.cli",
    "phrasemt.commands.plan",
    "phrasemt.commands.status",
    "phrasemt.runs.start",
    "phrasemt.workflow.flow",
    "phrasemt.workflow.run_stage",
    "phrasemt.stages",
    "phrasemt.study.schema",
    "phrasemt.study.reading",
]


def _sources(repository: Path) -> list[Path]:
    return sorted(path for name in ("phrasemt", "democorpus", "tests") for path in (repository / name).rglob("*.py"))


def test_every_file_says_what_it_is(repository: Path) -> None:
    silent = [
        str(path.relative_to(repository))
        for path in _sources(repository)
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not silent, f"no module docstring: {silent}"


def test_no_file_is_too_long(repository: Path) -> None:
    lengths = {path.relative_to(repository): len(path.read_text().splitlines()) for path in _sources(repository)}
    assert not {str(path): length for path, length in lengths.items() if length >= MOST_LINES}


def test_neither_the_command_line_nor_a_text_stage_imports_torch() -> None:
    folders = ("corpus", "text", "syntax", "scoring", "moses", "report")
    stages = {stage.module for stage in STAGES.values() if stage.module.split(".")[1] in folders}
    assert len(stages) > 12
    for modules in (WITHOUT_TORCH, sorted(stages)):
        code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, modules


def test_help_needs_neither_torch_nor_libraries_of_arrays() -> None:
    code = (
        "import sys\n"
        "from phrasemt.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'numpy', 'pyarrow', 'snakemake', 'stanza'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)
