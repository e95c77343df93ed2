"""The metric of a program of the user: what it gets, what it must write, and its column in the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from phrasemt.artefacts.scores import MetricScores
from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines
from phrasemt.scoring.external import filled, score_metric
from phrasemt.study.schema import Metric

# Counts the words of a translation that stand in any reference; tells the number of files it got.
PROGRAM = """\
import sys
texts = [open(path, encoding="utf-8").read().split("\\n")[:-1] for path in sys.argv[1:]]
print(f"{len(texts)} files", file=sys.stderr)
for sentence, *references in zip(*texts, strict=True):
    words = {word for reference in references for word in reference.split()}
    print(sum(word in words for word in sentence.split()) / max(1, len(sentence.split())))
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[Path]]:
    texts = {
        "text": ["ein Hund schläft", "", "nichts davon"],
        "one": ["ein Hund", "was ?", "x"],
        "two": ["der schläft", "wer ?", "y"],
        "source": ["a dog sleeps", "what ?", "none"],
        "program": PROGRAM.removesuffix("\n").split("\n"),
    }
    for name, lines in texts.items():
        write_lines(tmp_path / name, lines)
    return {
        "text": [tmp_path / "text"],
        "reference": [tmp_path / "one", tmp_path / "two"],
        "source": [tmp_path / "source"],
        "files": [tmp_path / "program"],
    }


def score(files: dict[str, list[Path]], metric: Metric | str) -> MetricScores:
    metric = Metric(command=metric) if isinstance(metric, str) else metric
    place = {"dataset": "demo", "system": "base", "seed": 1, "test_sets": ["test"]}
    references = [len(files["reference"])]
    settings: Any = SimpleNamespace(
        **place, metric="words", better="higher", command=metric.command, words=metric.words, references=references
    )
    scores = files["text"][0].with_name("scores.json")
    score_metric(settings=settings, cores=1, **files, scores=scores)
    return MetricScores.read(scores)


def test_the_score_is_the_mean_over_sentences(files: dict[str, list[Path]]) -> None:
    found = score(files, f"{sys.executable} {files['files'][0]} {{hypotheses}} {{references}}")
    part = found.test_sets["test"]
    assert part.statistics["metric_words"] == [[1.0, 1], [0.0, 1], [0.0, 1]]
    assert part.metrics["metric_words"].score == 1 / 3
    assert "|program:" in part.metrics["metric_words"].signature


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('no model')", "exit code 1 .*no model"),
        ("print(1); print(2)", "not write a score for each sentence .*3 lines.*2 lines"),
        ("print(1); print('nan'); print(3)", "line 2 of its output"),
        ("print('loading'); print(1); print(2)", "line 1 of its output.*'loading'"),
        ("pass", "3 lines.*0 lines"),
    ],
)
def test_another_output_is_an_error(files: dict[str, list[Path]], program: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score(files, f'{sys.executable} -c "{program}" {{hypotheses}}')
    assert not files["text"][0].with_name("scores.json").exists()


def test_a_missing_program_is_named(files: dict[str, list[Path]]) -> None:
    with pytest.raises(DataError, match=r"cannot start the command: No such file.*/no/such/program"):
        score(files, "/no/such/program {hypotheses}")


def test_words_are_filled_without_a_shell() -> None:
    words = Metric(command="p '--h={hypotheses}' {references} {{x}} 'a b;c'").words
    found = filled(words, hypotheses=Path("h h"), references=[Path("r1"), Path("r2")], sources=Path("s"))
    assert found == ["p", "--h=h h", "r1", "r2", "{x}", "a b;c"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("comet {sources}", "no {hypotheses}"),
        ("comet {hypotheses} {reference}", "no such placeholder: {reference}, allowed: {hypotheses}, {references}"),
        ("comet {hypotheses} --r={references}", "{references} must be a word of its own"),
        ("comet '{hypotheses}", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_filled_is_refused(command: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Metric.model_validate(yaml.safe_load(json.dumps({"command": command})))


def test_a_metric_is_a_command_or_a_model_of_comet() -> None:
    metric = Metric.model_validate({"model": "Unbabel/wmt22-comet-da"})
    assert metric.heading == "COMET wmt22-comet-da"
    assert metric.words[-3:] == ["{sources}", "{hypotheses}", "{references}"]
    assert Metric.model_validate(metric.model_dump(exclude={"command"})) == metric
    for wrong in ({}, {"model": "a/b", "command": "cat {hypotheses}"}):
        with pytest.raises(ValidationError, match="a `model` of COMET"):
            Metric.model_validate(wrong)


@pytest.mark.slow
def test_comet_scores_as_its_own_command(tmp_path: Path, files: dict[str, list[Path]]) -> None:
    comet = Path(".comet/bin")
    if not comet.exists():
        pytest.skip("no environment of COMET: make comet")
    subprocess.run([comet / "python", "tests/helpers/tiny_comet.py", tmp_path / "tiny"], check=True)
    metric = Metric.model_validate({"model": str(tmp_path / "tiny/checkpoints/model.ckpt")})
    references = files["reference"]

    def of_sentences(**chosen: list[Path]) -> list[float]:
        part = score({**files, "files": metric.files, **chosen}, metric).test_sets["test"]
        return [number for number, _ in part.statistics["metric_words"]]

    found, alone = of_sentences(), [of_sentences(reference=[one]) for one in references]
    assert found == pytest.approx([(one + other) / 2 for one, other in zip(*alone, strict=True)])
    sides = ["-s", files["source"][0], "-t", files["text"][0], "-r", references[0]]
    output = ["--gpus", "0", "--model", metric.files[-1], "--to_json", tmp_path / "json"]
    subprocess.run([comet / "comet-score", *sides, *output], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    (theirs,) = json.loads((tmp_path / "json").read_text()).values()
    assert alone[0] == pytest.approx([row["COMET"] for row in theirs], abs=1e-3)  # theirs in half precision
    assert len(set(found)) == 3
