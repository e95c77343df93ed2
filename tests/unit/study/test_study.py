"""Reading studies. What a user sees of mistakes is in tests/cli/test_study_errors.py."""

from __future__ import annotations

import itertools
import json
import math
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
from nist_texts import write_nist_texts
from pydantic import ValidationError

from phrasemt.fields import Settings, sections
from phrasemt.files.yaml import parse_yaml
from phrasemt.study.datasets import Dataset
from phrasemt.study.reading import load_study, study_schema
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Tokenizer
from phrasemt.workflow.check import read_study, warnings_of

Problems = Callable[..., list[str]]
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


@pytest.mark.parametrize(
    ("language", "tokenization", "unit", "rules", "bleu"),
    [
        ("de", {}, "moses", "de", "13a"),
        ("deu", {}, "moses", "de", "13a"),
        ("zh", {}, "jieba", "zh", "zh"),
        ("cmn", {"target": "character"}, "character", "zh", "zh"),
        ("yue", {}, "character", "yue", "zh"),
        ("ja", {"target": "moses"}, "moses", "ja", "ja-mecab"),
        ("khm", {"target": "character"}, "character", "km", "char"),
        ("de", {"target": "character"}, "character", "de", "13a"),
    ],
)
def test_the_language_decides_how_a_side_is_tokenised_and_scored(
    language: str, tokenization: dict[str, object], unit: str, rules: str, bleu: str
) -> None:
    given = {"source_language": "fr", "target_language": language, "generator": {"train": 9, "dev": 9, "test": 9}}
    dataset = Dataset.model_validate({**given, "tokenization": tokenization})
    found = dataset.tokenizer("target")
    assert (found.unit, found.language, found.bleu) == (unit, rules, bleu)
    assert dataset.tokenizer("source") == Tokenizer.for_language("fr")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("heads: 2", "heads: 3"), "systems.base.model: width (16) must be a multiple of heads (3)"),
        (("study: small", "study: a/b"), 'study: found "a/b", expected a name of letters'),
        (("study: small", "study: small\nseeds: [1, 1]"), "seeds contains a value twice: [1, 1]"),
        (("target_language: de", "target_language: en"), "source_language and target_language must differ"),
        (("generator:", "tokenization: {target: jieba}, generator:"), 'tokenization.target: found "jieba", which cuts'),
        (
            ("target_language: de,", "target_language: lo, tokenization: {target: moses},"),
            'found "moses", allowed: character',
        ),
        (("generator: {train: 9, dev: 9, test: 9}", "cleaning: {}"), "exactly one of splits, partition and generator"),
        (("systems:", "comparison: {baseline: bas}\nsystems:"), "comparison.baseline is 'bas', allowed: base, max"),
    ],
)
def test_parts_that_do_not_fit_together(problems_of: Problems, change: tuple[str, str], problem: str) -> None:
    assert any(problem in found for found in problems_of(RIGHT.replace(*change)))


def test_one_table_for_both_languages_needs_one_vocabulary(tmp_path: Path, problems_of: Problems) -> None:
    tied = RIGHT.replace("heads: 2", "heads: 2, tie: all")
    (tmp_path / "study.yaml").write_text(tied)
    load_study(tmp_path / "study.yaml")
    apart = tied.replace("test: 9}", "test: 9}, subwords: {shared_vocabulary: false}")
    problem = "systems.{}.model.tie is 'all', which needs datasets.demo.subwords.shared_vocabulary: true"
    assert problems_of(apart) == [problem.format("base"), problem.format("max")]


def _numbers(section: type[Settings]) -> Iterator[tuple[type[Settings], str]]:
    """The numbers in a section and in the sections below it: class and key."""
    for key, described in section.model_json_schema()["properties"].items():
        if {"integer", "number"} & {one.get("type") for one in described.get("anyOf", [described])}:
            yield section, key
    for field in section.model_fields.values():
        for inner in sections(field.annotation) or itertools.chain(*map(sections, typing.get_args(field.annotation))):
            yield from _numbers(inner)


def _refused(section: type[Settings], key: str, value: object) -> bool:
    try:
        section.model_validate({key: value})
    except ValidationError as error:
        return any(item["loc"] == (key,) for item in error.errors())
    return False


def test_no_number_of_a_study_is_infinite_or_a_switch_or_text_or_without_a_limit() -> None:
    numbers = dict.fromkeys(_numbers(Study))
    names = {f"{section.__name__}.{key}" for section, key in numbers}
    assert {"Decoding.beam", "TransformerModel.width", "Adam.factor", "ParserTraining.vectors"} <= names
    for bad in (math.inf, -math.inf, math.nan, True, False, "3", -1, 10**12):
        accepted = {f"{section.__name__}.{key}" for section, key in numbers if not _refused(section, key, bad)}
        # The norm of a gradient has no natural limit, and a limit far above it has no effect.
        assert accepted == ({"Training.clip_norm"} if bad == 10**12 else set()), bad


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("heads: 2", "heads: 2, encoder_layers: 1000000"), "systems.base.model.encoder_layers: found 1000000, "
         "allowed: at most 1,000, because all layers are in memory at once"),
        (("heads: 2}\n", "heads: 2}\n    decoding: {length_penalty: .inf}\n"),
         "systems.base.decoding.length_penalty: found Infinity, expected a finite number"),
        (("heads: 2}\n", "heads: 2}\n    title: max\n"), "systems.max and systems.base have the same title: 'max'"),
        (("study: small", "study: small\nseeds: [1, true]"), "seeds.1: found true, expected a number"),
        (("study: small", "study: small\ntitle: \"\""), 'title: found "", '),
        *(
            (("study: small", f'study: small\ntitle: "a{escape}b"'), "title: found ")
            for escape in (r"\u2028", r"\u2029", r"\N", r"\v", r"\f", r"\x1c", r"\x1e", r"\e", r"\t", r"\n", r"\x7f")
        ),
        (("test: 9}", "test: -9}"), "datasets.demo.generator.test: found -9, expected greater than 0"),
    ],
)  # fmt: skip
def test_numbers_and_titles_that_no_study_can_have(
    problems_of: Problems, change: tuple[str, str], problem: str
) -> None:
    found = problems_of(RIGHT.replace(*change, 1))
    assert any(one.startswith(problem) for one in found), found


@pytest.mark.parametrize(
    ("training", "warnings"),
    [
        ("max_updates: 60, evaluate_every: 20, checkpoint_every: 10, average_last: 3, optimizer: {warmup: 60}", []),
        ("max_updates: 60, evaluate_every: 61, checkpoint_every: 10, average_last: 3, optimizer: {warmup: 60}",
         ["evaluate_every (61) is above max_updates (60): dev is scored after the last update only"]),
        ("max_updates: 60, evaluate_every: 20, checkpoint_every: 25, average_last: 50, optimizer: {warmup: 60}",
         ["average_last is 50, but 60 updates with checkpoint_every 25 make 3 checkpoints, which are then averaged"]),
        ("max_updates: 60, evaluate_every: 20, checkpoint_every: 15, average_last: 3, optimizer: {warmup: 60}",
         ["average_last averages checkpoints over 30 of 60 updates, and the early ones know little: lower "
          "checkpoint_every to 1, or average_last"]),
        ("max_updates: 60, evaluate_every: 60, average_best: 2, optimizer: {warmup: 60}",
         ["average_best is 2, but 60 updates with evaluate_every 60 make 1 checkpoint, which are then averaged"]),
        ("max_updates: 60, evaluate_every: 20, checkpoint_every: 10, average_last: 3, optimizer: {warmup: 61}",
         ["optimizer.warmup (61) is above max_updates (60): the learning rate never reaches its highest value"]),
    ],
)  # fmt: skip
def test_settings_without_effect_are_warned_of(tmp_path: Path, training: str, warnings: list[str]) -> None:
    path = tmp_path / "study.yaml"
    several = RIGHT.replace("datasets", "seeds: [1, 2]\ndatasets", 1)
    path.write_text(several.replace("heads: 2}\n", f"heads: 2}}\n    training: {{{training}}}\n", 1))
    assert list(warnings_of(load_study(path))) == [f"systems.base.training: {warning}" for warning in warnings]


def test_the_baseline_translates_where_anything_does(tmp_path: Path, problems_of: Problems) -> None:
    path = tmp_path / "study.yaml"
    model = "{family: language_model, width: 16, heads: 2}"
    mixed = RIGHT.replace("  base:\n", f"  lm:\n    model: {model}\n  base:\n")
    path.write_text(mixed)
    assert load_study(path).baseline == "base"
    named = mixed.replace("systems:", "comparison: {baseline: lm}\nsystems:")
    assert problems_of(named) == [
        "comparison.baseline is 'lm', allowed: base, max (a language model does not translate)"
    ]
    path.write_text(f"{RIGHT.split('systems:')[0]}systems:\n  lm: {{model: {model}}}\n")
    assert load_study(path).baseline == "lm"


def test_the_studies_of_the_repository_are_right(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [repository / "config.yaml", *sorted((repository / "studies").glob("*.yaml"))]
    monkeypatch.chdir(tmp_path)
    write_nist_texts(tmp_path / "data")
    names = [read_study(path).study for path in paths]
    assert len(set(names)) == len(names), "two studies would share a results folder"
    assert names[1:] == [path.stem for path in paths[1:]]


def test_the_schema_is_that_of_the_studies_of_the_repository(repository: Path) -> None:
    """Without studies of a family whose settings stand in its own file, which the schema does not know."""
    text = study_schema()
    schema = jsonschema.Draft202012Validator(json.loads(text))
    for path in [repository / "config.yaml", *sorted((repository / "studies").glob("*.yaml"))]:
        study = parse_yaml(path.read_text())
        if not all(f'"{family}"' in text for family in re.findall(r"\bfamily: (\w+)", path.read_text())):
            continue
        assert [error.message for error in schema.iter_errors(study)] == [], path
    study = parse_yaml((repository / "config.yaml").read_text())
    del study["systems"][next(iter(study["systems"]))]["model"]["family"]
    assert list(schema.iter_errors(study)), "a model without family and preset fits the schema"


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(study_schema())
    for section in [schema, *schema["$defs"].values()]:
        assert section["additionalProperties"] is False
        for key, value in section["properties"].items():
            assert value.get("description") or "$ref" in value, f"{section['title']}.{key} has no description"
