"""Work on a long stream in several processes, in order, with bounded memory."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# What `prepare` built in a worker (a tokenizer, a BPE model): too large or impossible to send with each piece of work.
_prepared: Any = None


def _set_prepared(prepare: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _prepared
    _prepared = prepare(*arguments)


def _apply(work: Callable[[Any, Item], Result], item: Item) -> Result:
    return work(_prepared, item)


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
    With one job everything runs in this process. The results are the same for every number of jobs.
    """
    if jobs == 1:
        prepared = prepare(*arguments)
        for item in items:
            yield work(prepared, item)
        return
    # Forked workers share the parsed modules; "spawn" where fork is not offered or not safe (macOS).
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_set_prepared, initargs=(prepare, arguments)
    ) as executor:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(executor.submit(_apply, work, item))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def chunked(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Consecutive lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
