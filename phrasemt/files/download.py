"""Downloads of files that a registry describes: resumed, tried again, and compared with the description.

A file that differs from its description never gets its name.

No HTTP library resumes: urllib3, requests and httpx repeat whole requests. pooch 1.9 deletes what an interrupted
download left, compares no sizes, and tries a wrong address as often as a busy one. The standard library needs no
package, and takes proxies and certificates from the system as curl does.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
class DownloadRequest:
    """A file to download. Messages begin with `stage`; errors end with `other_ways` of getting the file."""

    file: SourceFile
    stage: str
    other_ways: str


def download(wanted: DownloadRequest, file: Path) -> None:
    """Download a file to `file`.

    An interrupted download leaves its bytes in the same folder as `.<name>.partial`, and the next address or the next
    run continues it. Every attempt at a file without a checksum starts anew, because the bytes could belong to another
    version of the file.
    Raises DownloadError if the download fails at all addresses; the error is the one of the last address.
    """
    partial = file.with_name(f".{wanted.file.name}.partial")
    *others, last = wanted.file.url, *wanted.file.mirrors
    for address in others:
        try:
            _download(address, wanted, partial)
            break
        except DownloadError as error:
            log.warning("%s: %s\n%s: trying the next address", wanted.stage, error, wanted.stage)
    else:
        _download(last, wanted, partial)
    partial.replace(file)


class _InterruptedError(Exception):
    """An attempt failed for a temporary reason.

    stale: the bytes of earlier attempts belong to another file and must be deleted before the next attempt.
    """

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale


class FileVerifier:
    """Size and checksum of the bytes passed to `update` so far."""

    def __init__(self, wanted: DownloadRequest) -> None:
        self.wanted, self.size = wanted, 0
        self.algorithm, self.expected = wanted.file.checksum or ("sha256", "")
        self.digest = hashlib.new(self.algorithm, usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self.digest.update(block)

    def verify(self, *, where: object, next_step: str | None = None) -> None:
        """Raise DownloadError unless the bytes have the registered size and checksum."""
        file, found = self.wanted.file, self.digest.hexdigest()
        if file.bytes not in (None, self.size):
            what, sizes = "the file has the wrong size", (f"{file.bytes} bytes", f"{self.size} bytes")
            raise DownloadError(what, where=where, expected=sizes[0], found=sizes[1], next_step=next_step)
        if not self.expected:
            log.warning("%s: %s has no checksum (%s): sha256 %s", self.wanted.stage, where, file.unverified, found)
        elif found != self.expected:
            what, expected = "the file has the wrong checksum", f"{self.algorithm} {self.expected}"
            raise DownloadError(what, where=where, expected=expected, found=found, next_step=next_step)


def _download(url: str, wanted: DownloadRequest, partial: Path) -> None:
    """Try until the file is complete. The count of failed attempts starts anew after each new byte."""
    source, furthest, failures = wanted.file, 0, 0
    while True:
        try:
            _attempt(url, wanted, partial)
            return
        except _InterruptedError as error:
            if error.stale:
                partial.unlink()
            size = partial.stat().st_size if partial.exists() else 0
            furthest, failures = (size, 0) if size > furthest else (furthest, failures + 1)
            if failures > len(PAUSES):
                rest = f" to continue after the first {size} bytes" if size and source.checksum else ""
                raise DownloadError(
                    "the download failed again and again",
                    where=url,
                    expected=f"{source.bytes} bytes" if source.bytes else None,
                    found=error,
                    next_step=f"run again{rest}, or {wanted.other_ways}",
                ) from None
            pause = PAUSES[max(failures - 1, 0)]
            log.warning("%s: %s: %s; next attempt in %g s", wanted.stage, url, error, pause)
            time.sleep(pause)
        except (DownloadError, OSError):  # another file than the described one, or a full disk
            partial.unlink(missing_ok=True)
            raise


def _attempt(url: str, wanted: DownloadRequest, partial: Path) -> None:
    """Request the bytes that `partial` does not have yet, append them, and verify the file.

    Raises _InterruptedError if a later attempt may succeed, else DownloadError.
    """
    source, check = wanted.file, FileVerifier(wanted)
    if partial.exists() and source.checksum:
        with partial.open("rb") as stream:
            for block in iter(lambda: stream.read(BLOCK), b""):
                check.update(block)
    resumed = check.size
    if not resumed or resumed != source.bytes:
        with _open(url, wanted, start=resumed) as response:
            if resumed and response.status == http.HTTPStatus.OK:  # the server sends the whole file again
                check, resumed = FileVerifier(wanted), 0
            length = response.headers.get("Content-Length")
            complete = source.bytes if length is None else resumed + int(length)
            if source.bytes not in (None, complete):
                what, sizes = "the file at the source has another size than in the registry", (source.bytes, complete)
                expected, found = (f"{size} bytes" for size in sizes)
                raise DownloadError(what, where=url, expected=expected, found=found, next_step=wanted.other_ways)
            with partial.open("ab" if resumed else "wb") as target:
                for block in with_progress(_blocks(response), wanted, start=resumed):
                    target.write(block)
                    check.update(block)
        if complete is not None and check.size < complete:
            raise _InterruptedError(f"the connection ended after {check.size} of {complete} bytes")
    try:
        check.verify(where=url, next_step=wanted.other_ways)
    except DownloadError as error:
        if resumed:
            reason = f"the bytes of an earlier attempt belong to another file ({error.what})"
            raise _InterruptedError(reason, stale=True) from None
        raise


def _open(url: str, wanted: DownloadRequest, *, start: int) -> http.client.HTTPResponse:
    """The response of the server, with the bytes from `start` on. Raises errors as `_attempt`."""
    request = urllib.request.Request(url, headers={"User-Agent": f"phrasemt/{__version__}"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _InterruptedError("the partial file is longer than the file at the source", stale=True) from None
        answer = f"HTTP {error.code} {error.reason}"
        if error.code in _MAY_PASS:
            raise _InterruptedError(answer) from None
        what = "the server does not give the file"
        raise DownloadError(what, where=url, found=answer, next_step=wanted.other_ways) from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else repr(error)
        if not isinstance(reason, ssl.SSLCertVerificationError):
            raise _InterruptedError(f"no connection: {reason}") from None
        what = "the server's certificate is not valid"
        raise DownloadError(what, where=url, found=reason, next_step=wanted.other_ways) from None
    if response.headers.get_content_type() == "text/html":
        response.close()
        raise DownloadError(
            "the server sent a web page instead of the file (a log-in, an error or a proxy)",
            where=response.url,
            expected=wanted.file.name,
            found=f"text/html, HTTP {response.status}",
            next_step=wanted.other_ways,
        )
    return response


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body of a response. Raises _InterruptedError if the connection breaks."""
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(f"the connection broke: {error!r}") from None
        if not block:
            return
        yield block


def with_progress(blocks: Iterator[bytes], wanted: DownloadRequest, *, start: int) -> Iterator[bytes]:
    """Yield the blocks, and log the progress every few seconds."""
    done, last = start, time.monotonic()
    of = f" of {wanted.file.bytes / 1e6:.1f}" if wanted.file.bytes else ""
    for block in blocks:
        yield block
        done += len(block)
        if time.monotonic() - last >= PROGRESS_EVERY:
            last = time.monotonic()
            log.info("%s: %s: %.1f%s MB", wanted.stage, wanted.file.name, done / 1e6, of)
