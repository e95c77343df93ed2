"""Stanza's published models, from a server on this machine in Stanza's layout."""

from __future__ import annotations

import functools
import hashlib
import http.server
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasemt.errors import DataError, DownloadError
from phrasemt.settings import StanzaFileSettings
from phrasemt.syntax import published
from phrasemt.syntax.published import fetch_stanza_file, files_of_package, load_published

MODEL = b"a small model" * 50_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served, and the list made to describe one of its files: the folder."""
    folder = tmp_path / "served"
    model = folder / "stanza-en" / "resolve" / "v1" / "models" / "constituency" / "small.pt"
    model.parent.mkdir(parents=True)
    model.write_bytes(MODEL)
    entry = {
        "repository": "stanza-en",
        "revision": "v1",
        "files": [
            {"name": "known.pt", "path": "constituency/small.pt", "md5": hashlib.md5(MODEL).hexdigest()},
            {"name": "unknown.pt", "path": "constituency/small.pt", "md5": None, "unverified": "no list has it"},
        ],
        "packages": {"small": {"constituency": "known.pt", "vectors": "unknown.pt"}},
    }
    language = published.PublishedLanguage.model_validate(entry)
    monkeypatch.setattr(published, "load_published", lambda: {"en": language})
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *arguments: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("PHRASEMT_STANZA_URL", f"http://127.0.0.1:{running.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield folder
        running.shutdown()
        thread.join()


def fetch(path: Path, name: str) -> bytes:
    fetch_stanza_file(settings=StanzaFileSettings(language="en", file=name), cores=1, file=path)
    return path.read_bytes()


def test_a_file_in_stanzas_layout(server: Path, tmp_path: Path) -> None:
    assert fetch(tmp_path / "model.pt", "known.pt") == MODEL


def test_a_file_without_checksum_is_reported(server: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert fetch(tmp_path / "model.pt", "unknown.pt") == MODEL
    assert f"has no checksum (no list has it): sha256 {hashlib.sha256(MODEL).hexdigest()}" in caplog.text


def test_another_file_is_refused(server: Path, tmp_path: Path) -> None:
    next(server.rglob("small.pt")).write_bytes(MODEL[:-1])
    with pytest.raises(DownloadError) as raised:
        fetch(tmp_path / "model.pt", "known.pt")
    message = str(raised.value)
    assert "the file has the wrong checksum (expected md5" in message
    assert message.endswith(
        "name a place with the same layout in PHRASEMT_STANZA_URL, or give the parser's files in the study (parsers, "
        "files)"
    )
    assert not (tmp_path / "model.pt").exists()


def test_a_file_that_is_not_listed(server: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown model file \(expected one of known.pt, unknown.pt, found 'other.pt'"):
        fetch(tmp_path / "model.pt", "other.pt")


def test_packages_have_all_files_of_their_roles() -> None:
    roles = ["constituency", "tagger", "vectors", "forward_charlm", "backward_charlm"]
    packages = {(language, name) for language, entry in load_published().items() for name in entry.packages}
    assert {("en", "ptb3-revised_charlm"), ("de", "spmrl_charlm"), ("zh", "ctb-51_charlm")} <= packages
    for language, name in packages:
        assert list(files_of_package(language, name)) == roles


def test_unknown_packages_and_languages() -> None:
    with pytest.raises(DataError) as raised:
        files_of_package("en", "wsj")
    assert str(raised.value) == (
        "language en: unknown package of Stanza's parsers (expected one of ptb3-revised_charlm, ptb3_charlm, found "
        "'wsj'). Next: name one of these, give model files of your own, or let the workflow train a parser"
    )
    with pytest.raises(DataError, match=r"language fr: Stanza has no parser .*expected one of en, de, zh\)"):
        files_of_package("fr", "wsj")


def test_the_workflow_can_ask_without_importing_anything_heavy() -> None:
    code = (
        "import sys; from phrasemt.syntax.published import files_of_package; files_of_package('de', 'spmrl_charlm')\n"
        "assert not {'torch', 'stanza', 'numpy', 'pyarrow', 'urllib.request'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
