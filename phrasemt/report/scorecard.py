"""The scorecard: the figures that the papers print beside ours, each with a verdict.

On the data of the paper, the verdict is about the printed figure. A gap of at most the tolerance of the measure counts
as reproduced: it is the size of the differences between trainings and between tokenisers. A larger gap is within noise
if the printed figure lies in our 95 % interval, and otherwise the figure is not reproduced. On other data, figures are
not comparable, so only the difference to the baseline is compared: its direction, and whether it is significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from phrasemt.artefacts.table import Block, Cell, Scorecard, ScorecardEntry, Verdict
from phrasemt.fields import Settings
from phrasemt.report.blocks import mean_cell
from phrasemt.study.compared import ComparedFigure

_NOTE = (
    "Scorecard: figures of the papers beside ours. On the data of a paper: reproduced: the gap is at most the "
    "tolerance of the measure ({tolerances}); within noise: the printed figure lies in our 95 % interval; else not "
    "reproduced. Other data: differences to the baseline of the paper are compared, never the figures; significant: "
    "p < 0.05, as in the tables; in brackets what would be so in 80 % of all repetitions. Not tested: no system was "
    "trained several times, or the figure is a mean over test sets."
)


class _Ours(Settings):
    """Our figure on the test sets of a figure, and its difference to the baseline."""

    score: Cell | None = None
    difference: Cell | None = None


def make_scorecard(
    figures: Sequence[ComparedFigure], blocks: Sequence[Block], titles: dict[str, str]
) -> Scorecard | None:
    """Make the scorecard; None for a study without a system that stands for a row of a paper."""
    if not figures:
        return None
    cells: dict[tuple[str, str, str | None, str, str], Cell] = {
        (block.kind, block.dataset, block.test_set, row.system, column): cell
        for block in blocks
        for row in block.rows
        for column, cell in row.cells.items()
    }
    footnotes = list(dict.fromkeys(note for figure in figures for note in figure.notes))
    entries = [_entry(figure, _ours(figure, cells), titles[figure.system]) for figure in figures]
    tolerances = {f"{figure.paper}: {figure.tolerance:g} for {figure.convention.split(';')[0]}" for figure in figures}
    return Scorecard(entries=entries, footnotes=footnotes, note=_NOTE.format(tolerances="; ".join(sorted(tolerances))))


def _ours(figure: ComparedFigure, cells: dict[tuple[str, str, str | None, str, str], Cell]) -> _Ours:
    def found(column: str) -> Cell | None:
        places = [(figure.kind, figure.dataset, test_set, figure.system, column) for test_set in figure.test_sets]
        if not places or not all(place in cells for place in places):
            return None
        return cells[places[0]] if len(places) == 1 else _mean([cells[place] for place in places], figure.decimals)

    # The baseline of a paper may be compared with that of the study, of which its paper says nothing.
    is_baseline = figure.printed_baseline == figure.row
    difference = None if is_baseline else found(f"{figure.column}_difference")
    return _Ours(score=found(figure.column), difference=difference)


def _mean(of_test_sets: Sequence[Cell], decimals: int) -> Cell:
    """The mean over test sets. Their sentences are drawn independently, so variances of the intervals add up."""
    first, size = of_test_sets[0], len(of_test_sets)
    sources = list({source.path: source for cell in of_test_sets for source in cell.sources}.values())
    if first.by_seed is not None:
        by_seed = {seed: math.fsum((c.by_seed or {})[seed] for c in of_test_sets) / size for seed in first.by_seed}
        mean = mean_cell(by_seed, signature=first.signature, sources=sources, decimals=decimals)
    else:
        value = math.fsum(cell.value for cell in of_test_sets) / size
        text = f"{value:+.{decimals}f}"
        mean = Cell(value=value, text=text, decimals=decimals, signature=first.signature, sources=sources)
    if any(cell.low is None or cell.high is None for cell in of_test_sets):
        return mean
    below, above = (
        math.sqrt(math.fsum((cell.value - end) ** 2 for cell, end in zip(of_test_sets, ends, strict=True))) / size
        for ends in ([cell.low or 0.0 for cell in of_test_sets], [cell.high or 0.0 for cell in of_test_sets])
    )
    return mean.model_copy(update={"low": mean.value - below, "high": mean.value + above})


def _entry(figure: ComparedFigure, ours: _Ours, title: str) -> ScorecardEntry:
    score = ours.difference if figure.is_difference else ours.score
    if score is None:
        verdict: Verdict = "not run"
        finding = "no such test set in the study" if not figure.test_sets else "the table has no such score"
    elif figure.same_data:
        verdict, finding = _verdict(figure, score), ""
    else:
        verdict, finding = "other data", _finding(figure, ours.difference)
    return ScorecardEntry(
        **figure.model_dump(),
        title=title,
        ours=score,
        difference=ours.difference,
        gap=score.value - figure.printed if score is not None and figure.same_data else None,
        verdict=verdict,
        finding=finding,
    )


def _verdict(figure: ComparedFigure, ours: Cell) -> Verdict:
    # A gap of printed digits is a decimal number: 28.67 - 28.37 is a little more than 0.3 in binary.
    if round(abs(ours.value - figure.printed), 9) <= figure.tolerance:
        return "reproduced"
    if ours.low is not None and ours.high is not None and ours.low <= figure.printed <= ours.high:
        return "within noise"
    return "not reproduced"


def _finding(figure: ComparedFigure, difference: Cell | None) -> str:
    if figure.printed_baseline is None:
        return "the baseline stands for no row of this table"
    if difference is None:
        return "baseline" if figure.printed_difference is None else "no difference to the baseline is tested"
    if figure.printed_difference is None:
        return "the paper prints no difference to this baseline"
    return f"{_direction(figure.printed_difference, difference.value)}, {_outcome(difference)}"


def _outcome(difference: Cell) -> str:
    if difference.p_value is None:
        return "not tested"
    if difference.mark:
        return "significant"
    if difference.power is None or not difference.power.deviation:
        return "not significant"
    return f"not significant ({difference.power.detectable:.2f} would show)"


def _direction(printed: float, ours: float) -> str:
    if 0 in (printed, ours):
        return "no direction"
    return "same direction" if (printed > 0) == (ours > 0) else "opposite direction"


def scorecard_rows(scorecard: Scorecard) -> Iterator[tuple[str, ...]]:
    """Yield the heading and the rows of the scorecard as they are printed."""
    yield "System", "verdict", "printed", "ours", "gap", "95 % interval", "figure", "on"
    for entry in scorecard.entries:
        other, ours = entry.verdict == "other data", entry.ours
        shown = entry.difference if other and entry.difference is not None else ours
        printed = entry.printed_text
        if other and entry.printed_difference is not None:
            printed = f"{entry.printed_difference:+.2f} to {entry.printed_baseline}"
        marks = "".join(f"[{number}]" for number in sorted(scorecard.footnotes.index(note) + 1 for note in entry.notes))
        yield (
            entry.title,
            entry.verdict + (f": {entry.finding}" if entry.finding else ""),
            printed,
            "" if shown is None else shown.text + shown.mark,
            "" if entry.gap is None else f"{entry.gap:+.2f}",
            "" if shown is None else shown.interval(),
            f"{entry.paper}, {entry.table.split(':')[0]}: {entry.row}, {entry.heading}{marks}",
            f"{entry.dataset}, {', '.join(entry.test_sets)}".rstrip(", "),
        )
