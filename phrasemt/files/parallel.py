"""Work on a long stream in several processes, in order, with bounded memory.

joblib and, before Python 3.14, ProcessPoolExecutor.map keep all results that the reader has not taken yet.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from phrasemt.errors import PhrasemtError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Makes (once) what work needs in this worker: a tokenizer, a BPE model; too large or impossible to send with each item.
_prepared: Callable[[], Any]


def _start_worker(prepare: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _prepared
    # Prepared with the first item and not here, where an error would only be reported as a broken pool.
    _prepared = functools.cache(functools.partial(prepare, *arguments))
    # Ctrl-C reaches all processes of a terminal, and the handlers inherited by forking are those of the main process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next item for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _apply(work: Callable[[Any, Item], Result], item: Item) -> Result:
    return work(_prepared(), item)


def map_in_order(
    work: Callable[[Any, Item], Result],
    items: Iterable[Item],
    *,
    jobs: int,
    prepare: Callable[..., Any],
    arguments: tuple[Any, ...] = (),
) -> Iterator[Result]:
    """`work(prepare(*arguments), item)` for each item, results in the order of the items.

    `prepare` runs once per process. At most `2 * jobs` items are under way, so memory does not grow with the stream.
    With one job everything runs in this process. The results are the same for every number of jobs. An error of one
    item is raised in its place.

    Raises PhrasemtError when a worker process is killed.
    """
    if jobs == 1:
        prepared = prepare(*arguments)
        for item in items:
            yield work(prepared, item)
        return
    # Forked workers share the parsed modules; "spawn" where fork is not offered or not safe (macOS).
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(prepare, arguments))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(executor.submit(_apply, work, item))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise PhrasemtError(
            "a worker process was killed, often because memory ran out",
            next_step="run again with fewer cores or more memory",
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Consecutive lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
