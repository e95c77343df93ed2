"""The study as a module of another workflow, and a Snakemake that lacks phrasemt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from workplace import STUDY, Workplace

OUTER = """\
configfile: "config.yaml"


module phrasemt:
    snakefile:
        "{workplace}/workflow/Snakefile"
    config:
        config["phrasemt"]
    prefix:
        "{prefix}"


use rule * from phrasemt as phrasemt_*


rule lines:
    input:
        "{prefix}results/tiny/table.md",
    output:
        "lines",
    shell:
        "wc -l < {{input}} > {{output}}"
"""

# The rules that run a model.
ON_GPU = (
    "train_model",
    "average_checkpoints",
    "score_contrasts",
    "score_perplexity",
    "score_chunks",
    "analyse_attention",
)


def _outer(finished: Workplace, folder: Path, prefix: str, phrasemt: str = STUDY) -> Workplace:
    """Another workflow, in a folder of its own; the code stays where it is."""
    (folder / "workflow").mkdir(parents=True)
    (folder / "workflow" / "Snakefile").write_text(OUTER.format(workplace=finished.folder, prefix=prefix))
    (folder / "config.yaml").write_text(yaml.safe_dump({"phrasemt": yaml.safe_load(phrasemt)}))
    return Workplace(folder, warm=finished.warm)


def _run(outer: Workplace, finished: Workplace, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["--cores", "2", "--rerun-triggers", "mtime", "params", "input"]
    command = [*finished.command(*arguments)[:-4], *options]  # without profile and study
    return subprocess.run(
        command, cwd=outer.folder, env=finished.environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "mt/"])
def test_a_module_of_another_workflow_makes_the_same_table(finished: Workplace, tmp_path: Path, prefix: str) -> None:
    """Of the finished study one training, and what follows, is still to be done."""
    outer = _outer(finished, tmp_path / "outer", prefix)
    (outer.folder / prefix).mkdir(exist_ok=True)
    for part in ("results", "resources"):
        shutil.move(finished.folder / part, outer.folder / prefix / part)
    results = outer.folder / prefix / "results" / "tiny"
    table = results / ("table.md" if prefix else "table.json")  # the JSON names files
    expected = table.read_bytes()
    for path in (*results.glob("table.*"), *results.glob("demo.en-de/*/base")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # By the number of threads the weights differ in their last bits, and the digests in the table with them.
    done = _run(outer, finished, "lines", "--set-threads", *(f"phrasemt_{rule}=1" for rule in ON_GPU))
    assert done.returncode == 0, done.stderr[-5000:]
    assert table.read_bytes() == expected
    assert (outer.folder / "lines").read_text().strip() != "0"
    assert sorted(path.name for path in outer.folder.iterdir() if path.name.startswith(("results", "mt"))) == [
        prefix.strip("/") or "results"
    ]
    assert "phrasemt_train_model" in done.stderr
    assert "phrasemt_parse_sentences" not in done.stderr, "what is finished stays"


def test_a_mistake_in_the_study_of_a_module_names_it(finished: Workplace, tmp_path: Path) -> None:
    done = _run(_outer(finished, tmp_path / "outer", "", STUDY.replace("merges", "merge")), finished, "--dry-run")
    assert done.returncode == 2
    assert "config of module phrasemt: 1 mistake in the study" in done.stderr
    assert "did you mean 'merges'?" in done.stderr


def test_a_snakemake_without_what_the_workflow_imports_says_so_in_one_sentence(
    repository: Path, tmp_path: Path
) -> None:
    workplace = Workplace.new(repository, tmp_path)
    (workplace.folder / "phrasemt" / "runs" / "start.py").write_text("import unheard\n")
    done = workplace.run(workplace.python, "-m", "snakemake", "--cores", "1", "--dry-run")
    assert done.returncode == 1
    assert "does not have a package: No module named 'unheard'. Next: " in done.stderr
    assert "Traceback" not in done.stderr
