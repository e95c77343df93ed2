"""Fetching a file of a registered corpus, from a mirror folder or from its source, verified either way.

A mirror is a folder `<mirror>/<corpus>/<file>` named by the environment variable PHRASEMT_MIRROR: for machines without
network, and for sources that have vanished. Downloads go on where they stopped. What arrives is compared with the
registry while it streams, so a file that is not the registered one never gets its name.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.metadata
import logging
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from phrasemt.config import CorpusFileSettings
from phrasemt.corpus.registry import SourceFile, source_file
from phrasemt.errors import DownloadError

log = logging.getLogger("phrasemt.corpus.fetch")

MIRROR = "PHRASEMT_MIRROR"
PAUSES = (1.0, 5.0, 25.0)  # seconds before the next attempt, after one, two and three attempts without progress
TIMEOUT = 60.0  # seconds without a byte
BLOCK = 1 << 18
PROGRESS_EVERY = 10.0  # seconds
_MAY_PASS = {408, 425, 429, 500, 502, 503, 504}


def fetch_corpus(*, settings: CorpusFileSettings, cores: int, file: Path) -> None:
    """Copy or download one file of a corpus to `file`.

    Bytes of a download that was interrupted stay beside it as `.<name>.partial` and are used by the next run.
    Raises DataError for names that the registry does not know, and DownloadError for a file that cannot be had or is
    not the registered one.
    """
    source = source_file(settings.corpus, settings.file)
    copy = _in_mirror(settings.corpus, source)
    if copy is not None:
        log.info("fetch_corpus: %s from the mirror, %s", source.name, copy)
        with copy.open("rb") as stream, file.open("wb") as target:
            check = _Check(source)
            for block in _with_progress(iter(lambda: stream.read(BLOCK), b""), source, start=0):
                target.write(block)
                check.update(block)
        check.verify(where=copy, next_step="replace it in the mirror by the registered file (`phrasemt corpora ID`)")
        return
    partial = file.with_name(f".{source.name}.partial")
    try:
        _download(source, partial)
    except _InterruptedError as error:
        kept = partial.stat().st_size if partial.exists() else 0
        raise DownloadError(
            "the download failed again and again",
            where=source.url,
            expected=f"{source.bytes} bytes" if source.bytes else None,
            found=error,
            next_step=f"run again, which goes on after the {kept} bytes that are there, or {_other_ways(source)}",
        ) from None
    except (DownloadError, OSError):  # not the registered file, or a full disk
        partial.unlink(missing_ok=True)
        raise
    partial.replace(file)


def _other_ways(source: SourceFile) -> str:
    return (
        f"put the file into a mirror folder as <corpus>/{source.name} and name the folder in {MIRROR}, or use text "
        "files of your own (source: and target: in the study)"
    )


def _in_mirror(corpus: str, source: SourceFile) -> Path | None:
    folder = os.environ.get(MIRROR)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise DownloadError(
            "the mirror is not a folder", where=MIRROR, found=repr(folder), next_step=f"correct {MIRROR} or unset it"
        )
    copy = Path(folder) / corpus / source.name
    if copy.is_file():
        return copy
    log.info("fetch_corpus: the mirror has no %s, so it comes from %s", copy, source.url)
    return None


class _InterruptedError(Exception):
    """A download stopped for a reason that may pass; its bytes can be used."""


class _StaleError(_InterruptedError):
    """The bytes kept from earlier do not belong to the file: to be dropped before the next attempt."""


class _Check:
    """Size and checksum of the bytes seen so far."""

    def __init__(self, source: SourceFile) -> None:
        self.source, self.size = source, 0
        self.algorithm, self.expected = source.checksum or ("sha256", "")
        self.digest = hashlib.new(self.algorithm, usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self.digest.update(block)

    def verify(self, *, where: object, next_step: str | None = None) -> None:
        """Raises DownloadError unless these are the bytes that the registry describes."""
        if self.source.bytes not in (None, self.size):
            raise DownloadError(
                "the file has the wrong size",
                where=where,
                expected=f"{self.source.bytes} bytes",
                found=f"{self.size} bytes",
                next_step=next_step,
            )
        found = self.digest.hexdigest()
        if not self.expected:
            log.warning("fetch_corpus: %s has no checksum (%s): sha256 %s", where, self.source.unverified, found)
        elif found != self.expected:
            raise DownloadError(
                "the file has the wrong checksum",
                where=where,
                expected=f"{self.algorithm} {self.expected}",
                found=found,
                next_step=next_step,
            )


def _download(source: SourceFile, partial: Path) -> None:
    """Attempts until the file is complete; each attempt that brings new bytes earns further ones."""
    furthest, failures = 0, 0
    while True:
        try:
            _continue_download(source, partial)
            return
        except _InterruptedError as error:
            if isinstance(error, _StaleError):
                partial.unlink()
            size = partial.stat().st_size if partial.exists() else 0
            furthest, failures = (size, 0) if size > furthest else (furthest, failures + 1)
            if failures > len(PAUSES):
                raise
            pause = PAUSES[max(failures - 1, 0)]
            log.warning("fetch_corpus: %s: %s; next attempt in %g s", source.url, error, pause)
            time.sleep(pause)


def _continue_download(source: SourceFile, partial: Path) -> None:
    """One attempt: asks for the bytes that `partial` lacks, appends them and verifies the whole.

    Raises _InterruptedError when a later attempt may succeed, DownloadError when none will.
    """
    check = _Check(source)
    if partial.exists():
        with partial.open("rb") as stream:
            for block in iter(lambda: stream.read(BLOCK), b""):
                check.update(block)
    resumed = check.size
    if not resumed or resumed != source.bytes:
        with _open(source, start=resumed) as response:
            _refuse_web_page(response, source)
            if resumed and response.status == http.HTTPStatus.OK:  # this server ignores ranges: all comes again
                check, resumed = _Check(source), 0
            announced = _announced(response, check.size)
            if announced is not None and source.bytes not in (None, announced):
                raise DownloadError(
                    "the file at the source has another size than in the registry",
                    where=source.url,
                    expected=f"{source.bytes} bytes",
                    found=f"{announced} bytes",
                    next_step=_other_ways(source),
                )
            with partial.open("ab" if resumed else "wb") as target:
                for block in _with_progress(_blocks(response), source, start=check.size):
                    target.write(block)
                    check.update(block)
        complete = announced if announced is not None else source.bytes
        if complete is not None and check.size < complete:
            raise _InterruptedError(f"the connection ended after {check.size} of {complete} bytes")
    try:
        check.verify(where=source.url, next_step=_other_ways(source))
    except DownloadError as error:
        if resumed:
            raise _StaleError(f"the bytes kept from an earlier attempt are of another file ({error.what})") from None
        raise


def _open(source: SourceFile, *, start: int) -> http.client.HTTPResponse:
    """The response of the server, from byte `start` on if it can do that."""
    agent = f"phrasemt/{importlib.metadata.version('phrasemt')}"
    request = urllib.request.Request(source.url, headers={"User-Agent": agent})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        answer = f"HTTP {error.code} {error.reason}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _StaleError("more bytes are kept from an earlier attempt than the file has") from None
        if error.code in _MAY_PASS:
            raise _InterruptedError(answer) from None
        raise DownloadError(
            "the server does not give the file", where=source.url, found=answer, next_step=_other_ways(source)
        ) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DownloadError(
                "the server's certificate is not valid",
                where=source.url,
                found=error.reason,
                next_step=_other_ways(source),
            ) from None
        raise _InterruptedError(f"no connection: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _InterruptedError(f"no connection: {error!r}") from None
    return response


def _announced(response: http.client.HTTPResponse, have: int) -> int | None:
    """Size of the whole file according to the server, None when it does not say."""
    length = response.headers.get("Content-Length")
    return None if length is None else have + int(length)


def _refuse_web_page(response: http.client.HTTPResponse, source: SourceFile) -> None:
    if response.headers.get_content_type() == "text/html":
        raise DownloadError(
            "the server sent a web page instead of the file (a log-in, an error or a proxy)",
            where=response.url or source.url,
            expected=source.name,
            found=f"text/html, HTTP {response.status}",
            next_step=_other_ways(source),
        )


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body. Raises _InterruptedError when the connection breaks."""
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(f"the connection broke: {error!r}") from None
        if not block:
            return
        yield block


def _with_progress(blocks: Iterator[bytes], source: SourceFile, *, start: int) -> Iterator[bytes]:
    """Passes blocks on; a bar on a terminal, elsewhere a message every few seconds."""
    done, last = start, time.monotonic()
    terminal = sys.stderr.isatty()
    with tqdm(
        desc=source.name, total=source.bytes, initial=start, unit="B", unit_scale=True, disable=not terminal
    ) as bar:
        for block in blocks:
            yield block
            done += len(block)
            bar.update(len(block))
            if not terminal and time.monotonic() - last >= PROGRESS_EVERY:
                last = time.monotonic()
                of = f" of {source.bytes / 1e6:.1f}" if source.bytes else ""
                log.info("fetch_corpus: %s: %.1f%s MB", source.name, done / 1e6, of)
