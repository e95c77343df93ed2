"""docs/adding-a-system.md as it is: its blocks become files, and its commands run in a copy of the repository.

What the documents say about additions is enough: a copy of the checkout with a family, a paper, a key of a study, a
metric and a stage of its own passes the tests that look at all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from workplace import Workplace, copy_tracked

DOCUMENTS = Path(__file__).parents[2] / "docs"
PAGE = DOCUMENTS / "adding-a-system.md"


def write_files_of(page: Path, folder: Path) -> None:
    """The files that a page shows, each below a heading with its path."""
    shown = re.findall(r"^## The \w+: (\S+)$.*?^```\w+\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    for path, block in shown:
        assert not (folder / path).exists()
        (folder / path).write_text(block)


@pytest.fixture
def commands(repository: Path, tmp_path: Path) -> list[str]:
    """The commands of the page, to be run in `tmp_path`, which has the files of the page."""
    Workplace.new(repository, tmp_path)
    (tmp_path / "studies").mkdir()
    (tmp_path / ".venv").symlink_to(sys.prefix)
    write_files_of(PAGE, tmp_path)
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def run(command: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in the activated .venv; it must end with this exit code."""
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": str(folder), "PATH": path}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def test_the_system_of_the_page_is_described_and_its_keys_are_checked(commands: list[str], tmp_path: Path) -> None:
    check, describe, *_ = commands
    # The window takes no parameters: 1.00 times the multiply-adds of the baseline.
    assert re.search(r"^base, the baseline .* x 1\.00$", run(describe, tmp_path).stdout, re.MULTILINE)
    study = tmp_path / "studies" / "window-attention.yaml"
    study.write_text(study.read_text().replace("window: 4", "window: 0, windows: 3"))
    refused = run(check, tmp_path, code=2).stderr
    assert "systems.window.model.window: found 0, expected greater than 0" in refused
    assert "systems.window.model.windows: unknown key; did you mean 'window'?; allowed: family, width, " in refused


@pytest.mark.slow
def test_the_page_leads_to_a_table(commands: list[str], tmp_path: Path) -> None:
    printed = [run(command, tmp_path).stdout for command in commands]
    assert "systems: base, window" in printed[0]
    assert "window: 4" in (tmp_path / "micro.yaml").read_text()
    assert "  Window of 4 tokens " in printed[-1]


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("def near(mask", "def near((mask", r"line \d+: SyntaxError: "),
        pytest.param("window: Positions", "window: Position", "name 'Position' is not defined", marks=pytest.mark.slow),
        pytest.param("def build(", "def built(", "no function build, which makes the model", marks=pytest.mark.slow),
        ("distances_TT == 0)", "distances_TT[1:] == 0)", r"line \d+, in near: RuntimeError: "),
        pytest.param("    return Transformer(", "    return dict(", "AttributeError: ", marks=pytest.mark.slow),
    ],
)
def test_a_mistake_in_the_family_is_told_by_file_and_line(
    commands: list[str], tmp_path: Path, right: str, wrong: str, told: str
) -> None:
    family = tmp_path / "phrasemt" / "models" / "window_attention.py"
    text = family.read_text()
    assert right in text
    family.write_text(text.replace(right, wrong))
    said = run(commands[0], tmp_path, code=2).stderr
    assert re.search(rf"models/window_attention\.py(: |, )({told})", said), said
    assert "Traceback" not in said
    assert "report it" not in said


# A stage, as docs/architecture.md describes one: its function, declaration, kind of file and rule.
FUNCTION = '''"""The stage `count_lines`: the number of lines of a cleaned text."""

from __future__ import annotations

from pathlib import Path

from phrasemt.files.lines import write_text
from phrasemt.stages.corpus import CountLines


def count_lines(*, settings: CountLines, cores: int, text: Path, number: Path) -> None:
    """Write the number of lines, at most `settings.most`."""
    write_text(number, f"{min(settings.most, text.read_bytes().count(bytes([10])))}\\n")
'''
DECLARATION = '''

class CountLines(Stage):
    """Count the lines of a cleaned text."""

    module = "phrasemt.corpus.count_lines"
    inputs = named("text")
    outputs = files(number=Paths.line_count)

    most: int = of(lambda job: job.study.comparison.most_lines)
'''
RULE = """

rule count_lines:
    input:
        text=paths.clean_text,
    output:
        number=paths.line_count,
    log:
        flow.log("count_lines"),
    benchmark:
        flow.benchmark("count_lines")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("count_lines"),
    message:
        "Count the lines of {wildcards.dataset} {wildcards.split}"
    shell:
        flow.command("count_lines")
"""
KEY = '    most_lines: Positions = Field(9, description="number of lines above which nothing is counted")\n'
# Tests that read the registry, the schema, all settings, stages, studies, papers or documents; without budget and
# picture of the rules, which a person raises and draws.
LOOK_AT_ALL = (
    *("tests/unit/study", "tests/unit/test_stages.py", "tests/unit/registry", "tests/unit/workflow"),
    *("tests/unit/printed", "tests/cli/test_study_errors.py", "tests/cli/test_scale_command.py"),
    *("tests/numerics/test_parameter_counts.py", "tests/house/test_commands.py", "tests/house/test_documents.py"),
    *("tests/house/test_equations.py", "tests/house/test_rules.py", "tests/house/test_settings_are_data.py"),
    *("tests/house/test_environments.py", "tests/house/test_sources.py"),
)


@pytest.mark.slow
def test_additions_as_documented_leave_the_tests_green(repository: Path, tmp_path: Path) -> None:
    copy_tracked(repository, tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)

    def add(path: str, text: str, *, before: str | None = None) -> None:
        file = tmp_path / path
        content = file.read_text() if file.exists() else ""
        place = content.index(before) if before else len(content)
        file.parent.mkdir(exist_ok=True)
        file.write_text(content[:place] + text + content[place:])

    write_files_of(PAGE, tmp_path)
    write_files_of(DOCUMENTS / "adding-a-paper.md", tmp_path)
    metric = (DOCUMENTS / "howto" / "own-metric.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", metric, re.MULTILINE | re.DOTALL)
    add("metrics/words.py", program)
    *_, section = re.findall(r"^```yaml\n(.*?)^```$", metric, re.MULTILINE | re.DOTALL)
    add("studies/window-attention.yaml", "comparison: {most_lines: 5}\n")
    add("mine.yaml", f"{(tmp_path / 'studies' / 'window-attention.yaml').read_text()}\n{section}")
    add("phrasemt/study/schema.py", KEY, before="    samples: ")
    add("phrasemt/artefacts/paths.py", '    line_count = _of_dataset("corpus/{split}.{language}.lines")\n\n',
        before="    tokens = ")  # fmt: skip
    add("phrasemt/corpus/count_lines.py", FUNCTION)
    add("phrasemt/stages/corpus.py", DECLARATION)
    add("rules/corpus.smk", RULE)
    show = "from phrasemt.study.reading import study_schema; print(study_schema(), end='')"
    run(f'python -c "{show}" > workflow/schemas/study.schema.json', tmp_path)
    run("phrasemt check mine.yaml", tmp_path)
    run("phrasemt papers li2022", tmp_path)
    run(
        "git init -q && git add -A && ruff check phrasemt && ruff format --check phrasemt && snakefmt --check rules",
        tmp_path,
    )
    run(f"pytest -x -m 'not slow' -p no:cacheprovider {' '.join(LOOK_AT_ALL)}", tmp_path)
