"""`phrasemt status` on invented runs: what it counts, what it shows, and when it expects the end."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import xml.etree.ElementTree
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from invented_runs import RUN, ago, begun, gone, job, report, stage, took

from phrasemt.artefacts.training import Evaluation, EvaluationReport, Metrics, UpdateReport
from phrasemt.cli import main
from phrasemt.runs.notes import PlannedJob, StageNote, stage_note
from phrasemt.runs.status import status_of
from phrasemt.verbs import _live_page

pytestmark = pytest.mark.usefixtures("here")
Status = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(here: Path, phrasemt: Status, monkeypatch: pytest.MonkeyPatch) -> Status:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return functools.partial(phrasemt, "status")


def rows(out: str) -> dict[str, str]:
    """Each row of the table, with single spaces."""
    found = {
        line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if re.match(r"  \w+ [ \d]+$", line)
    }
    heading = next(line for line in out.splitlines() if line.split()[0] in ("done", "running", "waiting"))
    return {"": " ".join(heading.split())} | found


def test_each_job_is_in_one_state(status: Status) -> None:
    jobs = [job("translate_examples", f"{number}") for number in range(8)]
    begun(*jobs, done={"translate_examples": 30, "clean_pairs": 3})
    stage(jobs[0], state="finished", ended=ago(seconds=1))
    stage(jobs[1])
    stage(jobs[2], state="failed", ended=ago(seconds=1))
    stage(jobs[3], pid=gone())
    stage(jobs[4], host="elsewhere", silent=timedelta(minutes=9))
    stage(jobs[5], host="elsewhere", silent=timedelta(minutes=11))
    stage(jobs[6], state="finished", run="of-an-earlier-run.json")
    states = [one.state for one in status_of(RUN, datetime.now(UTC)).jobs]
    assert states == ["done", "running", "failed", "failed", "running", "failed", "waiting", "waiting"]
    code, out, err = status("demo")
    assert (code, err) == (0, "")
    assert re.match(rf"demo: running, since 20.*, process {os.getpid()} on elsewhere\n", out)
    # What is all done has no row.
    assert rows(out) == {"": "done running waiting failed", "translate_examples": "31 2 2 3", "all": "34 2 2 3"}


def test_what_waits_for_a_failure_is_blocked_and_takes_no_time(status: Status) -> None:
    failed, going = (job("train_model", name, outputs=[f"results/{name}/training.json"]) for name in ("a", "b"))
    after, last, free = (
        job("translate_examples", "a", 0),
        job("score_system", "a", 1),
        job("translate_examples", "b", 3),
    )
    begun(failed, after, last, going, free)
    stage(failed, state="failed", ended=ago(seconds=1))
    _report_of(failed, seconds_left=9000.0)
    stage(going)
    for planned, seconds in ((after, 7000), (last, 7000), (going, 100), (free, 50)):
        took(planned, seconds)
    _, out, _ = status("demo")
    expected = {"train_model": "1 1", "translate_examples": "1 1", "score_system": "1", "all": "1 1 1 2"}
    assert rows(out) == {"": "running waiting failed blocked", **expected}
    assert 50 <= status_of(RUN, datetime.now(UTC)).seconds_left <= 100 + 50
    stage(failed)  # tried again
    assert "blocked" not in status("demo")[1]


def test_failures_are_shown_the_first_with_the_last_lines_of_their_logs(status: Status) -> None:
    jobs = [job("translate_examples", f"{number}") for number in range(9)]
    begun(*jobs)
    lines = "".join(f"line {number}\n" for number in range(9)) + "phrasemt translate_examples: error: \xff\n"
    for one in jobs:
        stage(one, lines, state="failed", ended=ago(seconds=1))
    stage(jobs[1], pid=gone(), queue_job="77")
    Path(jobs[1].log or "").unlink()
    _, out, _ = status("demo")
    shown = "    | line 8\n    | phrasemt translate_examples: error: \xff\n    logs/demo/translate_examples/0.log\n"
    assert shown in out
    assert "translate_examples 0: error (" in out
    assert out.count("    | line 8\n") == 4, "of the first five, one of which has no log"
    assert "line 4" not in out
    assert "translate_examples 1: gone without a word: killed, or out of memory" in out
    assert "Slurm job 77" in out
    assert all(str(one.log) in out for one in jobs)


def test_what_stopped_on_request_waits(status: Status) -> None:
    stopped = job("train_model", "base.1")
    begun(stopped, state="failed", ended=ago(seconds=1))
    stage(stopped, state="stopped", error="stopped by SIGTERM")
    _, out, _ = status("demo")
    assert out.startswith("demo: failed, since ")
    assert rows(out) == {"": "waiting", "train_model": "1", "all": "1"}
    assert "not done: 1 job; run the same command again. Snakemake's log: snakemake.log" in out


def test_only_the_last_run_is_shown_and_one_whose_process_is_gone_was_killed(status: Status) -> None:
    note = begun(job("translate_examples", "a"), host=platform.node(), started=ago(seconds=0), pid=gone())
    _, out, _ = status("demo")
    assert out.startswith("demo: killed, since ")
    assert "expected end" not in out
    note.model_copy(update={"state": "finished"}).write(RUN.with_name("20260102T000000-1.json"))
    _, out, _ = status("demo")
    assert out.startswith("demo: finished, since ")
    assert rows(out) == {"": "done", "all": "1"}
    assert "not done" not in out


def _report_of(planned: PlannedJob, metrics: str = "", **changes: Any) -> None:
    """What a training tells of itself, in its state folder."""
    state = Path(planned.outputs[0]).parent / "state" / "0123"
    state.mkdir(parents=True)
    (state / "metrics.jsonl").write_text(metrics)
    StageNote(stage="train_model", run=RUN.name, training=report(**changes)).write(state / "note.json")


def test_a_training_tells_its_progress(status: Status) -> None:
    training = job("train_model", "base.1", outputs=["results/demo/demo.en-de/models/base/1/training.json"])
    begun(training)
    stage(training, host="elsewhere", started=ago(minutes=20))
    _report_of(training, update=1500, seconds_left=300.0, tokens_per_second=2100.0, reported=ago(seconds=0))
    progress = r"train_model base.1: for 0:20:0\d, update 1,500 of 2,000 \(75 %\), 2,100 tokens/s, 0:05:00 left"
    assert re.search(progress, status("demo")[1])
    assert 290 < status_of(RUN, datetime.now(UTC)).seconds_left <= 300


def left(*jobs: PlannedJob, **changes: Any) -> float:
    begun(*jobs, **changes)
    return status_of(RUN, datetime.now(UTC)).seconds_left


def test_the_end_is_that_of_the_longest_chain_or_of_all_work() -> None:
    chain = [job("clean_pairs", "a"), job("tokenize_text", "b", 0), job("learn_subwords", "c", 1)]
    for planned in chain:
        took(planned, 100)
    assert left(*chain) == 300
    beside = [job("translate_examples", f"{number}", threads=2) for number in range(4)]
    for planned in beside:
        took(planned, 150)
    assert left(*chain, *beside) == (300 + 4 * 2 * 150) / 2  # two cores
    assert left(*chain, *beside, cores=None) == 300  # a cluster has machines for all


def test_what_is_done_or_has_run_for_a_while_takes_less() -> None:
    jobs = [job("clean_pairs", "a"), job("translate_examples", "b", 0), job("translate_examples", "c", 1)]
    for planned in jobs:
        took(planned, 100)
    stage(jobs[0], state="finished")
    stage(jobs[1], host="elsewhere", started=ago(seconds=60))
    assert 139 <= left(*jobs) <= 141
    stage(jobs[1], host="elsewhere", started=ago(seconds=500))
    assert left(*jobs) == 100


def test_each_look_reads_the_records_of_then() -> None:
    """As with --watch, while jobs end."""
    ended, waiting = job("translate_examples", "a"), job("translate_examples", "b")
    assert left(ended, waiting, cores=None) == 0
    took(ended, 100)
    stage(ended, state="finished")
    assert left(ended, waiting, cores=None) == 100


def test_jobs_without_a_record_are_estimated_by_their_rule_or_named(status: Status) -> None:
    known, same_rule, unknown = job("translate_examples", "a"), job("translate_examples", "b"), job("score_system", "c")
    took(known, 3600)
    begun(known, same_rule, unknown, cores=None)
    assert re.search(r"expected end: not before .*\d\d:\d\d \(1 job of unknown length\)\n", status("demo")[1])
    begun(known, same_rule, cores=None)
    assert re.search(r"expected end: about .*\d\d:\d\d \(in 1:00:00\)\n", status("demo")[1])
    begun(unknown)
    assert "expected end: not known" in status("demo")[1]


def test_what_came_from_the_cache_is_counted(status: Status) -> None:
    copied, made = (job("parse_sentences", name) for name in ("0", "1"))
    begun(copied, made)
    for planned in (copied, made):
        stage(planned, state="finished", from_cache=planned is copied)
    assert "from the cache: 1" in status("demo")[1].splitlines()
    begun(copied, made, state="finished")
    assert "from the cache: 1" in status("demo")[1].splitlines()
    RUN.rename(RUN.with_name("20260101T000000-2.json"))  # without stages, as by `snakemake --touch`
    assert "cache" not in status("demo")[1]


@pytest.mark.parametrize("arguments", [[], ["--serve", "0"]])
def test_a_study_that_never_ran(status: Status, arguments: list[str]) -> None:
    code, out, err = status("unheard", *arguments)
    assert (code, out) == (2, "")
    assert "logs/unheard/runs: no run of this study has begun here yet. Next: snakemake" in err
    code, _, err = status("missing.yaml", *arguments)
    assert code == 2
    assert "missing.yaml" in err


def test_damaged_notes_do_not_stop_it(status: Status) -> None:
    planned = job("translate_examples", "a")
    begun(planned)
    stage(planned)
    stage_note(planned.log or "").write_text('{"stage": "trans')
    assert rows(status("demo")[1])["translate_examples"] == "1"
    RUN.write_text("{")
    code, out, err = status("demo")
    assert (code, out) == (2, "")
    assert f"{RUN}: the note of this run cannot be read" in err


@pytest.mark.parametrize(
    ("option", "numbers", "message"),
    [
        ("--every", ["-1", "0", "nan", "inf", "soon"], "expected a number from 0.1, found"),
        ("--serve", ["x", "-1", "70000"], "expected a whole number from 0 to 65535, found"),
    ],
)
def test_numbers_that_are_none(
    option: str, numbers: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in numbers:
        with pytest.raises(SystemExit, match="2"):
            main(["status", "demo", f"{option}={number}"])
        assert f"{message} '{number}'" in capsys.readouterr().err


def test_it_writes_nothing_and_loads_no_torch(tmp_path: Path) -> None:
    planned = job("translate_examples", "a")
    begun(planned)
    stage(planned)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    code = (
        "import sys\nfrom phrasemt.cli import main\nassert main(['status', 'demo']) == 0\n"
        "assert not {'torch', 'snakemake', 'sacrebleu', 'matplotlib'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_watching_ends_with_the_run(status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    note = begun(job("translate_examples", "a"))
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            note.model_copy(update={"state": "finished", "ended": ago(seconds=0)}).write(RUN)

    monkeypatch.setattr("phrasemt.verbs.status.time.sleep", sleep)
    code, out, _ = status("demo", "--watch", "--every", "0.5")
    assert code == 0
    assert looks == [0.5, 0.5]
    assert re.findall(r"demo: (\w+), since", out) == ["running", "running", "finished"]


def half_finished() -> None:
    """Two trainings with curves, which write a line right now, and a translation whose log would be HTML."""
    updates = {"base": 40, "max": 60}
    trainings = [
        job("train_model", f"d/{name}", outputs=[f"results/demo/d.en-de/models/{name}/1/training.json"])
        for name in updates
    ]
    failed = job("translate_examples", "d/<base>")
    begun(*trainings, failed, job("make_table", "", 0, 1, 2), done={"clean_pairs": 3})
    for training, last in zip(trainings, updates.values(), strict=True):
        stage(training)
        reports: list[UpdateReport | EvaluationReport] = [
            UpdateReport(
                update=update, seconds=9, memory_mib=9, epoch=1, loss=9 - update / 50, perplexity=9,
                learning_rate=0.1, tokens_per_second=1000, skipped=0,
            )
            for update in range(1, last + 1)
        ]  # fmt: skip
        scores = Evaluation(update=last, dev_bleu=21.5, dev_perplexity=8.25)
        reports.append(EvaluationReport(seconds=9, memory_mib=9, evaluation_seconds=1, evaluation=scores))
        metrics = "".join(map(Metrics.line, reports)) + '{"update": 3'
        _report_of(training, metrics, update=last, max_updates=100)
    stage(failed, "one\n<script>alert(1)</script>\n", state="failed", ended=ago(seconds=1))
    RUN.with_suffix(".yaml").write_text(
        "study: demo\nsystems:\n  base: {title: Transformer & <b>, model: {family: transformer}}\n"
        "datasets: {d: {source_language: en, target_language: de, generator: {train: 9, dev: 9, test: 9}}}\n"
    )


def test_the_page_shows_jobs_the_end_and_curves(status: Status) -> None:
    half_finished()
    Path("results/demo/report.html").write_text("a report")
    Path("pages").mkdir()
    assert status("demo", "--html", "pages/page.html")[0] == 0
    page = Path("pages/page.html").read_text()
    for shown in (
        "3 of 7",
        "3 of them before this run",
        '<a href="../results/demo/report.html">',
        '<a href="../logs/demo/train_model/',
        "update 40 of 100 (40 %)",
        'value="0.6000"',
        "Expected end: about",
        "&lt;script&gt;alert(1)",
        '<td class="worse">1</td>',
    ):
        assert shown in page
    assert "<script>alert" not in page
    curves = re.findall(r'aria-label="([^"]*)"', page)
    assert "Transformer &amp; &lt;b&gt; ends at 8.2" in curves[-3]
    assert "max ends at 21.50" in curves[-2]
    assert 'http-equiv="refresh"' not in page, "nothing writes this page again"


def test_the_page_is_served_on_this_machine_until_ctrl_c() -> None:
    half_finished()
    command = [sys.executable, "-m", "phrasemt", "status", "demo", "--serve"]
    server = subprocess.Popen(
        [*command, "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts commands in its background with Ctrl-C switched off, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert server.stdout is not None
    address = server.stdout.readline().split()[0]
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
        damaged = RUN.with_name("20270101T000000-1.json")
        damaged.write_text("of another version")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/")
        damaged.unlink()
        with urllib.request.urlopen(f"{address}/") as answer:
            page = answer.read().decode()
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert 'http-equiv="refresh" content="5"' in page
        assert "update 60 of 100" in page
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/../../etc/passwd")
        Path("logs/demo/secret.txt").write_text("no log")
        Path("logs/demo/of it.log").write_text("a log")
        Path("logs/demo/linked.log").symlink_to(Path("logs/demo/secret.txt").absolute())
        Path("results/demo").mkdir(parents=True, exist_ok=True)
        Path("results/demo/report.html").write_text("a report")
        answers = {"logs/demo/of%20it.log": 200, "results/demo/report.html": 200, "logs/demo/secret.txt": 404}
        for path, code in (answers | {"logs/demo/linked.log": 404, "logs/demo/../demo/none.log": 404}).items():
            assert (
                _answer_of(int(address.rsplit(":", 1)[1]), f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n") == code
            )
        port = address.rsplit(":", 1)[1]
        for host, code in (("evil.example", 421), (f"evil.example:{port}", 421), ("localhost:80", 200), ("", 421)):
            assert _answer_of(int(port), f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n") == code
        assert _answer_of(int(port), "GET / HTTP/1.0\r\n\r\n") == 421
        with socket.create_connection(("127.0.0.1", int(port))) as left:
            left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset in place of an end
            left.sendall(b"GET / HT")
        second = subprocess.run([*command, port], capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert f"127.0.0.1:{port}: the port is in use. Next: another number after --serve" in second.stderr
    finally:
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=60)
    assert (server.returncode, err) == (0, "")


def _answer_of(port: int, request: str) -> int:
    with socket.create_connection(("127.0.0.1", port)) as browser:
        browser.sendall(request.encode())
        return int(browser.makefile().readline().split()[1])


def test_connections_that_say_nothing_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live_page._Handler, "timeout", 0.5)
    with _live_page._Server(lambda: "a page", 0, "demo") as server, contextlib.ExitStack() as stack:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        before, most = threading.active_count(), 0
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=60))
            for _ in range(40)
        ]
        for browser in silent:
            most = max(most, threading.active_count() - before)
            assert browser.recv(1) == b"", "the server has ended it"
        assert most <= 32
        assert _answer_of(server.server_port, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") == 200


def test_curves_so_far_become_files(tmp_path: Path, phrasemt: Status) -> None:
    command = ("figures", "demo", "--output", "figures")
    code, _, err = phrasemt(*command)
    assert code == 2
    assert "results/demo: no figures of this study yet" in err
    half_finished()
    assert phrasemt(*command)[1].split() == [
        f"figures/d-{what}.svg" for what in ("training-loss", "dev-bleu", "dev-perplexity")
    ]
    for path in (tmp_path / "figures").iterdir():
        text = path.read_text()
        assert xml.etree.ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "currentColor" not in text
        assert "Transformer &amp; &lt;b&gt;" in text
