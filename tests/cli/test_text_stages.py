"""The stages from text to examples as a user runs them: output, messages, exit codes, and what is left behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_until

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.sidecar import sidecar_path
from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.cli import main
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import join_subwords

SOURCE = "A man isn't here.\nTwo dogs run, fast.\n\nA dog is here.\n"
TARGET = "Ein Mann ist nicht hier.\nZwei Hunde laufen schnell.\n\nEin Hund ist hier.\n"
SIDES = {"source": "en", "target": "de"}
TOKENIZE = {language: {"tokenizer": Tokenizer.for_language(language).model_dump()} for language in SIDES.values()}


def stage(name: str, settings: dict[str, object], **paths: Path | int) -> list[str]:
    flags = [text for flag, value in paths.items() for text in (f"--{flag.replace('_', '-')}", str(value))]
    return [name, *flags, "--settings", json.dumps(settings)]


def tokenizing(folder: Path, settings: dict[str, object], **options: int) -> list[str]:
    paths = {name: folder / name for name in ("text", "tokens", "round_trip")}
    return stage("tokenize_text", settings, **paths, **options)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder after all stages up to build_vocabulary."""
    (tmp_path / "text.en").write_text(SOURCE)
    (tmp_path / "text.de").write_text(TARGET)
    (tmp_path / "rows").write_text("0\n2\n3\n7\n")
    at = tmp_path.joinpath
    for language, settings in TOKENIZE.items():
        outputs = {"tokens": at(f"tokens.{language}"), "round_trip": at(f"round_trip.{language}")}
        assert main(stage("tokenize_text", settings, text=at(f"text.{language}"), **outputs)) == 0
    learn = {"source": at("tokens.en"), "target": at("tokens.de"), "codes": at("codes")}
    counts = {"source_counts": at("counts.en"), "target_counts": at("counts.de")}
    assert main(stage("learn_subwords", {"merges": 20}, **learn, **counts)) == 0
    for language in TOKENIZE:
        inputs = {"tokens": at(f"tokens.{language}"), "codes": at("codes"), "counts": at(f"counts.{language}")}
        subwords = at(f"subwords.{language}")
        assert main(stage("apply_subwords", {"vocabulary_threshold": 2}, **inputs, subwords=subwords)) == 0
    sides = {"source": at("subwords.en"), "target": at("subwords.de")}
    vocabularies = {"source_vocabulary": at("vocabulary.en.tsv"), "target_vocabulary": at("vocabulary.de.tsv")}
    assert main(stage("build_vocabulary", {"shared": False}, **sides, **vocabularies)) == 0
    return tmp_path


def pack(folder: Path, **changed: Path | int) -> list[str]:
    paths: dict[str, Path | int] = {
        "rows": folder / "rows",
        "source": folder / "subwords.en",
        "target": folder / "subwords.de",
        "source_vocabulary": folder / "vocabulary.en.tsv",
        "target_vocabulary": folder / "vocabulary.de.tsv",
        "examples": folder / "examples.arrow",
    }
    return stage("pack_examples", {}, **{**paths, **changed})


def test_from_text_to_examples(prepared, capsys):
    assert main(pack(prepared)) == 0
    assert (prepared / "tokens.en").read_text() == (
        "A man isn &apos;t here .\nTwo dogs run , fast .\n\nA dog is here .\n"
    )
    examples = Examples.open(prepared / "examples.arrow")
    words = [Vocabulary.read(prepared / f"vocabulary.{language}.tsv") for language in ("en", "de")]
    examples.check_vocabularies(*words)
    assert examples.rows.tolist() == [0, 2, 3, 7]
    sides = ([examples.source(pair) for pair in range(4)], [examples.target(pair) for pair in range(4)])
    for language, side, vocabulary in zip(("en", "de"), sides, words, strict=True):
        lines = [join_subwords(" ".join(vocabulary.tokens(ids))) for ids in side]
        assert lines == (prepared / f"tokens.{language}").read_text().split("\n")[:-1]
    assert capsys.readouterr().err.splitlines() == [
        "pack_examples: 4 pairs, 38 source subwords (0.00% unknown), 38 target subwords (0.00% unknown)"
    ]
    assert "examples.arrow.meta.json" in names(prepared)
    assert not [name for name in names(prepared) if name.endswith(".part")]


def test_an_edited_input_is_refused_before_the_stage_runs(prepared, capsys):
    tokens = prepared / "tokens.en"
    text = tokens.read_text()
    command = stage("learn_subwords", {"merges": 20}, source=tokens, target=prepared / "tokens.de")
    command += [f"--{name}={prepared / name}" for name in ("codes", "source-counts", "target-counts")]
    for edited in (text.replace("dog", "cat"), text.replace("A", "B", 1), ""):
        tokens.write_text(edited)
        before = names(prepared)
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert line.startswith(
            f"phrasemt learn_subwords: error: {tokens}: not the file that tokenize_text wrote: edited"
        )
        assert line.endswith(". Next: delete it and run the study again, which makes it again")
        assert names(prepared) == before
    tokens.write_text(text)
    assert main(command) == 0


def test_a_file_of_another_split_is_refused_with_its_own_sidecar(prepared, capsys):
    """A copy of an artefact with its sidecar under another name."""
    for path in (prepared / "tokens.en", sidecar_path(prepared / "tokens.en")):
        shutil.copy(path, path.with_name(path.name.replace("tokens.en", "tokens.de")))
    outputs = {name: prepared / name for name in ("codes", "source_counts", "target_counts")}
    sides = {"source": prepared / "tokens.en", "target": prepared / "tokens.de"}
    assert main(stage("learn_subwords", {"merges": 20}, **sides, **outputs)) == 2
    assert "expected a sidecar of tokens.de, found a sidecar of another file" in capsys.readouterr().err


def test_a_damaged_vocabulary_leaves_the_old_examples(prepared, capsys):
    assert main(pack(prepared)) == 0
    old = (prepared / "examples.arrow").read_bytes()
    vocabulary = prepared / "vocabulary.de.tsv"
    vocabulary.write_text(vocabulary.read_text().replace("<s>\t0\n", ""))
    sidecar_path(vocabulary).unlink()
    capsys.readouterr()
    assert main(pack(prepared)) == 2
    assert capsys.readouterr().err == (
        f"phrasemt pack_examples: error: {vocabulary}, line 2: a special symbol is missing "
        r"(expected '<s>\t0', found '</s>\t0'). Next: delete the file and run build_vocabulary again"
        "\n"
    )
    assert (prepared / "examples.arrow").read_bytes() == old


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "--settings: bad settings: tokenizer: Field required. Next: see "),
        ({"tokenizer": {"unit": "word"}}, "--settings: bad settings: tokenizer.language: Field required. Next: see "),
    ],
)
def test_bad_settings_leave_nothing(settings, message, tmp_path, capsys):
    (tmp_path / "text").write_text("A\n")
    assert main(tokenizing(tmp_path, settings)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"phrasemt tokenize_text: error: {message}")
    assert names(tmp_path) == {"text"}


def kill_while_writing(command: list[str], folder: Path) -> None:
    """Run a stage and kill it as soon as it has written something."""
    process = subprocess.Popen([sys.executable, "-m", "phrasemt", *command])
    wait_until(lambda: any(path.stat().st_size for path in folder.glob(".*.part")), process)
    process.kill()
    assert process.wait() == -9


def test_a_killed_tokenizer_runs_again(tmp_path):
    (tmp_path / "text").write_text(SOURCE * 15_000)
    command = tokenizing(tmp_path, TOKENIZE["en"])
    kill_while_writing([*command, "--cores", "2"], tmp_path)
    assert "tokens" not in names(tmp_path)
    assert main(command) == 0
    assert names(tmp_path) == {"text", "tokens", "tokens.meta.json", "round_trip", "round_trip.meta.json"}
    tokens = "A man isn &apos;t here .\nTwo dogs run , fast .\n\nA dog is here .\n"
    assert (tmp_path / "tokens").read_text() == tokens * 15_000


def test_a_killed_packer_runs_again(prepared):
    pairs = 100_000
    (prepared / "rows").write_text("".join(f"{row}\n" for row in range(pairs)))
    for language in ("en", "de"):
        subwords = prepared / f"subwords.{language}"
        subwords.write_text(subwords.read_text() * (pairs // 4))
        sidecar_path(subwords).unlink()
    assert main(pack(prepared, examples=prepared / "undisturbed")) == 0
    before = names(prepared)
    kill_while_writing(pack(prepared), prepared)
    assert "examples.arrow" not in names(prepared)
    assert main(pack(prepared)) == 0
    assert names(prepared) == before | {"examples.arrow", "examples.arrow.meta.json"}
    assert (prepared / "examples.arrow").read_bytes() == (prepared / "undisturbed").read_bytes()
