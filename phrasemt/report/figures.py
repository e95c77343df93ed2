"""Figures of the report as SVG files on white. Equal values give equal bytes."""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

_SERIES = ("#0072b2", "#b0348a", "#7d6200", "#6547bd", "#007d88", "#555555")
_TEXT, _GRID = "#1b1d20", "#d9dce0"
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
    """A figure: an SVG file, a title, and a description in words for screen readers."""

    svg: str
    title: str
    description: str


def draw_curves(series: Sequence[Series], *, title: str, x_label: str, y_label: str) -> Drawing:
    """Draw values over updates, one line for each training."""
    figure, axes = _figure(x_label, y_label)
    series = [_thinned(line) for line in series]
    for line, style in _styled(series):
        axes.plot(line.x, line.y, marker="o" if len(line.x) == 1 else "", markersize=4, **style)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=_ROUND))
    _scale_values(axes, [value for line in series for value in line.y])
    last = "; ".join(f"{line.group} ends at {line.y[-1]:.2f}" for line in series)
    return _finish(figure, axes, title, f"{y_label} by {x_label}. {last}.")


def draw_categories(
    categories: Sequence[str], series: Sequence[Series], *, title: str, x_label: str, y_label: str, ordered: bool = True
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
    return _finish(figure, axes, title, f"{y_label} by {x_label}. {'; '.join(descriptions)}.")


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


def _finish(figure: Figure, axes: Axes, title: str, description: str) -> Drawing:
    with matplotlib.rc_context(_STYLE):
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels)) <= _LEGEND_WIDTH // 2 else 1
        texts = [textwrap.fill(label, _LEGEND_WIDTH) for label in labels]
        legend = figure.legend(handles, texts, loc="outside upper left", ncols=columns, handlelength=1.6)
        figure.set_figheight(4 * _SIZE[1])
        figure.draw_without_rendering()  # measures the legend
        figure.set_figheight(_SIZE[1] + legend.get_window_extent().height / figure.dpi)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    # Without the header, which names the document type by an address.
    return Drawing(svg=svg[svg.index("<svg") :], title=title, description=f"{title}. {description}")
