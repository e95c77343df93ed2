"""Figures of the report as SVG text, for light and dark pages. Equal values give equal bytes.

Lines and text have the colours of the page: matplotlib draws with placeholder colours, which are then replaced by CSS
variables (`--series-1` and so on) and `currentColor`. Text remains text, so a reader can search it and a screen reader
can read it.
"""

from __future__ import annotations

import html
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Placeholder colours, which occur nowhere else in a drawing.
_SERIES = tuple(f"#0000{number:02x}" for number in range(1, 7))
_TEXT, _GRID = "#010000", "#020000"
_DASHES = ("-", "--", ":", "-.")
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
# A line with more points is drawn as means over windows of equal size.
_MAX_POINTS = 120


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a figure. group: a system; all its lines have one colour and one entry in the legend."""

    group: str
    x: Sequence[float]
    y: Sequence[float]


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
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    last = "; ".join(f"{line.group} ends at {line.y[-1]:.2f}" for line in series)
    return _finish(figure, axes, name, title, f"{y_label} by {x_label}. {last}.")


def draw_categories(
    name: str, categories: Sequence[str], series: Sequence[Series], *, title: str, x_label: str, y_label: str
) -> Drawing:
    """Draw values over ordered categories. series: their x are indices into `categories`."""
    figure, axes = _figure(x_label, y_label)
    for line, style in _styled(series):
        axes.plot(line.x, line.y, marker="o", markersize=4, **style)
    axes.set_xticks(range(len(categories)), categories)
    descriptions = []
    for line in series:
        points = [f"{value:.1f} at {categories[int(index)]}" for index, value in zip(line.x, line.y, strict=True)]
        descriptions.append(f"{line.group}: {', '.join(points)}")
    return _finish(figure, axes, name, title, f"{y_label} by {x_label}. {'; '.join(descriptions)}.")


def _figure(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    return figure, axes


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


def _finish(figure: Figure, axes: Axes, name: str, title: str, description: str) -> Drawing:
    with matplotlib.rc_context(_STYLE):
        labels = axes.get_legend_handles_labels()[1]
        columns = 2 if len(labels) > 1 and max(map(len, labels)) <= 28 else 1
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0, handlelength=1.6)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Drawing(svg=_for_page(buffer.getvalue(), name, f"{title}. {description}"), title=title)


def _for_page(svg: str, name: str, description: str) -> str:
    """Turn an SVG file into a part of a page: no header, no style sheet, unique ids, colours and fonts of the page."""
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    view = re.search(r'viewBox="[^"]*"', svg)
    assert view is not None
    opening = f'<svg {view[0]} role="img" aria-label="{html.escape(description)}">'
    svg = opening + svg[svg.index(">") + 1 :]
    svg = re.sub(r"font-family: [^;\"]*; ?", "", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for number, colour in enumerate(_SERIES, start=1):
        svg = svg.replace(colour, f"var(--series-{number})")
    svg = svg.replace(_GRID, "var(--grid)").replace(_TEXT, "currentColor")
    return svg.replace("xlink:href", "href").strip()
