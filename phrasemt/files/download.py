"""Fetching a file that is described beforehand: resumed, tried again, and compared with its description as it streams.

A file that is not the described one never gets its name. The two registries that name files (phrasemt/corpus,
phrasemt/syntax) share this.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from phrasemt import __version__
from phrasemt.errors import DownloadError
from phrasemt.files.source_file import SourceFile

log = logging.getLogger("phrasemt.files.download")

PAUSES = (1.0, 5.0, 25.0)  # seconds before the next attempt, after one, two and three attempts without progress
TIMEOUT = 60.0  # seconds without a byte
BLOCK = 1 << 18
PROGRESS_EVERY = 10.0  # seconds
_MAY_PASS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Wanted:
    """A file to be fetched. `stage` begins the messages, `other_ways` ends the errors: how else to get the file."""

    file: SourceFile
    stage: str
    other_ways: str


def download(wanted: Wanted, file: Path) -> None:
    """Download a file to `file`.

    Bytes of a download that was interrupted stay beside it as `.<name>.partial` and are used by the next run.
    Raises DownloadError for a file that cannot be had or is not the described one.
    """
    partial = file.with_name(f".{wanted.file.name}.partial")
    try:
        _download(wanted, partial)
    except _InterruptedError as error:
        kept = partial.stat().st_size if partial.exists() else 0
        raise DownloadError(
            "the download failed again and again",
            where=wanted.file.url,
            expected=f"{wanted.file.bytes} bytes" if wanted.file.bytes else None,
            found=error,
            next_step=f"run again, which goes on after the {kept} bytes that are there, or {wanted.other_ways}",
        ) from None
    except (DownloadError, OSError):  # not the described file, or a full disk
        partial.unlink(missing_ok=True)
        raise
    partial.replace(file)


class _InterruptedError(Exception):
    """A download stopped for a reason that may pass; its bytes can be used."""


class _StaleError(_InterruptedError):
    """The bytes kept from earlier do not belong to the file: to be dropped before the next attempt."""


class Check:
    """Size and checksum of the bytes seen so far."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.size = wanted, 0
        self.algorithm, self.expected = wanted.file.checksum or ("sha256", "")
        self.digest = hashlib.new(self.algorithm, usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self.digest.update(block)

    def verify(self, *, where: object, next_step: str | None = None) -> None:
        """Raises DownloadError unless these are the registered bytes."""
        if self.wanted.file.bytes not in (None, self.size):
            raise DownloadError(
                "the file has the wrong size",
                where=where,
                expected=f"{self.wanted.file.bytes} bytes",
                found=f"{self.size} bytes",
                next_step=next_step,
            )
        found = self.digest.hexdigest()
        if not self.expected:
            log.warning(
                "%s: %s has no checksum (%s): sha256 %s", self.wanted.stage, where, self.wanted.file.unverified, found
            )
        elif found != self.expected:
            raise DownloadError(
                "the file has the wrong checksum",
                where=where,
                expected=f"{self.algorithm} {self.expected}",
                found=found,
                next_step=next_step,
            )


def _download(wanted: Wanted, partial: Path) -> None:
    """Attempts until the file is complete; each attempt that brings new bytes earns further ones."""
    furthest, failures = 0, 0
    while True:
        try:
            _continue_download(wanted, partial)
            return
        except _InterruptedError as error:
            if isinstance(error, _StaleError):
                partial.unlink()
            size = partial.stat().st_size if partial.exists() else 0
            furthest, failures = (size, 0) if size > furthest else (furthest, failures + 1)
            if failures > len(PAUSES):
                raise
            pause = PAUSES[max(failures - 1, 0)]
            log.warning("%s: %s: %s; next attempt in %g s", wanted.stage, wanted.file.url, error, pause)
            time.sleep(pause)


def _continue_download(wanted: Wanted, partial: Path) -> None:
    """One attempt: asks for the bytes that `partial` lacks, appends them and verifies the whole.

    Raises _InterruptedError when a later attempt may succeed, DownloadError when none will.
    """
    check = Check(wanted)
    if partial.exists():
        with partial.open("rb") as stream:
            for block in iter(lambda: stream.read(BLOCK), b""):
                check.update(block)
    resumed = check.size
    if not resumed or resumed != wanted.file.bytes:
        with _open(wanted, start=resumed) as response:
            _refuse_web_page(response, wanted)
            if resumed and response.status == http.HTTPStatus.OK:  # this server ignores ranges: all comes again
                check, resumed = Check(wanted), 0
            announced = _announced(response, check.size)
            if announced is not None and wanted.file.bytes not in (None, announced):
                raise DownloadError(
                    "the file at the source has another size than in the registry",
                    where=wanted.file.url,
                    expected=f"{wanted.file.bytes} bytes",
                    found=f"{announced} bytes",
                    next_step=wanted.other_ways,
                )
            with partial.open("ab" if resumed else "wb") as target:
                for block in with_progress(_blocks(response), wanted, start=check.size):
                    target.write(block)
                    check.update(block)
        complete = announced if announced is not None else wanted.file.bytes
        if complete is not None and check.size < complete:
            raise _InterruptedError(f"the connection ended after {check.size} of {complete} bytes")
    try:
        check.verify(where=wanted.file.url, next_step=wanted.other_ways)
    except DownloadError as error:
        if resumed:
            raise _StaleError(f"the bytes kept from an earlier attempt are of another file ({error.what})") from None
        raise


def _open(wanted: Wanted, *, start: int) -> http.client.HTTPResponse:
    """The response of the server, from byte `start` on if it can do that."""
    agent = f"phrasemt/{__version__}"
    request = urllib.request.Request(wanted.file.url, headers={"User-Agent": agent})
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
            "the server does not give the file", where=wanted.file.url, found=answer, next_step=wanted.other_ways
        ) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DownloadError(
                "the server's certificate is not valid",
                where=wanted.file.url,
                found=error.reason,
                next_step=wanted.other_ways,
            ) from None
        raise _InterruptedError(f"no connection: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _InterruptedError(f"no connection: {error!r}") from None
    return response


def _announced(response: http.client.HTTPResponse, have: int) -> int | None:
    """Size of the whole file according to the server, None when it does not say."""
    length = response.headers.get("Content-Length")
    return None if length is None else have + int(length)


def _refuse_web_page(response: http.client.HTTPResponse, wanted: Wanted) -> None:
    if response.headers.get_content_type() == "text/html":
        raise DownloadError(
            "the server sent a web page instead of the file (a log-in, an error or a proxy)",
            where=response.url or wanted.file.url,
            expected=wanted.file.name,
            found=f"text/html, HTTP {response.status}",
            next_step=wanted.other_ways,
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


def with_progress(blocks: Iterator[bytes], wanted: Wanted, *, start: int) -> Iterator[bytes]:
    """Passes blocks on; a bar on a terminal, elsewhere a message every few seconds."""
    done, last = start, time.monotonic()
    terminal = sys.stderr.isatty()
    with tqdm(
        desc=wanted.file.name, total=wanted.file.bytes, initial=start, unit="B", unit_scale=True, disable=not terminal
    ) as bar:
        for block in blocks:
            yield block
            done += len(block)
            bar.update(len(block))
            if not terminal and time.monotonic() - last >= PROGRESS_EVERY:
                last = time.monotonic()
                of = f" of {wanted.file.bytes / 1e6:.1f}" if wanted.file.bytes else ""
                log.info("%s: %s: %.1f%s MB", wanted.stage, wanted.file.name, done / 1e6, of)
