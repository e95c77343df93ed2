"""Parsers, chunkers and segmentations in a study: what they refer to must be there and fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasemt.files.yaml import parse_yaml
from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.study.schema import Study
from phrasemt.workflow.check import read_study
from phrasemt.workflow.flow import Flow

Raw = dict[str, Any]


@pytest.fixture
def raw(repository: Path) -> Raw:
    study: Raw = parse_yaml((repository / "config.yaml").read_text())
    return study


def _at(path: str, value: object) -> Callable[[Raw], None]:
    def change(raw: Raw) -> None:
        *sections, key = path.split(".")
        for name in sections:
            raw = raw[name]
        raw[key] = value

    return change


def _instead_of_training(**origin: object) -> Callable[[Raw], None]:
    return _at("parsers.english", {"language": "en", **origin})


SPLITS = {"train": 10_000, "dev": 500, "test": 500}
MISTAKES: list[tuple[Callable[[Raw], None], list[str]]] = [
    (_at("datasets.demo.source_parser", "englsh"), ["datasets.demo.source_parser is 'englsh', allowed: english"]),
    (
        _at("datasets.demo.source_parser", None),
        ["systems.parse.model.phrase.mode is 'parse', which needs datasets.demo.source_parser"],
    ),
    (
        _at("parsers.english.language", "de"),
        ["datasets.demo.source_parser is 'english', which is for 'de' and not 'en'"],
    ),
    (
        _at("parsers.english.published", "ptb3-revised_charlm"),
        ["parsers.english: exactly one of train, published, trees and generated must be given"],
    ),
    (
        _instead_of_training(generated="demonstration"),
        ["parsers.english.generated names 'demonstration', which is not a data set with a generator"],
    ),
    (
        _at("datasets.demo.generator", {**SPLITS, "multiword_units": True, "long_sentences": True}),
        ["datasets.demo.generator: multiword_units has no effect with long_sentences"],
    ),
    (_instead_of_training(published="ptb"), ["parsers.english.published: language en: unknown package of Stanza"]),
    (
        _at("parsers.english.train.train", [{"generated": "demos", "split": "train"}, {"corpus": "demo", "part": "x"}]),
        ["parsers.english.train names 'demos', which is not a data set with a generator"],
    ),
    (
        _at("parsers.english.train.train", [{"corpus": "treebnk", "part": "train"}]),
        ["parsers.english.train.train.0: the registry of corpora: unknown corpus"],
    ),
    (
        _at("parsers.english.train.test", [{"corpus": "treebank"}]),
        ["parsers.english.train.test.0: give either corpus and part, or generated and split, or file"],
    ),
    (
        _at("parsers.english.train.dev", [{"file": "dev.mrg"}]),
        ["parsers.english.train.dev.0.file: no such file: dev.mrg"],
    ),
    (
        _at("datasets.demo.target_chunks", {"origin": "chunker"}),
        ["datasets.demo.target_chunks: a chunker belongs to the origin chunker, and only to it"],
    ),
    (
        _at("datasets.demo.target_chunks", {"origin": "chunker", "chunker": "german"}),
        ["datasets.demo.target_chunks.chunker is 'german', allowed: none, since the study has none"],
    ),
    (
        _at("systems.parse.model.phrase", {"mode": "given"}),
        ["systems.parse.model.phrase: the folder `given` must be set with mode: given, and only with it"],
    ),
    (
        _at("systems.parse.model.phrase", {"mode": "given", "given": "mine"}),
        [
            f"systems.parse.model.phrase.given: no such file: mine/demo/{split}.txt"
            for split in ("train", "dev", "test")
        ],
    ),
    (
        _at("systems.parse.model.phrase", {"mode": "right", "ntok_scope": "batch"}),
        ["systems.parse.model.phrase: ntok_scope has no effect in mode right, only in ngram"],
    ),
    (
        _at("systems.parse.model.phrase", {"mode": "none", "ntok_max": 4}),
        ["systems.parse.model.phrase: ntok_max has no effect in mode none, only in ngram, parse, random, right, shuff"],
    ),
    (
        _at(
            "chunkers",
            {
                "english": {
                    "language": "en",
                    "train": {part: [{"corpus": "conll2000", "part": part}] for part in ("train", "test")},
                }
            },
        ),
        ["both called"],
    ),
]


@pytest.mark.parametrize(("change", "expected"), MISTAKES)
def test_mistakes_are_named_with_their_place(
    raw: Raw, problems_of: Callable[..., list[str]], change: Callable[[Raw], None], expected: list[str]
) -> None:
    change(raw)
    problems = problems_of(raw, read_study)
    assert len(problems) == len(expected)
    assert all(start in problem for start, problem in zip(expected, problems, strict=True))


def test_a_segmentation_is_named_by_what_is_not_default() -> None:
    assert PhraseSegmentation().folder_name == "ngram"
    assert PhraseSegmentation(mode="parse", ntok_max=4, ntok_min=2).folder_name == "parse_ntok_min-2_ntok_max-4"


def test_systems_share_phrase_columns(raw: Raw) -> None:
    raw["systems"]["again"] = {**raw["systems"]["parse"], "title": "again"}
    raw["systems"]["other"] = {
        "model": {"family": "phrase_representation", "phrase": {"mode": "random", "ntok_max": 4}}
    }
    study = Study.model_validate(raw)
    assert list(study.segmentations) == ["ngram", "parse", "random_ntok_max-4"]
    assert Flow(study).wildcards["segmenter"] == "ngram|parse|random_ntok_max\\-4"


def test_two_folders_of_one_name_are_refused(raw: Raw) -> None:
    for system, folder in (("pr", "mine/phrases"), ("parse", "yours/phrases")):
        raw["systems"][system]["model"]["phrase"] = {"mode": "given", "given": folder}
    with pytest.raises(ValueError, match="another system has a folder of the same name"):
        Study.model_validate(raw)
    raw["systems"]["parse"]["model"]["phrase"]["given"] = "yours/other phrases"
    assert list(Study.model_validate(raw).segmentations) == ["given_phrases", "given_other-phrases"]
