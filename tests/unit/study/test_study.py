"""Reading studies. What a user sees of mistakes is in tests/cli/test_study_errors.py."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from phrasemt.errors import StudyError
from phrasemt.files.yaml import parse_yaml
from phrasemt.study.reading import load_study, study_schema
from phrasemt.workflow.check import read_study

RIGHT = """\
study: small
datasets:
  demo: {source_language: en, target_language: de, generator: {train: 9, dev: 9, test: 9}}
systems:
  base:
    model: &model {family: transformer, width: 16, heads: 2}
  max:
    model: {<<: *model, family: phrase_representation}
"""


def _problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    return caught.value.problems


def test_anchors_share_blocks_and_keys_beside_them_win(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(RIGHT)
    study = load_study(path)
    assert study.systems["max"].model.family == "phrase_representation"
    assert study.systems["max"].model.width == study.systems["base"].model.width == 16


def test_on_off_and_no_are_words(tmp_path: Path) -> None:
    """In YAML 1.1 they are booleans; a study has switches and languages that are called so."""
    path = tmp_path / "study.yaml"
    text = RIGHT.replace("phrase_representation}", "phrase_representation, ta: on, embed_ln: true}")
    text = text.replace(
        "generator: {train: 9, dev: 9, test: 9}", "partition: {text: {source: a, target: b}, dev: 1, test: 1}"
    )
    path.write_text(text.replace("source_language: en", "source_language: no"))
    study = load_study(path)
    assert study.datasets["demo"].source_language == "no"
    assert study.systems["max"].model.model_dump(include={"ta", "embed_ln"}) == {"ta": "on", "embed_ln": True}


def test_a_leading_zero_makes_no_octal_number(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(RIGHT + "seeds: [010]\n")
    assert load_study(path).seeds == [10]


def test_layout_order_and_comments_do_not_change_a_study(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(RIGHT)
    raw = yaml.safe_load(RIGHT)
    second.write_text("# a comment\n" + json.dumps(dict(reversed(raw.items())), indent=4))
    assert load_study(first).canonical_json() == load_study(second).canonical_json()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("heads: 2", "heads: 3"),
            "systems.base.model: width (16) must be a multiple of heads (3)",
        ),
        (("study: small", "study: a/b"), "study: found \"a/b\", string should match pattern"),
        (("study: small", "study: small\nseeds: [1, 1]"), "seeds contains a value twice: [1, 1]"),
        (("target_language: de", "target_language: en"), "source_language and target_language must differ"),
        (("generator: {train: 9, dev: 9, test: 9}", "cleaning: {}"), "exactly one of splits, partition and generator"),
        (("systems:", "comparison: {baseline: bas}\nsystems:"), "comparison.baseline is 'bas', allowed: base, max"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    assert any(problem in found for found in _problems(tmp_path, RIGHT.replace(*change)))


def test_one_table_for_both_languages_needs_one_vocabulary(tmp_path: Path) -> None:
    tied = RIGHT.replace("heads: 2", "heads: 2, tie: all")
    (tmp_path / "study.yaml").write_text(tied)
    load_study(tmp_path / "study.yaml")
    apart = tied.replace("test: 9}", "test: 9}, subwords: {shared_vocabulary: false}")
    problem = "systems.{}.model.tie is 'all', which needs datasets.demo.subwords.shared_vocabulary: true"
    assert _problems(tmp_path, apart) == [problem.format("base"), problem.format("max")]


def test_the_baseline_translates_where_anything_does(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    model = "{family: language_model, width: 16, heads: 2}"
    mixed = RIGHT.replace("  base:\n", f"  lm:\n    model: {model}\n  base:\n")
    path.write_text(mixed)
    assert load_study(path).baseline == "base"
    named = mixed.replace("systems:", "comparison: {baseline: lm}\nsystems:")
    assert _problems(tmp_path, named) == [
        "comparison.baseline is 'lm', allowed: base, max (a language model does not translate)"
    ]
    path.write_text(f"{RIGHT.split('systems:')[0]}systems:\n  lm: {{model: {model}}}\n")
    assert load_study(path).baseline == "lm"


def test_the_studies_of_the_repository_are_right(repository: Path) -> None:
    paths = [repository / "config.yaml", *sorted((repository / "studies").glob("*.yaml"))]
    names = [read_study(path).study for path in paths]
    assert len(set(names)) == len(names), "two studies would share a results folder"
    assert names[1:] == [path.stem for path in paths[1:]]


def test_the_schema_is_that_of_the_studies_of_the_repository(repository: Path) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(study_schema()))
    for path in [repository / "config.yaml", *sorted((repository / "studies").glob("*.yaml"))]:
        study = parse_yaml(path.read_text())
        assert [error.message for error in schema.iter_errors(study)] == [], path
    del study["systems"][next(iter(study["systems"]))]["model"]["family"]
    assert list(schema.iter_errors(study)), "a model without family and preset fits the schema"


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(study_schema())
    for section in [schema, *schema["$defs"].values()]:
        assert section["additionalProperties"] is False
        for key, value in section["properties"].items():
            assert value.get("description") or "$ref" in value, f"{section['title']}.{key} has no description"
