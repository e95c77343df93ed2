"""Heat maps of attention as SVG text for pages: the darkness of a cell is the square root of its weight.

Cells of a similar weight are one path, so a map of 60 x 60 cells takes a few kilobytes. Its colour is that of the text
of the page, in light and dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasemt.report.figures import Drawing

_CELL, _FONT = 14, 10
_CHARACTER = 0.58 * _FONT  # the usual width of a character
_LEVELS = 12  # shades
_GAP = 14  # between panels
_LONGEST = 18  # characters of a name
_NARROWEST = 380  # a page stretches drawings to the width of a column: cells of all maps have similar sizes


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of a heat map. weights_QK: 0 to 1, a row for each query. columns: name of each key."""

    title: str
    weights_QK: NDArray[np.float32]
    columns: Sequence[str]


def draw_heat_map(*, title: str, rows: Sequence[str], panels: Sequence[Panel], groups: Sequence[int] = ()) -> Drawing:
    """Draw panels side by side over the same queries.

    rows: name of each query. groups: rows before which a line is drawn, such as the first words of chunks. The
    description in words names for each query the key with the largest weight in all panels.
    """
    left = _width(rows) + 6
    top = max(_width(panel.columns) for panel in panels) + 22
    height = top + _CELL * len(rows) + 4
    parts, x = [], left
    for panel in panels:
        parts.append(f'<text x="{x}" y="11" font-weight="600">{_text(panel.title)}</text>')
        for number, name in enumerate(panel.columns):
            place = x + _CELL * number + _CELL * 0.72
            parts.append(f'<text transform="translate({place:.1f} {top - 4:.0f}) rotate(-90)">{_text(name)}</text>')
        parts += _cells(panel.weights_QK, x, top)
        width = _CELL * len(panel.columns)
        parts.append(
            f'<rect x="{x:.0f}" y="{top:.0f}" width="{width}" height="{_CELL * len(rows)}" fill="none" '
            'stroke="var(--grid)"/>'
        )
        parts += [
            f'<path d="M{x:.0f} {top + _CELL * row:.0f}h{width}" stroke="currentColor" stroke-width="1"/>'
            for row in groups
        ]
        x += width + _GAP
    parts += [
        f'<text x="{left - 4:.0f}" y="{top + _CELL * number + 10.5:.1f}" text-anchor="end">{_text(name)}</text>'
        for number, name in enumerate(rows)
    ]
    description = html.escape(_describe(title, rows, panels))
    opening = f'<svg viewBox="0 0 {max(x, _NARROWEST):.0f} {height:.0f}" role="img" aria-label="{description}">'
    svg = f'{opening}<g font-size="{_FONT}" fill="currentColor">{"".join(parts)}</g></svg>'
    return Drawing(svg=svg, title=title)


def _cells(weights_QK: NDArray[np.float32], left: float, top: float) -> list[str]:
    shades_QK = np.rint(np.sqrt(np.clip(weights_QK, 0, 1)) * _LEVELS).astype(int)
    paths = []
    for shade in range(1, _LEVELS + 1):
        moves = "".join(
            f"M{left + _CELL * column:.0f} {top + _CELL * row:.0f}h{_CELL}v{_CELL}h-{_CELL}z"
            for row, column in zip(*np.nonzero(shades_QK == shade), strict=True)
        )
        if moves:
            paths.append(f'<path d="{moves}" fill-opacity="{shade / _LEVELS:.2f}"/>')
    return paths


def _describe(title: str, rows: Sequence[str], panels: Sequence[Panel]) -> str:
    weights = np.concatenate([panel.weights_QK for panel in panels], axis=1)
    names = [name for panel in panels for name in panel.columns]
    found = [f"{row} attends most to {names[int(weights[number].argmax())]}" for number, row in enumerate(rows)]
    return f"{title}. Heat map. {'; '.join(found)}."


def _text(name: str) -> str:
    return html.escape(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")


def _width(names: Sequence[str]) -> float:
    return max((min(len(name), _LONGEST) for name in names), default=0) * _CHARACTER + 6
