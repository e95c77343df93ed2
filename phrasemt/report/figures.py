"""Figures of the report as SVG. Equal values give equal bytes.

Their colours are classes of `figures.css`, so inside a page they follow its colours, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

_COLOURS = 7  # in figures.css; the first one, grey, is the baseline's
_WIDTH, _HEIGHT = 430, 190  # of the plot, without the labels around it
_LEFT, _RIGHT, _TOP = 48, 14, 30
_LINE_HEIGHT, _CHARACTER = 17, 6.6  # of texts, at 12 pixels
_SPREAD = 13  # between the points of neighbouring systems in one category
_LINE = Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>')
_TEXT = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>')


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a figure. group: a system; all its lines have one colour and one name.

    low, high: ends of the intervals of the points; without them the points have none. hollow: of one training.
    """

    group: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    hollow: bool = False


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure: an SVG element for a page, which describes itself to screen readers, and a title."""

    svg: str
    title: str

    @property
    def file(self) -> str:
        """The figure as a file of its own."""
        style = Path(__file__).with_name("figures.css").read_text(encoding="utf-8")
        begin, end = self.svg.split(">", 1)
        return f'{begin} xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}</style>{end}\n'


def colour_of(place: int) -> str:
    """The class of the colour of a system. place: among the systems; 0 for the baseline."""
    return "s0" if place == 0 else f"s{1 + (place - 1) % (_COLOURS - 1)}"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers with equal steps, the first at most `low` and the last at least `high`."""
    high = high if high > low + 1e-6 else low + 1  # sums of equal numbers differ by their rounding
    smallest = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    steps = (smallest * factor for factor in (1, 2, 5, 10, 20, 50))
    step = next(step for step in steps if math.ceil(high / step) - math.floor(low / step) <= most)
    return [round(number * step, 9) for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def draw_curves(
    series: Sequence[Series], *, title: str, x_label: str, y_label: str, systems: Sequence[str] = ()
) -> Drawing:
    """Draw values over updates, one line for each training. systems: all groups, in the order of their colours."""
    scale = _Scale(series, x=(0.0, max(x for line in series for x in line.x)))
    colours = _colours(series, systems)
    x_ticks = [tick for tick in ticks(0, scale.x_high, 5) if tick <= scale.x_high]
    marks = [_TEXT.format(scale.x(tick), _HEIGHT + _LINE_HEIGHT, "middle", "", f"{tick:,.0f}") for tick in x_ticks]
    for line in series:
        if len(line.x) == 1:
            marks.append(_point(scale.x(line.x[0]), scale.y(line.y[0]), colours[line.group], hollow=False))
        else:
            points = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
            marks.append(Markup('<polyline class="curve {}" points="{}"/>').format(colours[line.group], points))
    marks.append(_TEXT.format(_WIDTH, _HEIGHT + 2 * _LINE_HEIGHT, "end", Markup(' class="quiet"'), x_label))
    last = "; ".join(f"{line.group} ends at {line.y[-1]:.2f}" for line in series)
    return _drawing(marks, scale, colours, title, y_label, f"{y_label} by {x_label}. {last}.", below=2 * _LINE_HEIGHT)


def draw_categories(
    categories: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    ordered: bool = True,
    systems: Sequence[str] = (),
) -> Drawing:
    """Draw values over categories, with intervals. series: their x are indices into `categories`.

    Names of categories without an order are long and stand slantwise. systems: as for `draw_curves`.
    """
    scale = _Scale(series, x=(-0.5, len(categories) - 0.5))
    colours = _colours(series, systems)
    marks, descriptions = [], []
    for place, name in enumerate(categories):
        x, y = scale.x(place), _HEIGHT + _LINE_HEIGHT
        slant = "" if ordered else Markup(' transform="rotate(-35 {:.1f} {:.1f})"').format(x, y)
        marks.append(_TEXT.format(x, y, "middle" if ordered else "end", slant, name))
    for number, line in enumerate(series):
        shift = min(_SPREAD, 0.8 * scale.x_unit / len(series)) * (number - (len(series) - 1) / 2)
        points = []
        for place, (index, value) in enumerate(zip(line.x, line.y, strict=True)):
            x, interval = scale.x(index) + shift, ""
            if line.low is not None and line.high is not None:
                low, high = line.low[place], line.high[place]
                marks.append(_LINE.format(f"interval {colours[line.group]}", x, x, scale.y(low), scale.y(high)))
                interval = f" ({low:.1f} to {high:.1f})"
            marks.append(_point(x, scale.y(value), colours[line.group], hollow=line.hollow))
            points.append(f"{value:.1f}{interval} at {categories[int(index)]}")
        descriptions.append(f"{line.group}: {', '.join(points)}")
    below = float(_LINE_HEIGHT) if ordered else 0.6 * _CHARACTER * max(map(len, categories)) + _LINE_HEIGHT
    if ordered:
        below += _LINE_HEIGHT
        marks.append(_TEXT.format(_WIDTH, _HEIGHT + below, "end", Markup(' class="quiet"'), x_label))
    description = f"{y_label} by {x_label}. {'; '.join(descriptions)}."
    return _drawing(marks, scale, colours, title, y_label, description, below=below)


class _Scale:
    """Turns values into places of the plot, whose y axis has round ticks around all values and intervals."""

    def __init__(self, series: Sequence[Series], *, x: tuple[float, float]) -> None:
        values = [value for line in series for value in (*line.y, *(line.low or ()), *(line.high or ()))]
        self.ticks = ticks(min(values), max(values))
        self.x_low, self.x_high = x
        self.x_unit = _WIDTH / (self.x_high - self.x_low)

    def x(self, value: float) -> float:
        return (value - self.x_low) * self.x_unit

    def y(self, value: float) -> float:
        return _HEIGHT * (self.ticks[-1] - value) / (self.ticks[-1] - self.ticks[0])


def _colours(series: Sequence[Series], systems: Sequence[str]) -> dict[str, str]:
    groups = dict.fromkeys(line.group for line in series)
    places = {system: place for place, system in enumerate(systems or ("", *groups))}
    return {group: colour_of(places[group]) for group in groups}


def _point(x: float, y: float, colour: str, *, hollow: bool) -> Markup:
    shape = Markup('<circle class="point {}{}" cx="{:.1f}" cy="{:.1f}" r="4"/>')
    return shape.format(colour, " hollow" if hollow else "", x, y)


def _drawing(
    marks: Sequence[Markup],
    scale: _Scale,
    colours: dict[str, str],
    title: str,
    y_label: str,
    description: str,
    *,
    below: float,
) -> Drawing:
    """The figure: legend, axis of values, then the marks. below: height of what stands under the plot."""
    legend = [] if len(colours) == 1 and list(colours) == [y_label] else list(_legend(colours))
    above = _TOP + _LINE_HEIGHT * len(legend)
    decimals = max(0, -math.floor(math.log10(scale.ticks[1] - scale.ticks[0]) + 1e-9))
    axis = [_TEXT.format(-_LEFT, -12, "start", Markup(' class="quiet"'), y_label)]
    for tick in scale.ticks:
        y, kind = scale.y(tick), "tick" if tick else "zero"
        axis += [_LINE.format(kind, 0, _WIDTH, y, y), _TEXT.format(-7, y + 4, "end", "", f"{tick:.{decimals}f}")]
    box = f"{-_LEFT} {-above} {_LEFT + _WIDTH + _RIGHT} {above + _HEIGHT + below + 6:.0f}"
    svg = Markup('<svg class="plot" viewBox="{}" role="img" aria-label="{}">{}</svg>').format(
        box, f"{title}. {description}", Markup("").join([*legend, *axis, *marks])
    )
    return Drawing(svg=str(svg), title=title)


def _legend(colours: dict[str, str]) -> Iterator[Markup]:
    """Yield the names of the groups, a line for each, above the plot."""
    for number, (group, colour) in enumerate(reversed(colours.items())):
        y = -_TOP - _LINE_HEIGHT * number
        key = _point(4 - _LEFT, y - 4, colour, hollow=False)
        yield key + _TEXT.format(14 - _LEFT, y, "start", "", group)
