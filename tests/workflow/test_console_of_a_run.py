"""What a person sees while a study runs: on a terminal, in a file, after a failure, with `--verbose`."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from processes import wait_until
from warm_python import WarmPython
from workplace import Workplace

FOLDER = "results/tiny/demo.en-de"
TOKENS = f"{FOLDER}/tokens/dev.en"
LINES = r"""
\d\d:\d\d:\d\d  tiny: 3 jobs to do
\d\d:\d\d:\d\d  Generate the dev pairs of demo \(0:00:\d\d\)
\d\d:\d\d:\d\d  Check and clean the dev pairs of demo \(0:00:\d\d\)
\d\d:\d\d:\d\d  Tokenize the en side of demo dev \(0:00:\d\d\)
\d\d:\d\d:\d\d  tiny: finished, 3 jobs in 0:00:\d\d
"""
CHATTER = (
    "Building DAG of jobs",
    "Job stats",
    "Select jobs to execute",
    "Finished jobid",
    "steps (",
    "python -m phrasemt",
)


@pytest.fixture
def new(repository: Path, tmp_path: Path, warm: WarmPython) -> Workplace:
    return Workplace.new(repository, tmp_path, warm=warm)


def on_a_terminal(workplace: Workplace, *arguments: str) -> tuple[int, str]:
    """Exit code of Snakemake, and all that it and its stages write to a terminal."""
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 80))
    process = subprocess.Popen(
        workplace.command(*arguments), cwd=workplace.folder, env=workplace.environment | {"TERM": "xterm"},
        stdin=end, stdout=end, stderr=end, start_new_session=True,
    )  # fmt: skip
    os.close(end)
    output = b""
    try:
        while some := os.read(terminal, 2**16):
            output += some
    except OSError:  # Linux, when the last process has closed the other end
        pass
    os.close(terminal)
    return process.wait(), output.decode()


def as_shown(output: str) -> list[str]:
    """The lines that remain on a terminal: what a carriage return and later text have written over is gone."""
    lines = []
    for line in output.replace("\r\n", "\n").split("\n"):
        shown = ""
        for text in line.split("\r"):
            shown = text + shown[len(text) :]
        lines.append(shown.rstrip())
    return lines


def test_on_a_terminal_the_last_line_is_the_progress(new: Workplace) -> None:
    code, output = on_a_terminal(new, TOKENS)
    assert code == 0, output
    assert not [words for words in CHATTER if words in output]
    assert re.search(r"\r[0-3] of 3 jobs done", output)
    lines = [line for line in as_shown(output) if not line.startswith("Using profile")]
    assert re.fullmatch(LINES.strip(), "\n".join(lines).strip()), output
    (log,) = new.folder.glob(".snakemake/log/*.log")
    assert all(words in log.read_text() for words in CHATTER[:-1])
    assert "clean_pairs: " in (new.folder / "logs/tiny/clean_pairs/demo.en-de/dev.log").read_text()


def test_in_a_file_each_line_stands_once(new: Workplace) -> None:
    done = new.snakemake(TOKENS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    first, _, lines = done.stderr.partition("\n")
    assert first.startswith("Using profile")
    assert re.fullmatch(LINES.strip(), lines.strip()), lines
    # Nothing to do
    done = new.snakemake(TOKENS)
    assert "Nothing to be done" in done.stderr


def test_a_failed_run_ends_with_the_message_of_the_stage(new: Workplace) -> None:
    assert new.snakemake(f"{FOLDER}/corpus/dev.en").returncode == 0
    (new.folder / FOLDER / "corpus" / "dev.en").write_bytes(b"\xff\n")
    done = new.snakemake(TOKENS)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not [words for words in (*CHATTER, "--settings") if words in done.stderr]
    *_, ended, what, reason, log, next_step = done.stderr.splitlines()
    assert re.search(r"tiny: failed after 0:00:\d\d, 0 of 1 job done, 1 failed$", ended)
    assert what == "  failed: Tokenize the en side of demo dev"
    assert re.match(rf"    {FOLDER}/corpus/dev\.en.*\. Next: ", reason)
    assert log == "    log: logs/tiny/tokenize_text/demo.en-de/dev.en.log"
    assert next_step.startswith("Next: mend the cause; the same command goes on. `phrasemt status tiny` shows where")
    assert reason.strip() in (new.folder / log.split()[-1]).read_text()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_was_just_starting_is_stopped_and_has_not_failed(
    repository: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    """Ctrl-C on a terminal goes to the run and to its stages, of which one has not come to its note yet."""
    new = Workplace.new(repository, tmp_path)
    cli = new.folder / "phrasemt" / "cli.py"
    starting = new.folder / "starting"
    cli.write_text(f"import pathlib, time\npathlib.Path('{starting}').touch()\ntime.sleep(600)\n")
    run = subprocess.Popen(
        new.command(TOKENS), cwd=new.folder, env=new.environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    wait_until(starting.exists, run)
    os.killpg(run.pid, signum)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "failed" not in output
    assert "Traceback" not in output
    *_, ended, what, reason, log, next_step = output.splitlines()
    assert re.search(r"tiny: stopped after 0:00:\d\d, 0 of 3 jobs done, 1 stopped$", ended)
    assert what == "  stopped: Generate the dev pairs of demo"
    assert reason == "    stopped on request, before it could say so"
    assert log == "    log: logs/tiny/generate_demo/demo.en-de/dev.log"
    assert next_step.startswith("Next: the same command goes on.")


def test_verbose_shows_all_messages(new: Workplace) -> None:
    done = new.snakemake(TOKENS, "--verbose")
    assert done.returncode == 0, done.stderr
    assert not [words for words in CHATTER if words not in done.stderr]
    assert "clean_pairs: " in done.stderr, "the message of a stage"


def test_errors_of_snakemake_are_shown(new: Workplace) -> None:
    done = new.snakemake("results/unheard")
    assert done.returncode == 1
    assert "No rule to produce results/unheard" in done.stderr
    assert "Building DAG" not in done.stderr
    assert "Unlocked working directory." in new.snakemake("--unlock").stderr
