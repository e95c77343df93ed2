"""`phrasemt init`: a study for own texts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from phrasemt.commands import init
from phrasemt.study.reading import load_study
from phrasemt.workflow.check import warnings_of

Phrasemt = Callable[..., tuple[int, str, str]]
TEXTS = ["--train", "a, train.en", "a, train.de", "--test", "test.en", "test.de", "--minutes", "1"]


@pytest.fixture(autouse=True)
def texts(here: Path) -> None:
    Path("old.yaml").touch()
    Path("blank.en").write_text("a\n" * 3)
    Path("blank.de").write_text("\n" * 3)
    sentences = [(f"the dog number {n} sleeps", f"der Hund Nummer {n} schläft") for n in range(90)]
    sentences += [("one two", ""), ("the same", "the same"), sentences[0]]
    for name, pairs in {"a, train": sentences, "test": [*sentences[:7], ("a", "b")]}.items():
        for language, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            Path(f"{name}.{language}").write_text("".join(f"{line}\n" for line in side))


def test_the_study_is_valid_and_tells_what_cleaning_found(phrasemt: Phrasemt) -> None:
    assert phrasemt("init", "my talks.yaml", *TEXTS)[:2] == (0, "")
    study = load_study(Path("my talks.yaml"))
    assert study.study == "my-talks"
    assert study.datasets["texts"].languages == ("en", "de")
    assert [system.model.family for system in study.models.values()] == ["transformer", "phrase_representation"]
    assert list(warnings_of(study)) == []
    comments = [line.strip() for line in Path("my talks.yaml").read_text().splitlines() if line.strip().startswith("#")]
    assert comments[0] == "# Written by `phrasemt init` for 1 minutes of this machine, if nothing else runs there."
    schema = comments[1].removeprefix("# yaml-language-server: $schema=")
    assert json.loads(Path(schema).read_text())["title"] == "Study"
    assert comments[3:] == [
        "# train, en: 90 sentences of 5.0 words, at most 5",
        "# train, de: 90 sentences of 5.0 words, at most 5",
        "# the filters (`cleaning`) drop 3 more: empty 1, identical 1, duplicate 1",
        "# test, en: 8 sentences of 4.5 words, at most 5",
        "# test, de: 8 sentences of 4.5 words, at most 5",
        "# test shares 7 pairs and 7 sources with train",
    ]


@pytest.mark.parametrize(
    ("minutes", "pairs", "expected"),
    [
        (15, 15_000, (128, 2, 5400)),
        (15, 1000, (256, 3, 1000)),  # more updates would only repeat them
        (150, 15_000, (256, 3, 6750)),
        (150, 1_000_000, (128, 2, 54_000)),
        (2, 1000, (128, 2, 700)),
    ],
)
def test_sizes_follow_from_time_speed_and_pairs(
    minutes: float, pairs: int, expected: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "_seconds_of_update", lambda width, layers, *_: width * layers / 2560)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert init.sizes_for(minutes, pairs, words=10.7, vocabulary=2000) == expected


def test_a_test_text_that_the_run_refuses_and_exchanged_sides_are_warned_of(phrasemt: Phrasemt) -> None:
    said = phrasemt("init", "mine.yaml", *TEXTS)[2]
    assert "--test shares 7 of 8 pairs with train, and the run refuses more than 10%; next: take other texts" in said
    sides = {"de": [f"der Hund und die Katze Nummer {n} schläft" for n in range(90)]}
    sides["en"] = [f"the dog and the cat number {n} sleeps" for n in range(90)]
    for language, lines in sides.items():
        Path(f"long.{language}").write_text("".join(f"{line}\n" for line in lines))
    exchanged = ["--train", "long.de", "long.en", "--test", "long.en", "long.de", "--minutes", "1"]
    said = phrasemt("init", "other.yaml", *exchanged)[2]
    assert "--test long.en, long.de: the source looks like en and the target like de, by frequent words; next:" in said
    assert "with U+00E4" not in said, "exchanged sides have other letters"


def test_a_development_text_and_languages_are_given(phrasemt: Phrasemt) -> None:
    given = ["--dev", "test.en", "test.de", "--languages", "de", "nl"]
    assert phrasemt("init", "mine.yaml", *TEXTS, *given)[:2] == (0, "")
    dataset = load_study(Path("mine.yaml")).datasets["texts"]
    assert (dataset.languages, isinstance(dataset.splits.dev, list)) == (("de", "nl"), True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["old.yaml", *TEXTS], "old.yaml: the file exists"),
        (["new.yaml", *TEXTS[:3], "--test", "test.en", "a, train.de"], "unequal numbers of lines"),
        (["new.yaml", *TEXTS[:3], "--test", "test.en", "gone.de"], "gone.de: no such file"),
        (
            ["new.yaml", *TEXTS, "--languages", "en", "klingon"],
            "found klingon). Next: give both codes with --languages",
        ),
        (
            ["new.yaml", *TEXTS, "--train", "train.txt", "a, train.de"],
            "train.txt: its name does not end with a language",
        ),
        (["new.yaml", *TEXTS, "--train", "train", "a, train.de"], "train: its name does not end with a language"),
        (["new.yaml", *TEXTS, "--train", "test.en", "test.en"], "test.en: --train names one file for both sides"),
        (["new.yaml", *TEXTS, "--train", "blank.en", "blank.de"], "cleaning drops all pairs of the training texts"),
    ],
)
def test_mistakes_leave_no_study(arguments: list[str], said: str, phrasemt: Phrasemt) -> None:
    code, _, err = phrasemt("init", *arguments)
    assert (code, Path("new.yaml").exists()) == (2, False)
    assert said in err
