"""Studies at smaller sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasemt.commands.scale import REHEARSAL, micro, rehearsal
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.check import warnings_of

REPOSITORY = Path(__file__).parents[2]
STUDIES = {path.stem: path for path in sorted((REPOSITORY / "studies").glob("*.yaml"))}
XU = STUDIES["xu2020-en-de"]


def at_size(path: Path, size: str) -> Study:
    raw, study = parse_yaml(path.read_text()), load_study(path)
    text = format_yaml(rehearsal(raw, study) if size == REHEARSAL else micro(raw, study))
    return Study.model_validate(parse_yaml(text))


@pytest.mark.parametrize("path", STUDIES.values(), ids=lambda path: path.stem)
def test_every_study_has_a_micro_size_and_a_rehearsal(path: Path) -> None:
    study, little = load_study(path), at_size(path, "micro")
    assert list(little.systems) == list(study.systems)
    assert little.study == f"{study.study}-micro"
    assert [text for text in warnings_of(little) if not text.startswith("seeds: ")] == []
    assert all(dataset.generator for dataset in little.datasets.values())
    for name, system in little.models.items():
        assert system.training.max_updates == 20
        assert system.model.family == study.systems[name].model.family
        assert system.stands_for == study.systems[name].stands_for
    assert little.phrase_based == study.phrase_based  # they have no size
    # The generated corpus stands for the data of no paper, so no score is compared with a printed one.
    assert all(dataset.stands_for is None for dataset in little.datasets.values())

    _check_rehearsal(study, at_size(path, REHEARSAL))


def _check_rehearsal(study: Study, little: Study) -> None:
    """All that decides the time and the memory of an update, of a sentence and of a parse stays, and little work."""
    assert set(little.systems) == set(study.systems) - set(study.outside)
    assert (little.parsers, little.chunkers) == (study.parsers, study.chunkers)
    for name, system in little.models.items():
        whole = study.models[name]
        assert system.model == whole.model
        assert system.decoding.beam == whole.decoding.beam
        same = ("tokens_per_update", "sentences_per_update", "max_length", "precision", "optimizer")
        assert all(getattr(system.training, key) == getattr(whole.training, key) for key in same)
        assert system.training.max_updates == system.training.evaluate_every <= 60
    for name, dataset in little.datasets.items():
        whole_data = study.datasets[name]
        assert dataset.texts_of_split("train") == whole_data.texts_of_split("train")
        assert dataset.sampled("train") == 60_000
        assert all(
            dataset.sampled(test) == (None if test in dataset.contrastive else 100) for test in dataset.test_sets
        )
        assert dataset.subwords == whole_data.subwords.model_copy(
            update={"vocabulary_threshold": dataset.subwords.vocabulary_threshold}
        )
        assert dataset.stands_for is None  # a sample is no data of a paper


def test_the_command_writes_a_study_and_overwrites_none(here: Path, phrasemt: Callable[..., Any]) -> None:
    output = here / "micro.yaml"
    assert phrasemt("scale", XU, "micro", "--output", output).code == 0
    assert load_study(output).study == "xu2020-en-de-micro"
    assert phrasemt("scale", XU, "micro").out == output.read_text()
    again = phrasemt("scale", XU, "micro", "--output", output)
    assert again.code == 2
    assert f"{output}: the file exists" in again.err
