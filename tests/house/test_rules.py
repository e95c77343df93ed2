"""One name everywhere: a stage is a class, a function and a rule, and its files are parameters of the function."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from phrasemt.artefacts.paths import Paths
from phrasemt.stages import STAGES


def _rules(repository: Path) -> dict[str, str]:
    """The text of each rule, by name."""
    text = "\n".join(path.read_text() for path in sorted((repository / "rules").glob("*.smk")))
    parts = re.split(r"^rule (\w+):$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_stage_is_a_rule_and_every_rule_a_stage(repository: Path) -> None:
    assert sorted(_rules(repository)) == sorted(STAGES)


def test_a_function_takes_the_files_that_its_stage_declares(repository: Path) -> None:
    """Read from the source, because an import of all functions would load torch."""
    for name, stage in STAGES.items():
        tree = ast.parse((repository / Path(*stage.module.split("."))).with_suffix(".py").read_text())
        (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
        given = {
            one.arg: ast.unparse(one.annotation).replace("Sequence", "list")
            for one in function.args.kwonlyargs
            if one.annotation
        }
        declared = {file.name: "list[Path]" if file.many else "Path" for file in stage.stage_files()}
        machine = {"cores": "int"} | ({"processes": "int", "minutes": "float"} if stage.resumes else {})
        assert given.pop("settings") in [one.__name__ for one in stage.__mro__], name
        assert given == {**machine, **declared}, name


def test_a_rule_connects_the_files_of_its_stage(repository: Path) -> None:
    """Everything else of a rule comes from its stage: the command, the parameters, log and benchmark."""
    for stage, rule in _rules(repository).items():
        declared = STAGES[stage]
        for directive in ("input", "output"):
            body = re.search(rf"^    {directive}:\n((?:        .*\n)*)", rule, flags=re.MULTILINE)
            found = re.findall(r"^        (\w+)=", body[1] if body else "", flags=re.MULTILINE)
            assert sorted(found) == sorted(file.name for file in declared.stage_files(directive)), stage
        for part in (
            f'    shell:\n        flow.command("{stage}")\n',
            f'**flow.params("{stage}"),\n',
            f'    log:\n        flow.log("{stage}"),\n',
            f'    benchmark:\n        flow.benchmark("{stage}")\n',
            "    conda:\n",
            "    message:\n",
        ):
            assert part in rule, (stage, part)
        # A stage that saves when it is asked to stop must be asked itself, not a shell around it; other resources
        # belong to the profiles.
        assert ("    resources:" in rule) == declared.resumes, stage
        assert not re.search(r"lambda|temp\(|^    (run|script):", rule, flags=re.MULTILINE), stage


def test_outputs_of_a_rule_are_of_the_kinds_that_its_stage_declares(repository: Path) -> None:
    for stage, rule in _rules(repository).items():
        for name, kind in STAGES[stage].outputs.items():
            place = re.search(rf"^        {name}=(?:report\(\s*)?paths\.(\w+)", rule, flags=re.MULTILINE)
            assert place, (stage, name)
            assert getattr(Paths, place[1]) == kind, (stage, name)


def test_snakefile_and_rules_hold_no_python(repository: Path) -> None:
    snakefile, rules = repository / "workflow" / "Snakefile", list((repository / "rules").glob("*.smk"))
    assert len(re.findall(r"^include:", snakefile.read_text(), flags=re.MULTILINE)) == len(rules)
    for path in rules:
        assert not re.findall(r"^\s*(?:def|for|if|import|from)\b.*", path.read_text(), flags=re.MULTILINE), path.name
    assert not re.findall(r"^\s*(?:def|for|if|while|lambda)\b.*", snakefile.read_text(), flags=re.MULTILINE)
