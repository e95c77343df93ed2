"""The page of `phrasemt status --html` and `--serve`: jobs, expected end and learning curves of a run that goes on."""

from __future__ import annotations

import contextlib
import errno
import http.server
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from phrasemt.artefacts.table import Report
from phrasemt.errors import PhrasemtError
from phrasemt.report.page import Section, fill, write_page
from phrasemt.report.sections.trainings import curves_section, read_unfinished
from phrasemt.runs.notes import latest_run, study_of
from phrasemt.runs.status import MOST_LOGS, MOST_SHOWN, Status
from phrasemt.runs.units import local_time
from phrasemt.study.reading import load_study
from phrasemt.workflow.paths import Paths

# A page that several browsers ask for is not made again within this many seconds.
_FRESH = 2.0
# Pages of elsewhere whose name leads here, as by DNS rebinding, ask under that name. Forwarded ports keep these names.
_NAMES = ("127.0.0.1", "localhost")
_MOST_CONNECTIONS = 32
_SECONDS_OF_SILENCE = 10.0


def live_page(status: Status, *, refresh: float, folder: Path = Path()) -> str:
    """Return the page about a run, with links to its report and logs.

    refresh: seconds after which a browser reads the page again, 0 for never. folder: that of the page, from which links
    lead.
    """
    run = status.run
    report = Path(Report.pattern.at(study=run.study))
    jobs = fill(
        __file__,
        status=status,
        since=local_time(run.started),
        written=local_time(status.now),
        most_shown=MOST_SHOWN,
        most_logs=MOST_LOGS,
        before=sum(run.done.values()),
        report=report if report.exists() else None,
        link=lambda path: quote(os.path.relpath(path, folder)),
    )
    sections = [Section(anchor="jobs", heading="Jobs", content=jobs)]
    if (so_far := curves_so_far(run.study)) is not None:
        sections.append(so_far)
    title = f"{run.study}: {status.state}"
    return write_page(
        title, f"Process {run.pid} on {run.host}", sections, refresh=max(1, round(refresh)) if refresh else 0
    )


def curves_so_far(study: str) -> Section | None:
    """Make the section with the learning curves of all trainings that have begun, finished ones too; None without."""
    folders = sorted(Path().glob(Paths(study).model.glob))
    found = [curve for curve in map(read_unfinished, folders) if curve is not None and curve.losses]
    if not found:
        return None
    titles = {curve.system: curve.system for curve in found} | _titles(study)
    order = [*_titles(study), *titles]
    found.sort(key=lambda curve: (order.index(curve.system), curve.seed))
    return curves_section(list(dict.fromkeys(curve.dataset for curve in found)), found, titles)


def _titles(study: str) -> dict[str, str]:
    """Return the titles of the systems in the study as it was when its last run began."""
    run = latest_run(study)
    with contextlib.suppress(PhrasemtError, OSError):
        if run is not None:
            return load_study(study_of(run)).titles
    return {}


def serve(page: Callable[[], str], port: int, study: str) -> None:
    """Serve a page, and the report and logs of its study, on 127.0.0.1 until Ctrl-C.

    page: makes it. Raises PhrasemtError when the port is in use.
    """
    try:
        server = _Server(page, port, study)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        what = "the port is in use" if error.errno == errno.EADDRINUSE else "the port may not be used"
        next_step = "another number after --serve, or --serve 0, which takes a free port"
        raise PhrasemtError(what, where=f"127.0.0.1:{port}", next_step=next_step) from None
    with server:
        print(f"http://127.0.0.1:{server.server_port} (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    print()


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, make: Callable[[], str], port: int, study: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._report, self._logs = Path(Report.pattern.at(study=study)), Path(Paths(study).logs)
        self._make, self._lock, self._made, self._page = make, threading.Lock(), -math.inf, ""
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def page(self) -> str:
        with self._lock:
            if time.monotonic() - self._made > _FRESH:
                self._page, self._made = self._make(), time.monotonic()
            return self._page

    def file(self, path: str) -> Path | None:
        """The report or a log of the study at a path of an address; None for all other files."""
        found = Path(unquote(path).lstrip("/")).resolve()
        log = found.suffix == ".log" and found.is_relative_to(self._logs.resolve())
        return found if (log or found == self._report.resolve()) and found.is_file() else None

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left; show other errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS_OF_SILENCE

    def do_GET(self) -> None:
        status, kind, text = 404, "text/plain", "only /, and the report and logs that it links, are here\n"
        if str(self.headers["Host"]).partition(":")[0] not in _NAMES:
            status, text = 421, f"this page is for {' and '.join(_NAMES)}\n"
        elif self.path == "/":
            try:
                status, kind, text = 200, "text/html", self.server.page()
            except PhrasemtError as error:  # such as a note of a run that another version writes
                status, text = 503, f"{error}\n"
        elif (file := self.server.file(self.path)) is not None:
            status, kind = 200, "text/html" if file.suffix == ".html" else "text/plain"
            text = file.read_text(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the browser has left
            self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Stay silent; the lines of http.server name every request."""
