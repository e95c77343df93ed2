"""The registry is complete and consistent, and true of the files of the mirror where there is one."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from pydantic import ValidationError
from sacrebleu.dataset import DATASETS
from stage_settings import extracting

from phrasemt.corpus.extract import extract_text
from phrasemt.errors import DataError
from phrasemt.files.lines import count_lines
from phrasemt.files.source_file import SourceFile
from phrasemt.registry.corpora import REGISTRY_FILE, corpus, files_of, load_registry, read_with, side_of, source_file

SIDES = [
    (entry.id, part, language)
    for entry in load_registry().values()
    for part in entry.parts
    for language in entry.parts[part].sides
]


def test_files_have_a_url_and_a_checksum() -> None:
    for entry in load_registry().values():
        for file in entry.files:
            url = urlsplit(file.url)
            assert url.scheme in ("http", "https"), file
            assert url.hostname, file
            if file.by_hand:  # the page where a person gets the file
                continue
            assert url.path.rsplit("/", 1)[1] == file.name
            # The lock file of a study has the checksums of the files of which no digest is published.
            assert file.checksum is not None or file.name == "lingeval97.json" or entry.id == "news-en-de"
            if file.checksum is not None:
                algorithm, digest = file.checksum
                assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size, file
        used = {side.file for part in entry.parts.values() for side in part.sides.values()}
        used |= {name for pairs in entry.contrasts.values() for name in pairs.files}
        assert sorted(used) == sorted(file.name for file in entry.files), entry.id


def test_a_file_without_a_checksum_says_why() -> None:
    with pytest.raises(ValidationError, match="neither sha256 nor md5"):
        SourceFile.model_validate({"name": "a.zip", "url": "http://host/a.zip"})


def test_files_of_every_side() -> None:
    for corpus_id, part, language in SIDES:
        names = files_of(corpus_id, part, language)
        assert [source_file(corpus_id, name).name for name in names] == names
        ready = side_of(corpus_id, part, language).file
        rule = corpus(corpus_id).parts[part].selection
        assert (ready in names) == (rule is None or not rule.parts), (corpus_id, part)
        assert ready in files_of(corpus_id, part, language, lambda file: True)
        assert corpus(corpus_id).parts[part].sha256.keys() == (set() if rule is None else {"en", "de"})


def test_sides_say_where_their_text_is() -> None:
    """A column belongs to the format tsv, a member to an archive, and each archive needs one; parts name others."""
    entries = yaml.safe_load(REGISTRY_FILE.read_text(encoding="utf-8"))
    assert len({entry["id"] for entry in entries}) == len(entries)
    for corpus_id, part, language in SIDES:
        side = side_of(corpus_id, part, language)
        assert (side.format == "tsv") == (side.column is not None), (corpus_id, part)
        assert side.file.endswith((".zip", ".tar", ".tar.gz", ".tgz")) == (side.member is not None), (corpus_id, part)
        assert read_with(corpus_id, part).keys() <= corpus(corpus_id).parts.keys()


def test_members_of_the_test_sets_are_those_of_sacrebleu() -> None:
    for corpus_id, name in (("wmt12-test", "wmt12"), ("wmt13-test", "wmt13"), ("wmt14-test-full", "wmt14/full"),
                            ("wmt15-test", "wmt15"), ("wmt16-test", "wmt16"), ("wmt17-test", "wmt17"),
                            ("wmt17-dev", "wmt17/dev")):  # fmt: skip
        witness = DATASETS[name]
        (file,) = corpus(corpus_id).files
        assert [file.url] == witness.data
        assert [file.md5] == witness.md5
        for part in corpus(corpus_id).parts.values():
            (other,) = set(part.sides) - {"en"}
            sides = {language: side.member for language, side in part.sides.items()}
            # One of the directions, because the files of the other one may be other files.
            assert any(
                {source: files[0], target: files[1]} == sides
                for source, target in (("en", other), (other, "en"))
                for files in [witness.langpairs[f"{source}-{target}"]]
            )


def test_mirror_files_match_their_checksums(shared_data: Path) -> None:
    checked = 0
    for entry in load_registry().values():
        for file in entry.files:
            path = shared_data / entry.id / file.name
            if path.is_file():
                data = path.read_bytes()
                assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256), path
                checked += 1
    assert checked >= 15


@pytest.mark.slow
def test_mirror_files_hold_the_expected_lines(shared_data: Path, tmp_path: Path) -> None:
    checked = 0
    for corpus_id, part, language in SIDES:
        paths = [shared_data / corpus_id / name for name in files_of(corpus_id, part, language, lambda file: True)]
        if all(path.is_file() for path in paths):
            settings = extracting(corpus_id, part, language)
            extract_text(settings=settings, cores=1, files=paths, text=tmp_path / "text")
            assert count_lines(tmp_path / "text") == corpus(corpus_id).parts[part].lines
            checked += 1
    assert checked >= 17


@pytest.mark.slow
@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_verses_equal_the_ready_texts(shared_data: Path, tmp_path: Path, part: str) -> None:
    for language in ("en", "de"):
        files = [shared_data / "bible-en-de" / name for name in files_of("bible-en-de", part, language)]
        settings = extracting("bible-en-de", part, language)
        extract_text(settings=settings, cores=1, files=files, text=tmp_path / "text")
        ready = shared_data / "bible-en-de" / f"{part}.{language}.gz"
        assert (tmp_path / "text").read_bytes() == gzip.decompress(ready.read_bytes())


LIST_THEM = "Next: run `phrasemt corpora` to list the corpora, `phrasemt corpora ID` for the parts and languages of one"


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(DataError) as raised:
        corpus("multi30")
    assert str(raised.value) == (
        f"the registry of corpora: unknown corpus (expected one of {', '.join(load_registry())}, "
        f"found 'multi30'; did you mean 'multi30k'?). {LIST_THEM}"
    )
    with pytest.raises(DataError, match=r"corpus multi30k: unknown part .* found 'test_2016'; did you mean 'test_20"):
        files_of("multi30k", "test_2016", "en")
    with pytest.raises(DataError) as raised:
        files_of("multi30k", "train", "zz")
    assert str(raised.value) == (
        f"corpus multi30k, part train: unknown language (expected one of en, de, fr, found 'zz'). {LIST_THEM}"
    )
    with pytest.raises(DataError, match="corpus multi30k: unknown file"):
        source_file("multi30k", "train.cs.gz")
