"""How tables, times, memory, sizes and numbers of jobs are shown to people.

The libraries tabulate and rich leave out no empty columns, and rich wraps or cuts what is wider than the terminal, for
which it takes 80 characters in a pipe.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime


def table(rows: Sequence[Sequence[str]], *, right_aligned: Collection[str] = (), indent: str = "") -> Iterator[str]:
    """Yield the lines of a table. Columns without content are left out.

    rows: the first row has the headings. right_aligned: headings of the columns to align at the right.
    """
    columns = []
    for heading, *cells in zip(*rows, strict=True):
        if any(cells):
            width = max(map(len, (heading, *cells)))
            side = ">" if heading in right_aligned else "<"
            columns.append([f"{cell:{side}{width}}" for cell in (heading, *cells)])
    for row in zip(*columns, strict=True):
        yield indent + "  ".join(row).rstrip()


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 12:03:59."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def about(seconds: float) -> str:
    """An estimate, to two digits in a unit that people read: about 7.6 days."""
    for unit, length in (("days", 24 * 3600), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"about {two_digits(seconds / length)} {unit}"
    return f"about {two_digits(seconds)} seconds"


def two_digits(number: float) -> str:
    """A positive number with two significant digits: 340, 7.6, 0.052."""
    digits = 1 - math.floor(math.log10(number)) if number else 0
    return f"{round(number, digits):,.{max(0, digits)}f}"


def counted(number: int, thing: str) -> str:
    """A number of things: 1 job, 1,200 jobs."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def local_time(moment: datetime) -> str:
    """A moment in the time zone of this machine."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def memory(mib: float) -> str:
    """Memory in the unit that people read: 812 MiB, 1.2 GiB."""
    return f"{mib:.0f} MiB" if mib < 1000 else f"{mib / 1024:.1f} GiB"


def size(number: float) -> str:
    """A number of bytes in kB, MB or GB: 1.2 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / 1e3:.1f} kB"
