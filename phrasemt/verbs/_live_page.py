"""The page of `phrasemt status --html` and `--serve`: jobs, expected end and learning curves of a run that goes on."""

from __future__ import annotations

import contextlib
import errno
import http.server
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.report.page import Section, fill, write_page
from phrasemt.report.sections.trainings import curves_section, read_unfinished
from phrasemt.runs.notes import latest_run, study_of
from phrasemt.runs.status import JobStatus, Status
from phrasemt.study.reading import load_study
from phrasemt.verbs.status import (
    MOST_LOGS,
    MOST_SHOWN,
    counts_by_rule,
    expected_end,
    last_lines,
    local_time,
    states_shown,
    what_of,
)
from phrasemt.workflow.paths import Paths

# A page that several browsers ask for is not made again within this many seconds.
_FRESH = 2.0


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """A job that runs or has failed. share: of its updates, for a training. log: its last lines, of a failed job."""

    name: str
    what: str
    where: str
    share: float | None
    log: Sequence[str]


def live_page(status: Status, *, refresh: float) -> str:
    """Return the page about a run. refresh: seconds after which a browser reads the page again, 0 for never."""
    run = status.run
    rules = counts_by_rule(run, status.jobs)
    total: Counter[str] = sum(rules.values(), Counter())
    jobs = fill(
        __file__,
        status=status,
        since=local_time(run.begin),
        written=local_time(status.now),
        end=" ".join(expected_end(status)),
        total=total,
        states=states_shown(total),
        rules={rule: counts for rule, counts in rules.items() if counts["done"] < counts.total()},
        running=_shown(status, "running"),
        failed=_shown(status, "failed"),
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


def _shown(status: Status, state: str) -> list[_Shown]:
    jobs = [job for job in status.jobs if job.state == state][:MOST_SHOWN]
    return [_job(job, status, with_log=state == "failed" and place < MOST_LOGS) for place, job in enumerate(jobs)]


def _job(job: JobStatus, status: Status, *, with_log: bool) -> _Shown:
    note, training = job.note, job.training
    assert note is not None
    return _Shown(
        name=f"{job.planned.rule} {job.planned.name}",
        what=what_of(job, note, status.now),
        where=note.host + (f", Slurm job {note.queue_job}" if note.queue_job else f", process {note.pid}"),
        share=training.update / training.max_updates if training else None,
        log=last_lines(Path(job.planned.log or "")) if with_log else (),
    )


def serve(page: Callable[[], str], port: int) -> None:
    """Serve a page on 127.0.0.1 until Ctrl-C. page: makes it. Raises PhrasemtError when the port is in use."""
    lock = threading.Lock()
    made = (0.0, "")

    def fresh() -> str:
        nonlocal made
        with lock:
            if time.monotonic() - made[0] > _FRESH or not made[1]:
                made = time.monotonic(), page()
            return made[1]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/":
                self.send_response(404 if self.path != "/favicon.ico" else 204)
                self.end_headers()
                return
            try:
                content, answer = fresh().encode(), 200
                kind = "text/html"
            except PhrasemtError as error:  # such as a note of a run that another version writes
                content, answer, kind = f"{error}\n".encode(), 503, "text/plain"
            self.send_response(answer)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the browser has left
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Stay silent; the lines of http.server name every request."""

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise PhrasemtError(
            "the port is in use" if error.errno == errno.EADDRINUSE else "the port may not be used",
            where=f"127.0.0.1:{port}",
            next_step="another number after --serve, or --serve 0, which takes a free port",
        ) from None
    with server:
        print(f"http://127.0.0.1:{server.server_port} (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    print()
