"""A `python` that has imported all libraries, for tests that start many short commands.

A job at the size micro computes for a tenth of a second and imports libraries for two or three; a dry run of Snakemake
imports for half of its time. The server below has imported the libraries of Snakemake and of all stages. It forks a
process for each command `python -m snakemake ...` or `python -m phrasemt ...`, with the arguments, folder, environment
and streams of the caller. That process imports phrasemt again when the copy in the caller's folder was edited. Other
commands start as ever. No signal reaches that process, so tests that stop or kill one do without.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PYTHON = """\
#!{python} -IS
import json, os, socket, sys
if sys.argv[1:3] not in (["-m", "phrasemt"], ["-m", "snakemake"]):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    exit_code = server.recv(1)
sys.exit(exit_code[0] if exit_code else "the process of this command ended without an exit code")
"""
_REPOSITORY = Path(__file__).parents[2]
# What Snakemake and stages import only when they need it.
_OF_STANZA = "stanza.models.constituency_parser", "stanza.models.ner_tagger"
_LATER = ("smart_open", "pycountry", "snakemake.report", *_OF_STANZA)
_OURS = ("phrasemt", "democorpus")


class WarmPython(NamedTuple):
    """path: of the `python`. variables: with them, the commands that Snakemake starts find it."""

    path: Path
    variables: dict[str, str]


@contextlib.contextmanager
def warm_python(folder: Path) -> Iterator[WarmPython]:
    """Runs the server. The folder's path must be short enough for a socket."""
    address, python = folder / "server", folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(_PYTHON.format(python=sys.executable, address=str(address)))
    python.chmod(0o755)
    settings = folder / "settings_of_bash"  # phrasemt puts the folder of its own python first on the PATH
    settings.write_text(f"PATH={shlex.quote(str(python.parent))}:$PATH\n")
    server = subprocess.Popen(
        [sys.executable, __file__, str(address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout.readline() == "ready\n"
        yield WarmPython(python, {"BASH_ENV": str(settings)})
    finally:
        server.kill()
        server.communicate()


def _import_all() -> None:
    """Import all that the commands import, and take the digests of the code, which each run asks for."""
    for module in pkgutil.iter_modules():
        if module.name.startswith("snakemake_"):  # Snakemake imports all its plugins
            importlib.import_module(module.name)
    stages = importlib.import_module("phrasemt.stages").STAGES.values()
    ours = "phrasemt.cli", "phrasemt.runs.start", *(stage.module for stage in stages)
    for name in ("snakemake.cli", *_LATER, *ours):
        importlib.import_module(name)
    for stage in stages:
        sys.modules["phrasemt.workflow.code"].code_digest(stage.module)


def _state_of_code(folder: Path) -> dict[Path, tuple[int, int]]:
    """Sizes and times of all files of our packages in a folder. A copy of a folder keeps the times."""
    paths = [path for name in _OURS for path in (folder / name).rglob("*.*") if path.suffix != ".pyc"]
    return {path.relative_to(folder): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def _next_caller(address: str) -> socket.socket:
    """Serve callers. Returns, in a process of its own for each, the connection to the caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            caller, _ = server.accept()
            if os.fork() == 0:
                break
            caller.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return caller


def _answer(caller: socket.socket) -> None:
    """Do what the caller asks for, and send it the exit code."""
    length, streams, _, _ = socket.recv_fds(caller, 4, 3)
    with caller.makefile("rb") as request:
        (module, *arguments), folder, environment = json.loads(request.read(int.from_bytes(length, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The streams of Python so far know the kind of the files that were behind them.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    folders = [folder, *environment.get("PYTHONPATH", folder).split(os.pathsep)]
    sys.path[:1] = folders  # the first was that of this file
    if _state_of_code(Path(folder)) != _state_of_code(_REPOSITORY):
        for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
            del sys.modules[name]
    sys.argv[1:] = arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        exit_code = 0
    except SystemExit as left:
        exit_code = left.code if isinstance(left.code, int) else bool(left.code)
    except BaseException:
        traceback.print_exc()
        exit_code = 1
    atexit._run_exitfuncs()  # a run of Snakemake takes its claim of the folder away
    sys.stdout.flush()
    sys.stderr.flush()
    caller.send(bytes([exit_code]))


if __name__ == "__main__":
    _import_all()
    gc.freeze()  # a collection in a forked process would copy all that is imported
    _answer(_next_caller(sys.argv[1]))
    os._exit(0)  # to take all libraries down takes a second
