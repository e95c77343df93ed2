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


def test_a_lock_ends_with_its_file(tmp_path):
    with (tmp_path / "lock").open("ab") as first, (tmp_path / "lock").open("ab") as second:
        assert try_lock(first)
        assert not try_lock(second)
        first.close()
        assert try_lock(second)


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


def test_other_errors_of_a_lock_are_not_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", _fail(errno.EIO))
    with (tmp_path / "lock").open("ab") as file, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        try_lock(file)
