"""How verbs show tables and sizes of files.

tabulate would save eight lines, and cost `phrasemt --help` 24 ms; it does not leave out empty columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def table(rows: Sequence[Sequence[str]], *, to_the_right: Collection[str] = ()) -> Iterator[str]:
    """Lines of a table whose first row has the headings; `to_the_right`: those of columns with figures.

    Columns are as wide as their widest cell; those without any cell are left out.
    """
    columns = []
    for heading, *cells in zip(*rows, strict=True):
        if any(cells):
            width = max(map(len, (heading, *cells)))
            side = ">" if heading in to_the_right else "<"
            columns.append([f"{cell:{side}{width}}" for cell in (heading, *cells)])
    for row in zip(*columns, strict=True):
        yield "  ".join(row).rstrip()


def size(number: float) -> str:
    """Bytes, for people: 1.2 GB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / 1e3:.1f} kB"
