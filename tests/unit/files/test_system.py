"""Locks of open files."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import subprocess
import sys

import pytest

from phrasemt.files.system import try_lock

HOLDER = """
import sys, time
from phrasemt.files.system import try_lock
file = open(sys.argv[1], "ab")
print(try_lock(file), flush=True)
time.sleep(600)
"""


def test_a_lock_ends_with_the_process_that_has_it(tmp_path):
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        with path.open("ab") as file:
            assert not try_lock(file)
    finally:
        holder.kill()
        holder.wait()
    with path.open("ab") as file:
        assert try_lock(file)


def _fail(number):
    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_stops_nobody(tmp_path, monkeypatch, caplog, number):
    monkeypatch.setattr(fcntl, "flock", _fail(number))
    with (tmp_path / "lock").open("ab") as file, caplog.at_level(logging.WARNING):
        assert try_lock(file)
    assert "has no locks" in caplog.text
