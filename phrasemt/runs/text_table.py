"""Tables as text.

The libraries tabulate and rich leave out no empty columns, and rich wraps or cuts what is wider than the terminal, for
which it takes 80 characters in a pipe.
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
