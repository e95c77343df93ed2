"""What a stage refuses, and what is left behind: inputs that were edited, bad settings, a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage_settings import arguments_of

from phrasemt.cli import main
from phrasemt.study.tokenization import Tokenizer

SOURCE = "A man isn't here.\nTwo dogs run, fast.\n\nA dog is here.\n"
TOKENS = "A man isn &apos;t here .\nTwo dogs run , fast .\n\nA dog is here .\n"


def tokenizing(folder: Path, language: str = "en", settings: dict[str, object] | None = None) -> list[str]:
    paths = {name: folder / f"{name}.{language}" for name in ("text", "tokens", "round_trip")}
    paths["text"].write_text(SOURCE)
    if settings is None:
        settings = {"tokenizer": Tokenizer.for_language(language).model_dump()}
    return arguments_of("tokenize_text", settings, **paths)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def learning(tmp_path: Path) -> list[str]:
    """The command that learns subwords from the tokens of both sides."""
    for language in ("en", "de"):
        assert main(tokenizing(tmp_path, language)) == 0
    outputs = {name: tmp_path / name for name in ("codes", "source_counts", "target_counts")}
    sides = {"source": tmp_path / "tokens.en", "target": tmp_path / "tokens.de"}
    return arguments_of("learn_subwords", {"merges": 20}, **sides, **outputs)


def test_an_edited_input_is_refused_before_the_stage_runs(learning, tmp_path, capsys):
    tokens = tmp_path / "tokens.en"
    text = tokens.read_text()
    for edited in (text.replace("dog", "cat"), text.replace("A", "B", 1), ""):
        tokens.write_text(edited)
        before = names(tmp_path)
        assert main(learning) == 2
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert line.startswith(
            f"phrasemt learn_subwords: error: {tokens}: not the file that tokenize_text wrote: edited"
        )
        assert line.endswith(". Next: delete it and run the study again, which makes it again")
        assert names(tmp_path) == before
    tokens.write_text(text)
    assert main(learning) == 0


@pytest.mark.parametrize(
    ("settings", "place"), [({}, "tokenizer"), ({"tokenizer": {"unit": "word"}}, "tokenizer.language")]
)
def test_bad_settings_leave_nothing(settings, place, tmp_path, capsys):
    assert main(tokenizing(tmp_path, settings=settings)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    message = f"bad settings: {place}: Field required. Next: see "
    assert line.startswith("phrasemt tokenize_text: error: ")
    assert f".settings: {message}" in line
    assert names(tmp_path) == {"text.en"}
