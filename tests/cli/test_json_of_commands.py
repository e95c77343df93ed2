"""What `status` and `check` print for programs; tests/workflow/test_plan.py has that of `plan`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden import study_of
from invented_runs import ago, begun, job, stage

pytestmark = pytest.mark.usefixtures("here")


def test_jobs_and_their_errors(phrasemt: Callable[..., Any]) -> None:
    jobs = [job("translate_examples", name) for name in "ab"]
    begun(*jobs)
    stage(jobs[0], state="failed", error="the disk is full", ended=ago(seconds=1))
    said = phrasemt("status", "demo", "--json")
    values = json.loads(said.out)
    assert (said.code, values["run"]["study"], values["run"]["state"]) == (0, "demo", "running")
    assert [(one["name"], one["state"], one.get("error")) for one in values["jobs"]] == [
        ("a", "failed", "the disk is full"),
        ("b", "waiting", None),
    ]


def test_mistakes_of_each_study(phrasemt: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text("study: wrong\n")
    Path("right.yaml").write_text(yaml.safe_dump(study_of().model_dump(mode="json", exclude_none=True)))
    with pytest.raises(SystemExit, match="2"):
        phrasemt("check", "right.yaml", "wrong.yaml", "--json")
    right, result = json.loads(capsys.readouterr().out)
    assert (right["study"], right["mistakes"]) == ("golden", [])
    assert result["file"] == "wrong.yaml"
    assert any(mistake.startswith("datasets: ") for mistake in result["mistakes"])
