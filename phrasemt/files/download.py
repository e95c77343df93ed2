"""Downloads of files that a registry describes: continued, tried again, and compared with the description.

A file that differs from its description never gets its name.

No HTTP library continues a download: urllib3, requests and httpx repeat whole requests. pooch 1.9 deletes what an
interrupted download left, and tries a wrong address as often as a busy one.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.client
import logging
import lzma
import ssl
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from phrasemt import __version__
from phrasemt.errors import DownloadError
from phrasemt.files.source_file import SourceFile

log = logging.getLogger("phrasemt.files.download")

PAUSES = (1.0, 5.0, 25.0)  # seconds between attempts
_TIMEOUT = 60.0  # seconds without a byte
_BLOCK = 1 << 18
_PROGRESS_EVERY = 10.0  # seconds
_PACKED: Mapping[str, type[gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]] = {
    ".gz": gzip.GzipFile,
    ".tgz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
_BUSY = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class DownloadRequest:
    """A file to download. Messages begin with `stage`; errors end with `other_ways` of getting the file."""

    file: SourceFile
    stage: str
    other_ways: str


class _TemporaryError(Exception):
    """An attempt failed, and the next one may succeed."""


def download(wanted: DownloadRequest, file: Path) -> None:
    """Download a file to `file`.

    An interrupted download leaves its bytes in the same folder as `.<name>.partial`, and the next attempt or the next
    run continues it. Every attempt at a file without a checksum starts anew, because the bytes could belong to another
    version of the file. Raises DownloadError if all attempts fail, or if the file differs from its description.
    """
    url, partial = wanted.file.url, file.with_name(f".{wanted.file.name}.partial")
    for pause in (*PAUSES, None):
        try:
            _attempt(wanted, partial)
            break
        except _TemporaryError as error:
            if pause is None:
                what, next_step = (
                    "the download failed again and again",
                    f"run again to continue, or {wanted.other_ways}",
                )
                raise DownloadError(what, where=url, found=error, next_step=next_step) from None
            log.warning("%s: %s: %s; next attempt in %g s", wanted.stage, url, error, pause)
            time.sleep(pause)
        except (DownloadError, OSError):  # another file than the described one, or a full disk
            partial.unlink(missing_ok=True)
            raise
    partial.replace(file)


def verify(wanted: DownloadRequest, file: Path, *, where: object, next_step: str) -> None:
    """Raise DownloadError unless a file has the registered size and checksum. where: it comes from."""
    algorithm, checksum = wanted.file.checksum or ("sha256", None)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    if (expected := wanted.file.bytes) not in (None, size := file.stat().st_size):
        what, found = "the file has the wrong size", f"{size} bytes"
        raise DownloadError(what, where=where, expected=f"{expected} bytes", found=found, next_step=next_step)
    if checksum is None:
        if problem := _problem_of(file, wanted.file.name):
            raise DownloadError(problem, where=where, found=f"{size:,} bytes", next_step=next_step)
        log.warning("%s: %s has no checksum (%s): sha256 %s", wanted.stage, where, wanted.file.unverified, digest)
    elif checksum != digest:
        what, registered = "the file has the wrong checksum", f"{algorithm} {checksum}"
        raise DownloadError(what, where=where, expected=registered, found=digest, next_step=next_step)


def _problem_of(file: Path, name: str) -> str | None:
    """What shows that a file without a known checksum is not the wanted one, if anything does. name: of the file."""
    with file.open("rb") as stream:
        beginning = stream.read(512).lstrip().lower()
    if not beginning:
        return "the file is empty"
    if beginning.startswith((b"<!doctype html", b"<html")) and not name.endswith((".html", ".htm")):
        return "the file is a web page (a log-in, an error or a proxy)"
    try:
        if name.endswith(".zip"):
            with zipfile.ZipFile(file) as archive:
                archive.testzip()
        elif name.endswith(".tar"):
            with tarfile.open(file) as members:
                members.getmembers()
        elif kind := _PACKED.get(Path(name).suffix):
            with kind(file) as packed:
                while packed.read(_BLOCK):
                    pass
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        return f"the archive is damaged or cut off ({error})"
    return None


def _attempt(wanted: DownloadRequest, partial: Path) -> None:
    """Request the bytes that `partial` does not have yet, append them, and verify the file."""
    source = wanted.file
    start = partial.stat().st_size if partial.exists() and source.checksum else 0
    if not start or start != source.bytes:
        with _open(wanted, start) as response:
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:  # the server sends the whole file
                start = 0
            with partial.open("ab" if start else "wb") as target:
                for block in _blocks(response, wanted, start):
                    target.write(block)
    try:
        verify(wanted, partial, where=source.url, next_step=wanted.other_ways)
    except DownloadError as error:
        if not start:
            raise
        partial.unlink()
        raise _TemporaryError(f"the bytes of an earlier attempt belong to another file ({error.what})") from None


def _open(wanted: DownloadRequest, start: int) -> http.client.HTTPResponse:
    """The response of the server, with the bytes from `start` on if it can."""
    url = wanted.file.url
    request = urllib.request.Request(url, headers={"User-Agent": f"phrasemt/{__version__}"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _open(wanted, 0)
        answer = f"HTTP {error.code} {error.reason}"
        if error.code in _BUSY:
            raise _TemporaryError(answer) from None
        what = "the server does not give the file"
        raise DownloadError(what, where=url, found=answer, next_step=wanted.other_ways) from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else repr(error)
        if not isinstance(reason, ssl.SSLCertVerificationError):
            raise _TemporaryError(f"no connection: {reason}") from None
        what = "the server's certificate is not valid"
        raise DownloadError(what, where=url, found=reason, next_step=wanted.other_ways) from None
    if response.headers.get_content_type() == "text/html":
        response.close()
        what = "the server sent a web page instead of the file (a log-in, an error or a proxy)"
        raise DownloadError(what, where=response.url, expected=wanted.file.name, next_step=wanted.other_ways)
    return response


def _blocks(response: http.client.HTTPResponse, wanted: DownloadRequest, start: int) -> Iterator[bytes]:
    """The body of a response; logs the progress every few seconds."""
    done, last = start, time.monotonic()
    of = f" of {wanted.file.bytes / 1e6:.1f}" if wanted.file.bytes else ""
    try:
        while block := response.read(_BLOCK):
            yield block
            done += len(block)
            if time.monotonic() - last >= _PROGRESS_EVERY:
                last = time.monotonic()
                log.info("%s: %s: %.1f%s MB", wanted.stage, wanted.file.name, done / 1e6, of)
    except (OSError, http.client.HTTPException) as error:
        raise _TemporaryError(f"the connection broke: {error!r}") from None
    if response.length:
        raise _TemporaryError(f"the connection ended {response.length} bytes before the end")
