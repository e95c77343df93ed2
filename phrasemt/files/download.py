"""Downloads of files that a registry describes: resumed, tried again, and compared with the description.

A file that differs from its description never gets its name.

No HTTP library resumes: urllib3, requests and httpx repeat whole requests, and pooch begins again with the first byte.
The standard library needs no package, and takes proxies and certificates from the system as curl does.
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
    run continues it. The download of a file without a checksum starts anew, because the bytes could belong to another
    version of the file.
    Raises DownloadError if the download fails at all addresses; the error is the one of the last address.
    """
    partial = file.with_name(f".{wanted.file.name}.partial")
    if wanted.file.checksum is None:
        partial.unlink(missing_ok=True)
    *others, last = wanted.file.url, *wanted.file.mirrors
    for address in others:
        try:
            _Download(address, wanted, partial).run()
            break
        except DownloadError as error:
            log.warning("%s: %s\n%s: trying the next address", wanted.stage, error, wanted.stage)
    else:
        _Download(last, wanted, partial).run()
    partial.replace(file)


def problem_of_address(url: str, file: SourceFile) -> str | None:
    """Ask a server for a file, and return why it does not give the registered one; None if it does.

    Only the head of the answer is read: its size is compared, its bytes are not.
    """
    attempt = _Download(url, DownloadRequest(file, "check", "use another address"), Path())
    try:
        with attempt.open(start=0) as response:
            length = response.headers.get("Content-Length")
    except DownloadError as error:
        return f"{error.what}: {error.found}" if error.found else error.what
    except _InterruptedError as error:
        return str(error)
    if file.bytes and length and int(length) != file.bytes:
        return f"{int(length):,} bytes in place of {file.bytes:,}"
    return None


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
            what = "the file has the wrong checksum"
            raise DownloadError(
                what, where=where, expected=f"{self.algorithm} {self.expected}", found=found, next_step=next_step
            )


class _Download:
    """The attempts to download one file from one address; each one appends to `partial`."""

    def __init__(self, url: str, wanted: DownloadRequest, partial: Path) -> None:
        self.url, self.wanted, self.partial, self.source = url, wanted, partial, wanted.file
        self.etag: str | None = None  # the server's name for the version of the file

    def run(self) -> None:
        """Try until the file is complete. The count of failed attempts starts anew after each new byte."""
        furthest, failures = 0, 0
        while True:
            try:
                self._attempt()
                return
            except _InterruptedError as error:
                if error.stale:
                    self.partial.unlink()
                size = self.partial.stat().st_size if self.partial.exists() else 0
                furthest, failures = (size, 0) if size > furthest else (furthest, failures + 1)
                if failures > len(PAUSES):
                    kept = f" to continue after the first {size} bytes" if size and self.source.checksum else ""
                    raise DownloadError(
                        "the download failed again and again",
                        where=self.url,
                        expected=f"{self.source.bytes} bytes" if self.source.bytes else None,
                        found=error,
                        next_step=f"run again{kept}, or {self.wanted.other_ways}",
                    ) from None
                pause = PAUSES[max(failures - 1, 0)]
                log.warning("%s: %s: %s; next attempt in %g s", self.wanted.stage, self.url, error, pause)
                time.sleep(pause)
            except (DownloadError, OSError):  # another file than the described one, or a full disk
                self.partial.unlink(missing_ok=True)
                raise

    def _attempt(self) -> None:
        """Request the bytes that `partial` lacks, append them, and verify the file.

        Raises _InterruptedError if a later attempt may succeed, else DownloadError.
        """
        check = FileVerifier(self.wanted)
        if self.partial.exists() and (self.source.checksum or self.etag):
            with self.partial.open("rb") as stream:
                for block in iter(lambda: stream.read(BLOCK), b""):
                    check.update(block)
        resumed = check.size
        if not resumed or resumed != self.source.bytes:
            with self.open(start=resumed) as response:
                if resumed and response.status == http.HTTPStatus.OK:  # the server sends the whole file again
                    check, resumed = FileVerifier(self.wanted), 0
                length = response.headers.get("Content-Length")
                complete = self.source.bytes if length is None else resumed + int(length)
                if self.source.bytes not in (None, complete):
                    raise self._refusal(
                        "the file at the source has another size than in the registry",
                        expected=f"{self.source.bytes} bytes",
                        found=f"{complete} bytes",
                    )
                with self.partial.open("ab" if resumed else "wb") as target:
                    for block in with_progress(_blocks(response), self.wanted, start=resumed):
                        target.write(block)
                        check.update(block)
            if complete is not None and check.size < complete:
                raise _InterruptedError(f"the connection ended after {check.size} of {complete} bytes")
        try:
            check.verify(where=self.url, next_step=self.wanted.other_ways)
        except DownloadError as error:
            if resumed:
                reason = f"the bytes of an earlier attempt belong to another file ({error.what})"
                raise _InterruptedError(reason, stale=True) from None
            raise

    def open(self, *, start: int) -> http.client.HTTPResponse:
        """The response of the server: the bytes from `start` on, or the whole file if its version has changed."""
        request = urllib.request.Request(self.url, headers={"User-Agent": f"phrasemt/{__version__}"})
        if start:
            request.add_header("Range", f"bytes={start}-")
            if self.etag:
                request.add_header("If-Range", self.etag)
        try:
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            answer = f"HTTP {error.code} {error.reason}"
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                reason = "the partial file is longer than the file at the source"
                raise _InterruptedError(reason, stale=True) from None
            if error.code in _MAY_PASS:
                raise _InterruptedError(answer) from None
            raise self._refusal("the server does not give the file", found=answer) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise self._refusal("the server's certificate is not valid", found=error.reason) from None
            raise _InterruptedError(f"no connection: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(f"no connection: {error!r}") from None
        if response.headers.get_content_type() == "text/html":
            response.close()
            raise self._refusal(
                "the server sent a web page instead of the file (a log-in, an error or a proxy)",
                where=response.url,
                expected=self.source.name,
                found=f"text/html, HTTP {response.status}",
            )
        etag = response.headers.get("ETag", "")
        self.etag = etag if etag.startswith('"') else None  # a weak tag, W/"...", does not promise equal bytes
        return response

    def _refusal(self, what: str, *, where: object = None, **details: object) -> DownloadError:
        return DownloadError(what, where=where or self.url, next_step=self.wanted.other_ways, **details)


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
