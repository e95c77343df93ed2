"""Fetching from a server on this machine that misbehaves as the test says."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.server
import lzma
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import stage_settings
from stage_settings import fetching

from phrasemt.commands import corpora as _  # noqa: F401  imports the registry's functions before a test replaces them
from phrasemt.corpus.fetch import fetch_corpus
from phrasemt.errors import DamagedFileError, DownloadError, PhrasemtError
from phrasemt.files import download

DATA = b"".join(b"line %d of the corpus\n" % number for number in range(40_000))  # several blocks
OTHER_WAYS = (
    "put the file into a mirror folder as <corpus>/corpus.txt and name the folder in PHRASEMT_MIRROR, or use your own "
    "text files (source: and target: in the study)"
)
Handler = http.server.BaseHTTPRequestHandler
Answer = Callable[[Handler], None]


def send(
    data: bytes, *, status: int = 200, announced: int | None = None, type: str = "application/octet-stream"
) -> Answer:
    """Sends these bytes; `announced` bytes were promised, none when it is negative."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", type)
        length = len(data) if announced is None else announced
        if length >= 0:
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def serve(handler: Handler) -> None:
    """A well-behaved server with ranges."""
    start = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    if start >= len(DATA):
        send(b"", status=416)(handler)
    else:
        send(DATA[start:], status=206 if start else 200)(handler)


class Server(http.server.ThreadingHTTPServer):
    """Gives the answers of `script` one after the other, then behaves well; remembers what was asked for."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.ranges: list[str | None] = []
        super().__init__(("127.0.0.1", 0), self._handler())

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no error here."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data/corpus.txt"

    @staticmethod
    def _handler() -> type[Handler]:
        class Scripted(Handler):
            server: Server

            def do_GET(self) -> None:
                self.server.ranges.append(self.headers.get("Range"))
                (self.server.script.pop(0) if self.server.script else serve)(self)

            def log_message(self, *arguments: object) -> None:
                pass

        return Scripted


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made."""
    made: list[float] = []
    monkeypatch.setattr(download.time, "sleep", made.append)
    return made


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch, server: Server) -> Callable[..., None]:
    """Makes the registry hold one corpus with one file, as the test describes it."""
    monkeypatch.delenv("PHRASEMT_MIRROR", raising=False)
    monkeypatch.delenv("PHRASEMT_LOCK", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def make(**changes: object) -> None:
        whole = {"bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
        file = {"name": "corpus.txt", "url": server.url, **whole, **changes}
        side = {"file": file["name"]} | ({"member": "x"} if file["name"].endswith((".tgz", ".zip", ".tar")) else {})
        sides = {"en": side, "de": side}
        stage_settings.register(monkeypatch, [file], {"all": {"sides": sides}})

    make()
    return make


@pytest.fixture
def fetch_it(tmp_path: Path, register: object, pauses: object) -> Callable[..., bytes]:
    """Fetches as the command line does, to a temporary name that is deleted when that fails."""

    def run(name: str = "corpus.txt") -> bytes:
        temporary = tmp_path / ".corpus.txt.1.part"
        try:
            fetch_corpus(settings=fetching("tiny", name), cores=1, file=temporary)
            return temporary.read_bytes()
        finally:
            temporary.unlink(missing_ok=True)

    return run


Fetch = Callable[..., bytes]


CUT = send(DATA[:300_000], announced=len(DATA))
STEPS = range(0, 300_000, 100_000)


@pytest.mark.parametrize(
    ("script", "ranges", "waited"),
    [
        ([CUT], [None, "bytes=300000-"], [1.0]),
        ([CUT, send(DATA)], [None, "bytes=300000-"], [1.0]),  # a server without ranges starts again
        (
            [
                send(DATA[start : start + 100_000], announced=len(DATA) - start, status=206 if start else 200)
                for start in STEPS
            ],
            [None, *(f"bytes={start + 100_000}-" for start in STEPS)],
            [1.0, 5.0, 25.0],
        ),
        *(([send(b"busy", status=status)] * 3, [None] * 4, [1.0, 5.0, 25.0]) for status in (429, 500, 503)),
    ],
)
@pytest.mark.parametrize("size", [None, len(DATA)])
def test_a_broken_download_goes_on(
    server: Server, fetch_it: Fetch, register: Callable[..., None], pauses: list[float], size: int | None,
    script: list[Answer], ranges: list[str | None], waited: list[float],
) -> None:  # fmt: skip
    register(bytes=size)
    server.script = [*script]
    assert fetch_it() == DATA
    assert server.ranges == ranges
    assert pauses == waited


@pytest.mark.parametrize(
    ("kept", "ranges"),
    [(DATA, []), (b"x" * 1000, ["bytes=1000-", None]), (DATA + b"x", [None]), (b"y" * len(DATA), [None])],
)
def test_partial_bytes_of_another_file_are_dropped(
    server: Server, fetch_it: Fetch, tmp_path: Path, kept: bytes, ranges: list[str | None]
) -> None:
    (tmp_path / ".corpus.txt.partial").write_bytes(kept)
    assert fetch_it() == DATA
    assert server.ranges[-1:] == ranges[-1:]


def test_an_interrupted_run_keeps_its_bytes(
    server: Server, fetch_it: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    server.script = [CUT]
    with monkeypatch.context() as patched:
        patched.setattr(download.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch_it()
    assert [path.name for path in tmp_path.iterdir()] == [".corpus.txt.partial"]
    assert fetch_it() == DATA


WRONG = b"#" * len(DATA)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (send(WRONG), f"the file has the wrong checksum (expected sha256 {hashlib.sha256(DATA).hexdigest()}, found "),
        (send(DATA[:-100]), f"the file has the wrong size (expected {len(DATA)} bytes, found {len(DATA) - 100} bytes)"),
        (send(DATA + b"more", announced=-1), f"the file has the wrong size (expected {len(DATA)} bytes, found "),
        (send(b"gone", status=404), "the server does not give the file (found HTTP 404 Not Found)"),
        (
            send(b"<html>Log in</html>", type="text/html; charset=utf-8"),
            "the server sent a web page instead of the file",
        ),
    ],
    ids=["checksum", "short", "long", "404", "web page"],
)
def test_a_wrong_file_is_refused_at_once(
    server: Server, fetch_it: Fetch, pauses: list[float], tmp_path: Path, answer: Answer, message: str
) -> None:
    server.script = [answer]
    with pytest.raises(DownloadError) as raised:
        fetch_it()
    assert str(raised.value).startswith(f"{server.url}: {message}")
    assert str(raised.value).endswith(f". Next: {OTHER_WAYS}")
    assert (pauses, len(server.ranges), list(tmp_path.iterdir())) == ([], 1, [])


def test_the_first_download_of_a_file_without_checksum_is_locked(
    server: Server, fetch_it: Fetch, register: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "study.lock"
    monkeypatch.setenv("PHRASEMT_LOCK", str(lock))
    register(sha256=None, bytes=None, unverified="nobody has published one")
    assert fetch_it() == DATA
    # The form of sha256sum, with the size: `sha256sum -c` needs the columns 1 and 3.
    assert lock.read_text() == f"{hashlib.sha256(DATA).hexdigest()}  {len(DATA)}  tiny/corpus.txt\n"
    assert fetch_it() == DATA
    assert lock.read_text().count("\n") == 1
    server.script = [send(WRONG)]
    with pytest.raises(DownloadError) as raised:
        fetch_it()
    assert raised.value.next_step.endswith(f", or remove its line from {lock} if its publisher has replaced it")
    server.script = [CUT]  # a known checksum makes it safe to resume
    server.ranges.clear()
    assert fetch_it() == DATA
    assert server.ranges == [None, "bytes=300000-"]


def test_a_lock_file_that_was_edited_or_cannot_be_written(
    fetch_it: Fetch, register: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(sha256=None, bytes=None, unverified="nobody has published one")
    lock = tmp_path / "study.lock"
    lock.write_text("0123  5  tiny/corpus.txt\n")
    monkeypatch.setenv("PHRASEMT_LOCK", str(lock))
    with pytest.raises(DamagedFileError, match=r"study\.lock, line 1: not a line of a lock file"):
        fetch_it()
    monkeypatch.setenv("PHRASEMT_LOCK", str(tmp_path / "nowhere" / "study.lock"))
    with pytest.raises(PhrasemtError, match="the checksum of a fetched file cannot be recorded"):
        fetch_it()


def test_a_file_without_checksum_is_never_continued(
    server: Server, fetch_it: Fetch, register: Callable[..., None], tmp_path: Path
) -> None:
    register(sha256=None, bytes=None, unverified="the source changes every week")
    (tmp_path / ".corpus.txt.partial").write_bytes(WRONG[:100])
    server.script = [send(WRONG[:300_000], announced=len(WRONG))]
    assert fetch_it() == DATA
    assert server.ranges == [None, None]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("corpus.txt", b"", "the file is empty"),
        ("corpus.txt", b"\n <!DOCTYPE html><p>Log in", "the file is a web page"),
        ("corpus.txt", b"<HTML><p>Log in", "the file is a web page"),
        ("corpus.gz", gzip.compress(DATA)[:-9], "the archive is damaged or cut off"),
        ("corpus.tgz", b"not found", "the archive is damaged or cut off"),
        ("corpus.xz", lzma.compress(DATA)[:-9], "the archive is damaged or cut off"),
        ("corpus.bz2", bz2.compress(DATA)[:-9], "the archive is damaged or cut off"),
        ("corpus.zip", b"PK\3\4" + DATA[:5000], "the archive is damaged or cut off"),
        ("corpus.tar", tarfile.TarInfo("x").tobuf()[:300], "the archive is damaged or cut off"),
    ],
)
def test_a_file_without_checksum_is_looked_into(
    server: Server, fetch_it: Fetch, register: Callable[..., None], name: str, data: bytes, message: str
) -> None:
    """Without a length, nothing else shows that the server sent something else, or that the connection ended."""
    register(name=name, sha256=None, bytes=None, unverified="nobody has published one")
    server.script = [send(data, announced=-1)]
    with pytest.raises(DownloadError, match=message):
        fetch_it(name)


@pytest.fixture
def mirror(tmp_path_factory: pytest.TempPathFactory, register: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    (folder / "tiny").mkdir()
    monkeypatch.setenv("PHRASEMT_MIRROR", str(folder))
    return folder


def test_a_file_that_only_a_person_may_download(
    server: Server, fetch_it: Fetch, register: Callable[..., None], mirror: Path
) -> None:
    register(by_hand="log in and accept the terms")
    with pytest.raises(DownloadError, match=r"expected tiny/corpus.txt in the mirror .*: log in and accept the terms"):
        fetch_it()
    (mirror / "tiny" / "corpus.txt").write_bytes(DATA)
    assert fetch_it() == DATA
    assert server.ranges == []
