"""One name everywhere: a stage is a row of the table, a rule, a subcommand, and a function of the same signature."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from phrasemt.cli import _parser
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.study.reading import load_study
from phrasemt.workflow.flow import Flow


def _rules(repository: Path) -> dict[str, str]:
    """The text of each rule, by name."""
    text = "\n".join(path.read_text() for path in sorted((repository / "rules").glob("*.smk")))
    parts = re.split(r"^rule (\w+):$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_stage_is_a_rule_and_every_rule_a_stage(repository: Path) -> None:
    assert sorted(_rules(repository)) == sorted(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_rule_takes_command_parameters_log_and_benchmark_from_its_stage(repository: Path, stage: str) -> None:
    rule = _rules(repository)[stage]
    assert f'    shell:\n        flow.command("{stage}")\n' in rule
    assert f'**flow.params("{stage}"),\n' in rule
    assert f'    log:\n        paths.log("{stage}"),\n' in rule
    assert f'    benchmark:\n        paths.benchmark("{stage}")\n' in rule


@pytest.mark.parametrize("stage", STAGES)
def test_a_rule_has_the_inputs_and_outputs_of_its_stage(repository: Path, stage: str) -> None:
    rule, declared = _rules(repository)[stage], STAGES[stage]
    for directive, names in (("input", declared.inputs), ("output", declared.outputs)):
        body = re.search(rf"^    {directive}:\n((?:        .*\n)*)", rule, flags=re.MULTILINE)
        found = re.findall(r"^        (\w+)=", body[1] if body else "", flags=re.MULTILINE)
        assert found == [name.rstrip("*") for name in names]


@pytest.mark.parametrize("stage", STAGES)
def test_the_command_has_all_flags_of_the_subcommand(repository: Path, stage: str) -> None:
    declared = STAGES[stage]
    command = Flow(load_study(repository / "config.yaml")).command(stage)
    # A stage that saves when it is asked to stop must be asked itself, not a shell around it.
    assert command.startswith(f"{'exec ' if declared.resumes else ''}python -m phrasemt {stage} ")
    (parser,) = (action.choices[stage] for action in _parser(stage)._actions if action.choices)
    flags = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    assert set(re.findall(r"--[a-z-]+", command)) == flags - {"--help"}
    names = [*declared.inputs, *declared.outputs]
    assert re.findall(r"\{(?:input|output)\.(\w+):q\}", command) == [name.rstrip("*") for name in names]


@pytest.mark.parametrize("stage", STAGES)
def test_a_rule_has_what_a_rule_has(repository: Path, stage: str) -> None:
    rule = _rules(repository)[stage]
    directives = re.findall(r"^    (\w+):", rule, flags=re.MULTILINE)
    assert {"output", "params", "log", "benchmark", "conda", "threads", "message", "shell"} <= set(directives)
    assert not {"run", "script"} & set(directives)
    if STAGES[stage].resumes:  # needs them in its command, so they have defaults
        assert re.findall(r"^        (\w+)=", rule.split("    resources:")[1].split("    params:")[0], flags=re.M) == [
            "nodes",
            "processes",
            "minutes",
        ]
    else:
        assert "resources" not in directives, "resources belong to the profiles"
    assert "lambda" not in rule
    assert "temp(" not in rule


@pytest.mark.parametrize(("name", "stage"), STAGES.items())
def test_the_function_of_a_stage_has_its_signature(repository: Path, name: str, stage: type[Stage]) -> None:
    tree = ast.parse((repository / Path(*stage.module.split("."))).with_suffix(".py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(functions) == 1, f"{stage.module} has no function {name}"
    arguments = functions[0].args
    expected = {"settings", "cores", *(entry.rstrip("*") for entry in (*stage.inputs, *stage.outputs, *stage.folders))}
    expected |= {"processes", "minutes"} if stage.resumes else set()
    assert not arguments.args, "all arguments are passed by name"
    assert {argument.arg for argument in arguments.kwonlyargs} == expected


def test_the_snakefile_is_a_contents_page(repository: Path) -> None:
    lines = (repository / "workflow" / "Snakefile").read_text().splitlines()
    assert len(lines) <= 60
    assert not [line for line in lines if re.match(r"\s*(def|for|if|while|lambda)\b", line)]
    included = [line for line in lines if line.startswith("include:")]
    assert len(included) == len(list((repository / "rules").glob("*.smk")))


def test_no_python_in_the_rules(repository: Path) -> None:
    for path in (repository / "rules").glob("*.smk"):
        found = [line for line in path.read_text().splitlines() if re.match(r"\s*(def|for|if|import|from)\b", line)]
        assert not found, f"{path.name}: {found}"
