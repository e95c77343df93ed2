"""The README of an exported system."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import study_of

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import SystemScores
from phrasemt.commands._arguments import ChosenTraining
from phrasemt.commands.export import readme


def test_it_names_languages_scores_and_the_command(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)
    study = study_of()
    text = readme(ChosenTraining(study, "demo", "max", 2), "phrasemt")
    assert text.startswith("# max, en to de\n")
    assert "seed 2" in text
    scores = SystemScores.read(Path(Paths.of(study, "demo").system_scores.at(system="max", seed=2)))
    for metric in scores.test_sets["test"].metrics.values():
        assert f"| {metric.score:.2f} | `{metric.signature}` |" in text
    assert "phrasemt translate --model . < TEXT" in text
