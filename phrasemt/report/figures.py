"""Figures of the report as SVG text, for light and dark pages. Equal values give equal bytes.

Lines and text have the colours of the page: matplotlib draws with placeholder colours, which are then replaced by CSS
variables (`--series-1` and so on) and `currentColor`. Text remains text, so a reader can search it and a screen reader
can read it. `svg_file` makes a file of its own from a drawing.

Heat maps of attention are not of matplotlib, whose map of 60 x 60 cells takes hundreds of kilobytes: here cells of a
similar weight are one path. The darkness of a cell is the square root of its weight.
"""

from __future__ import annotations

import html
import io
import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

# Placeholder colours, which occur nowhere else in a drawing.
_SERIES = tuple(f"#0000{number:02x}" for number in range(1, 7))
_TEXT, _GRID = "#010000", "#020000"
_DASHES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SHIFT = 0.06  # of the points of neighbouring systems, in categories
_STYLE = {
    "svg.hashsalt": "phrasemt",  # without it ids in the drawing are random
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": _TEXT,
    "text.parse_math": False,  # a $ in a system's title begins no formula
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "path.simplify": False,
}
_SIZE = (5.2, 3.5)
_ROUND = (1, 2, 5, 10)  # steps between ticks
# A line with more points is drawn as means over windows of equal size.
_MAX_POINTS = 120
_LEGEND_WIDTH = 52  # characters of a line of the legend


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a figure. group: a system; all its lines have one colour and one name.

    low, high: ends of the error bars of the points; without them the points have none.
    """

    group: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure: SVG text with a description in words for screen readers, and a title."""

    svg: str
    title: str


def draw_curves(name: str, series: Sequence[Series], *, title: str, x_label: str, y_label: str) -> Drawing:
    """Draw values over updates, one line for each training. name: a name that is unique on the page."""
    figure, axes = _figure(x_label, y_label)
    series = [_thinned(line) for line in series]
    for line, style in _styled(series):
        axes.plot(line.x, line.y, marker="o" if len(line.x) == 1 else "", markersize=4, **style)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=_ROUND))
    _scale_values(axes, [value for line in series for value in line.y])
    last = "; ".join(f"{line.group} ends at {line.y[-1]:.2f}" for line in series)
    numbers = _numbers(x_label, y_label, series)
    return _finish(figure, axes, name, title, f"{y_label} by {x_label}. {last}.", numbers)


def draw_categories(
    name: str,
    categories: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    ordered: bool = True,
) -> Drawing:
    """Draw values over categories, with error bars. series: their x are indices into `categories`.

    Lines join the points of ordered categories. Names of others are long and stand slantwise.
    """
    figure, axes = _figure(x_label, y_label)
    for number, (line, style) in enumerate(_styled(series)):
        shift = _SHIFT * (number - (len(series) - 1) / 2)  # so that error bars stand side by side
        x = [place + shift for place in line.x] if line.low else line.x
        if not ordered:
            style |= {"linestyle": ""}
        axes.plot(x, line.y, marker=_MARKERS[number % len(_MARKERS)], markersize=4.5, clip_on=False, **style)
        if line.low is not None and line.high is not None:
            axes.vlines(x, line.low, line.high, colors=style["color"], linewidth=1, alpha=0.7)
    _scale_values(axes, [value for line in series for value in (*line.y, *(line.low or ()))])
    slant: dict[str, Any] = {} if ordered else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(categories)), categories, **slant)
    descriptions = []
    for line in series:
        points = [
            f"{value:.1f}{_interval(line, place)} at {categories[int(index)]}"
            for place, (index, value) in enumerate(zip(line.x, line.y, strict=True))
        ]
        descriptions.append(f"{line.group}: {', '.join(points)}")
    spoken = f"{y_label} by {x_label}. {'; '.join(descriptions)}."
    numbers = _numbers(x_label, y_label, series, categories)
    return _finish(figure, axes, name, title, spoken, numbers)


def svg_file(drawing: Drawing) -> str:
    """Return a drawing as a file of its own, in colours for a white page. It needs no style sheet."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"(--[\w-]+): (#\w+);", style[: style.index("@media")]))
    svg = drawing.svg.replace("currentColor", light["--text"])
    svg = re.sub(r"var\((--[\w-]+)\)", lambda name: light[name[1]], svg)
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1) + "\n"


def _numbers(x_label: str, y_label: str, series: Sequence[Series], categories: Sequence[str] = ()) -> str:
    """The values of a figure as lines with tabs, which its metadata hold."""
    has_intervals = any(line.low is not None for line in series)
    rows = [["name", x_label, y_label, *(["low", "high"] if has_intervals else [])]]
    for line in series:
        ends = (line.low, line.high) if line.low is not None and line.high is not None else ()
        for x, *values in zip(line.x, line.y, *ends, strict=True):
            rows.append(
                [line.group, categories[int(x)] if categories else f"{x:g}", *(f"{value:.6g}" for value in values)]
            )
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)


def _interval(line: Series, place: int) -> str:
    return "" if line.low is None or line.high is None else f" ({line.low[place]:.1f} to {line.high[place]:.1f})"


def _figure(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    return figure, axes


def _scale_values(axes: Axes, values: Sequence[float]) -> None:
    """Give the values round ticks, and no margin below 0 where none of them is negative."""
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=_ROUND))
    if min(values) >= 0:
        axes.set_ylim(bottom=max(0, axes.get_ylim()[0]))


def _styled(series: Sequence[Series]) -> list[tuple[Series, dict[str, Any]]]:
    """Give each group a colour, and other dashes after the last colour. Only the first line of a group has a label."""
    styles = dict(zip(dict.fromkeys(line.group for line in series), itertools.product(_DASHES, _SERIES), strict=False))
    named: set[str] = set()
    styled = []
    for line in series:
        dash, colour = styles[line.group]
        label = "_again" if line.group in named else line.group  # matplotlib's legend leaves out names with "_"
        named.add(line.group)
        styled.append((line, {"color": colour, "linestyle": dash, "label": label}))
    return styled


def _thinned(line: Series) -> Series:
    if len(line.x) <= _MAX_POINTS:
        return line
    window = -(-len(line.x) // _MAX_POINTS)
    parts = [slice(start, start + window) for start in range(0, len(line.x), window)]
    x, y = ([sum(values[part]) / len(values[part]) for part in parts] for values in (line.x, line.y))
    return Series(group=line.group, x=x, y=y)


def _finish(figure: Figure, axes: Axes, name: str, title: str, description: str, numbers: str) -> Drawing:
    with matplotlib.rc_context(_STYLE):
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels)) <= _LEGEND_WIDTH // 2 else 1
        texts = [textwrap.fill(label, _LEGEND_WIDTH) for label in labels]
        legend = figure.legend(handles, texts, loc="outside upper left", ncols=columns, handlelength=1.6)
        figure.set_figheight(4 * _SIZE[1])
        figure.draw_without_rendering()  # measures the legend
        figure.set_figheight(_SIZE[1] + legend.get_window_extent().height / figure.dpi)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Drawing(svg=_for_page(buffer.getvalue(), name, f"{title}. {description}", numbers), title=title)


def _for_page(svg: str, name: str, description: str, numbers: str) -> str:
    """Turn an SVG file into a part of a page: no header, no style sheet, unique ids, colours and fonts of the page."""
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    view = re.search(r'viewBox="[^"]*"', svg)
    assert view is not None
    opening = f'<svg {view[0]} role="img" aria-label="{html.escape(description)}">'
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r"font-family: [^;\"]*; ?", "", body)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", body)
    for number, colour in enumerate(_SERIES, start=1):
        body = body.replace(colour, f"var(--series-{number})")
    body = body.replace(_GRID, "var(--grid)").replace(_TEXT, "currentColor").replace("xlink:href", "href")
    return f"{opening}<metadata>{html.escape(numbers)}</metadata>{body}".strip()


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
