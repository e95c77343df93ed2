"""Work on a long stream of items, such as the lines of a text, in several processes: results in order, bounded memory.

joblib and, before Python 3.14, ProcessPoolExecutor.map keep all results that the reader has not taken yet.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import LineBlock, read_blocks, write_atomic

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


def _nothing() -> None:
    return None


def _apply(work: Callable[[Any, Item], Result], item: Item) -> Result:
    return work(_prepared(), item)


def map_in_order(
    work: Callable[[Any, Item], Result],
    items: Iterable[Item],
    *,
    jobs: int,
    prepare: Callable[..., Any] = _nothing,
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
    context = multiprocessing.get_context("fork")  # forked workers share the imported modules
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


def convert_lines(
    text: Path, tokens: Path, *, cores: int, prepare: Callable[..., Callable[[str], str]], arguments: tuple[Any, ...]
) -> tuple[int, int]:
    """Write `prepare(*arguments)(line)` for each line of a text; returns the numbers of written lines and tokens."""
    lines = count = 0
    converted = map_in_order(_convert, read_blocks(text), jobs=cores, prepare=prepare, arguments=arguments)
    with write_atomic(tokens) as stream:
        for data, lines_of_block, tokens_of_block in converted:
            stream.write(data)
            lines += lines_of_block
            count += tokens_of_block
    return lines, count


def _convert(convert: Callable[[str], str], block: LineBlock) -> tuple[bytes, int, int]:
    sentences = [convert(line) for line in block.lines()]
    text = "\n".join(sentences) + "\n"
    assert text.count("\n") == len(sentences), "a line must stay one line"
    return text.encode("utf-8"), len(sentences), text.count(" ") + len(sentences) - sentences.count("")


def count_tokens(path: Path, *, cores: int) -> Counter[str]:
    """Frequency of each token of a file, in the order of first appearance. Memory grows with the types only."""
    counts: Counter[str] = Counter()
    for part in map_in_order(_count, read_blocks(path), jobs=cores):
        counts.update(part)  # the parts come in order, so tokens keep the order of their first appearance
    return counts


def _count(prepared: None, block: LineBlock) -> Counter[str]:
    counts = Counter(" ".join(block.lines()).split(" "))
    del counts[""]  # from empty lines; a Counter ignores a missing key
    return counts
