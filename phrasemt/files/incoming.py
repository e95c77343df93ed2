"""Lines of a stream that may be a file, a pipe or a keyboard, in blocks of what is there.

Python's own buffered reader waits for a full block, or gives one line at a time.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

from phrasemt.files.lines import check_length

# A pipe is asked again for this long before its lines count as a block: `cat` needs less to refill it, and somebody
# who waits for an answer does not notice.
_PATIENCE = 0.05  # seconds
_PIECE = 1 << 20  # bytes


def blocks_of_lines(descriptor: int, where: object, *, lines: int) -> Iterator[list[bytes]]:
    """The lines of a stream without their "\\n", at most `lines` in a block.

    A block ends early when the stream has no more lines yet, so a program that writes a line and waits for an answer
    gets one. The blocks of a file are full, apart from the last. A last line without "\\n" counts as a line.
    descriptor: of the stream. Raises DataError, with the name `where` of the stream, for a line of more than 1 MiB.
    """
    block: list[bytes] = []
    rest, count, ended = b"", 0, False
    while not ended:
        if block and not select.select([descriptor], [], [], _PATIENCE)[0]:
            yield block
            block = []
        piece = os.read(descriptor, _PIECE)
        ended = not piece
        *whole, rest = (rest + piece).split(b"\n")
        if ended and rest:
            whole, rest = [rest], b""
        for number, line in enumerate((*whole, rest), start=count + 1):
            check_length(line, where, number)
        count += len(whole)
        block += whole
        while len(block) >= lines:
            yield block[:lines]
            block = block[lines:]
    if block:
        yield block
