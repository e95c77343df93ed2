"""The stages on a text of one language, which is one file on both sides, and a study of such a text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stage_settings import arguments_of

from phrasemt.artefacts.columns import Examples, Vocabulary
from phrasemt.cli import main
from phrasemt.errors import StudyError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.stages.subwords import PackExamples
from phrasemt.study.reading import load_study
from phrasemt.study.tokenization import Tokenizer

RAW = [
    "It is n't  here .",
    "",
    "Nothing is here , he said .",
    "Привет Том",
    "It is n't here .",
    "one two three four five six seven eight nine ten eleven",
    "& <s> [ here ] .",
]
KEPT = ["It is n't here .", "Nothing is here , he said .", "& <s> [ here ] ."]
FILTERS = {"max_words": 10}


def run(name: str, settings: object, *, twice: dict[str, Path] | None = None, **files: Path) -> None:
    """Run a stage by its command. twice: files of the source that stand on the target side, too."""
    for key, file in (twice or {}).items():
        files |= {key: file, key.replace("source", "target"): file}
    assert main(arguments_of(name, settings, **files)) == 0, name


def clean(folder: Path, split: str, lines: list[str], filters: object) -> None:
    write_lines(folder / f"raw.{split}", lines)
    settings = {"source_language": "en", "target_language": "en", "filters": filters}
    files = {"rows": folder / f"rows.{split}", "dropped": folder / f"dropped.{split}"}
    sides = {"raw_source": folder / f"raw.{split}", "source": folder / f"text.{split}"}
    run("clean_pairs", settings, twice=sides, **files)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after all stages up to the examples, for train and dev."""
    folder = tmp_path_factory.mktemp("one_language")
    clean(folder, "train", RAW, FILTERS)
    clean(folder, "dev", [RAW[2], "", "Who is he ?"], None)
    tokenizer = Tokenizer.for_language("en", "space").model_dump()
    for split in ("train", "dev"):
        files = {"text": "text", "tokens": "tokens", "round_trip": "round_trip"}
        run("tokenize_text", {"tokenizer": tokenizer}, **{key: folder / f"{at}.{split}" for key, at in files.items()})
    sides = {"source": folder / "tokens.train", "source_counts": folder / "counts"}
    run("learn_subwords", {"merges": 12}, twice=sides, codes=folder / "codes")
    for split in ("train", "dev"):
        files = {"tokens": folder / f"tokens.{split}", "subwords": folder / f"subwords.{split}"}
        learned = {"codes": folder / "codes", "counts": folder / "counts"}
        run("apply_subwords", {"vocabulary_threshold": 0}, **files, **learned)
    sides = {"source": folder / "subwords.train", "source_vocabulary": folder / "vocabulary"}
    run("build_vocabulary", {"shared": True}, twice=sides)
    for split in ("train", "dev"):
        sides = {"source": folder / f"subwords.{split}", "source_vocabulary": folder / "vocabulary"}
        files = {"rows": folder / f"rows.{split}", "examples": folder / f"examples.{split}"}
        run("pack_examples", PackExamples().model_dump(), twice=sides, **files)
    return folder


def test_subwords_are_those_of_subword_nmt_for_one_file(made: Path, tmp_path: Path) -> None:
    """Words that are counted twice would have other merges, because a pair must occur twice, and other counts."""
    command = ["learn-joint-bpe-and-vocab", "-s", "12", "-i", made / "tokens.train", "-o", tmp_path / "codes"]
    command += ["--write-vocabulary", tmp_path / "counts"]
    code = "from subword_nmt.subword_nmt import main; main()"
    subprocess.run([sys.executable, "-c", code, *map(str, command)], check=True, capture_output=True)
    assert (made / "codes").read_bytes() == (tmp_path / "codes").read_bytes()
    assert (made / "counts").read_bytes() == (tmp_path / "counts").read_bytes()
    counted = [line.split("\t") for line in read_lines(made / "vocabulary")][4:]
    assert sorted(f"{subword} {count}" for subword, count in counted) == sorted(read_lines(tmp_path / "counts"))


def test_examples_have_targets_only(made: Path) -> None:
    examples, vocabulary = Examples.open(made / "examples.train"), Vocabulary.read(made / "vocabulary")
    examples.check_vocabularies(vocabulary, vocabulary)
    assert [len(examples.source(position)) for position in range(len(examples))] == [0] * len(KEPT)
    found = [" ".join(vocabulary.tokens(examples.target(position))) for position in range(len(examples))]
    assert found == list(read_lines(made / "subwords.train"))


def test_lines_in_two_splits_are_counted_once(made: Path, tmp_path: Path) -> None:
    sides = {
        "train_source": made / "text.train",
        "sources": made / "text.dev",
        "source_subwords": made / "subwords.dev",
    }
    run(
        "compare_splits",
        {"splits": ["dev"], "languages": ["en", "en"], "references": [0], "overlap": "allowed"},
        twice=sides,
        counts=tmp_path / "counts",
    )
    counts = json.loads((tmp_path / "counts").read_text())["splits"]["dev"]
    assert counts["in_train"] == {"pairs": 0, "sources": 0, "targets": 1}
    assert {key: number for key, number in counts.items() if number and key != "in_train"} == {
        "pairs": 3, "blank_targets": 1,
    }  # fmt: skip


STUDY = """\
study: mono
datasets:
  news:
    language: en
    splits:
      train: [{text: train.en}]
      dev: [{text: dev.en}]
      test: {news: [{text: dev.en}]}
    overlap: allowed
systems:
  lm: {model: {family: language_model, width: 16, heads: 2}}
"""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("language: en", "language: en\n    target_language: de"), "target_language has no effect with language"),
        (("{text: train.en}", "{source: a, target: b}"), "must be {text: FILE}, because the data set is monolingual"),
        (
            ("language: en", "source_language: en\n    target_language: de"),
            "must be {source: FILE, target: FILE}, because the data set is bilingual",
        ),
        (("language: en", "language: en\n    tokenization: {source: space}"), "tokenization.source has no effect"),
        (
            ("language: en", "language: en\n    target_chunks: {origin: gold}"),
            "target_chunks has no effect in a monolingual data set",
        ),
        (("language_model", "transformer"), "datasets.news.language: lm translates, which needs two"),
    ],
)
def test_what_needs_two_sides_is_refused(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace(*change))
    with pytest.raises(StudyError) as caught:
        load_study(tmp_path / "study.yaml")
    assert any(problem in found for found in caught.value.problems), caught.value.problems
