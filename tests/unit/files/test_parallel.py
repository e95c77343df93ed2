"""Streams worked on in several processes: order, memory, errors of workers, no processes left; locks of files."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from processes import wait_until_gone

from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.parallel import map_in_order
from phrasemt.files.system import try_lock


def no_preparation() -> None:
    return None


def slow_square(prepared: None, number: int) -> int:
    time.sleep(0.02 if number % 5 == 0 else 0)  # later items finish earlier
    return number * number


def fail(prepared: None, number: int) -> int:
    if number == 3:
        raise DataError("bad line", where="line 3", expected="a", found="b", next_step="mend it")
    return number


def fail_to_prepare() -> None:
    raise DataError("bad codes", where="codes")


def die(prepared: None, number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_order(jobs):
    results = map_in_order(slow_square, range(40), jobs=jobs, prepare=no_preparation)
    assert list(results) == [number * number for number in range(40)]


def test_few_items_are_under_way():
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    results = map_in_order(slow_square, items(), jobs=2, prepare=no_preparation)
    for received in range(1, 20):
        next(results)
        assert taken <= received + 4
    results.close()  # must not wait for the other items


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_come_through_whole(jobs):
    results = map_in_order(fail, range(10), jobs=jobs, prepare=no_preparation)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError) as error:
        next(results)
    assert str(error.value) == "line 3: bad line (expected a, found b). Next: mend it"
    with pytest.raises(DataError, match="codes: bad codes"):
        list(map_in_order(fail, range(10), jobs=jobs, prepare=fail_to_prepare))


def test_a_killed_worker_is_an_error():
    with pytest.raises(PhrasemtError) as error:
        list(map_in_order(die, range(10), jobs=2, prepare=no_preparation))
    assert str(error.value) == (
        "a worker process was killed, often because memory ran out. Next: run again with fewer cores or more memory"
    )


def test_workers_end_with_a_killed_parent():
    code = (
        "import os, time\n"
        "from phrasemt.files.parallel import map_in_order\n"
        "def work(prepared, item):\n    return os.getpid()\n"
        "for process in map_in_order(work, range(10**9), jobs=2, prepare=int):\n"
        "    print(process, flush=True)\n"
        "    time.sleep(0.01)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    workers = {int(parent.stdout.readline()) for _ in range(20)}
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(workers)


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
