"""Work on a long stream of items in several processes, with results in order and bounded memory.

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

# Makes the argument of `work` once in this worker, such as a tokenizer, which cannot be sent with each item.
_prepared: Callable[[], Any]


def _start_worker(prepare: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _prepared
    # `prepare` runs with the first item: an error in the initializer would be reported as a broken pool.
    _prepared = functools.cache(functools.partial(prepare, *arguments))
    # Ctrl-C reaches all processes of a terminal, and a forked process inherits the handlers of the main process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker with its parent. A worker whose parent was killed would wait for its next item forever."""
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
    """Yield `work(prepare(*arguments), item)` for each item, in the order of the items.

    `prepare` runs once per process. At most `2 * jobs` items are in work at a time, so memory does not grow with the
    stream. With one job everything runs in this process. Results do not depend on the number of jobs. If an item raises
    an error, the error is raised in place of its result.

    Raises PhrasemtError if a worker process is killed.
    """
    if jobs == 1:
        prepared = prepare(*arguments)
        for item in items:
            yield work(prepared, item)
        return
    # Forked workers share the imported modules. "spawn" is used on systems without fork or with an unsafe one (macOS).
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
        next_step = "run again with fewer cores or more memory"
        raise PhrasemtError("a worker process was killed, often because memory ran out", next_step=next_step) from None
    finally:
        executor.shutdown(cancel_futures=True)


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`; the last list may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
