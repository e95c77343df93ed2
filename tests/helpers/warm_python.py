"""A `python` that starts the stages of a study at once, for tests that run studies of many short jobs.

A job at the size micro computes for a tenth of a second and imports libraries for two or three. The server below has
imported the modules of all stages. It forks a process for each command `python -m phrasemt STAGE ...`, with the
arguments, folder, environment and streams of the caller; other commands start as ever. No signal reaches that process,
so tests that stop or kill a stage do without.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shlex
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PYTHON = """\
#!{python} -IS
import json, os, socket, sys
if sys.argv[1:3] != ["-m", "phrasemt"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv[3:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    exit_code = server.recv(1)
sys.exit(exit_code[0] if exit_code else "the process of this stage ended without an exit code")
"""


@contextlib.contextmanager
def warm_python(folder: Path) -> Iterator[dict[str, str]]:
    """Runs the server; yields the variables with which the commands of Snakemake find the `python` that asks it.

    The folder's path must be short enough for a socket.
    """
    address, python = folder / "server", folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(_PYTHON.format(python=sys.executable, address=str(address)))
    python.chmod(0o755)
    settings = folder / "settings_of_bash"  # phrasemt puts the folder of its own python first on the PATH
    settings.write_text(f"PATH={shlex.quote(str(python.parent))}:$PATH\n")
    server = subprocess.Popen(
        [sys.executable, __file__, str(address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin
    assert server.stdout
    try:
        assert server.stdout.readline() == "ready\n"
        yield {"BASH_ENV": str(settings)}
    finally:
        server.kill()
        server.communicate()


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Answers each caller in a process of its own."""


class _Command(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        length, streams, _, _ = socket.recv_fds(self.request, 4, 3)
        with self.request.makefile("rb") as request:
            arguments, folder, environment = json.loads(request.read(int.from_bytes(length, "big")))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        try:
            exit_code = main(arguments)
        except SystemExit as left:
            exit_code = left.code if isinstance(left.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        self.request.send(bytes([exit_code]))


if __name__ == "__main__":
    # Here, because the tests that start the server need none of it.
    from phrasemt.cli import main
    from phrasemt.stages import STAGES

    for module in {stage.module for stage in STAGES.values()}:
        importlib.import_module(module)
    with _Server(sys.argv[1], _Command) as server:
        print("ready", flush=True)
        server.serve_forever()
