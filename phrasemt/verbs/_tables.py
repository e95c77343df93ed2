"""Tables and sizes of files as text.

The library tabulate would save eight lines, but it takes 24 ms of `phrasemt --help` and cannot leave out empty columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def table(rows: Sequence[Sequence[str]], *, right_aligned: Collection[str] = ()) -> Iterator[str]:
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
        yield "  ".join(row).rstrip()


def size(number: float) -> str:
    """Return a number of bytes in kB, MB or GB, such as "1.2 GB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / 1e3:.1f} kB"
