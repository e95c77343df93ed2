"""`phrasemt corpora`: all corpora, one of them, and those of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from phrasemt.cli import main
from phrasemt.registry.corpora import Corpus, corpus


def test_corpora_lists_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["corpus", "languages", "size", "parts", "terms"]
    by_id = {line.split()[0]: line for line in lines}
    assert len(by_id) == len(lines)
    assert " ".join(by_id["tatoeba-zh-en"].split()) == ("tatoeba-zh-en en zh 546.1 kB all CC-BY 2.0; attribution: ...")


def test_corpora_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpora", "tatoeba-zh-en"]) == 0
    text = capsys.readouterr().out
    assert Corpus.model_validate(yaml.safe_load(text)) == corpus("tatoeba-zh-en")
    assert "\nterms: 'CC-BY 2.0; attribution: www.manythings.org/anki and tatoeba.org'\n" in text


def test_corpora_of_a_study(
    capsys: pytest.CaptureFixture[str], repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched, what is there already, and what a person must bring; each file and corpus once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHRASEMT_MIRROR", str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "un-v1-en-ru").mkdir(parents=True)
    (tmp_path / "mirror" / "un-v1-en-ru" / "UNv1.0.en-ru.tar.gz").touch()
    here = tmp_path / "resources" / "commoncrawl" / "original" / "training-parallel-commoncrawl.tgz"
    here.parent.mkdir(parents=True)
    here.touch()
    assert main(["corpora", "--study", str(repository / "studies" / "nguyen2020-en-ru.yaml")]) == 0
    out = capsys.readouterr().out
    by_file = {line.split()[1]: line.split(maxsplit=2)[2] for line in out.splitlines()[1:8]}
    assert by_file["training-parallel-commoncrawl.tgz"].endswith(f" {here.relative_to(tmp_path)}")
    assert by_file["UNv1.0.en-ru.tar.gz"].endswith(f" {tmp_path}/mirror/un-v1-en-ru/UNv1.0.en-ru.tar.gz")
    assert "by hand: log in at this address" in by_file["1mcorpus.zip"]
    assert by_file["wiki-titles.tgz"] == "9.5 MB  http://www.statmt.org/wmt15/wiki-titles.tgz"
    assert "7 files, 3.6 GB, without 3 files of unknown size" in out
    assert out.count("  yandex-en-ru: only for registered users") == 1


def test_corpora_of_a_study_of_the_users_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "study: own\ndatasets:\n  d:\n    source_language: en\n    target_language: de\n"
        f"    partition: {{text: {{source: {study}, target: {tmp_path / 'b.de'}}}, dev: 1, test: 1}}\n"
        "systems: {base: {model: {family: transformer}}}\n"
    )
    assert main(["corpora", "--study", str(study)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "the study fetches no corpus",
        f"your file: {study}",
        f"your file: {tmp_path / 'b.de'} (missing)",
    ]
