"""Scores in the results table: their blocks, with differences to the baseline, and the scorecard.

The scorecard has the figures that the papers print beside ours, each with a verdict.
On the data of the paper, the verdict is about the printed figure. A gap of at most the tolerance of the measure counts
as reproduced: it is the size of the differences between trainings and between tokenisers. A larger gap is within noise
if the printed figure lies in our 95 % interval, and otherwise the figure is not reproduced. On other data, figures are
not comparable, so only the difference to the baseline is compared: its direction, and whether it is significant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import CONVENTIONS, Comparison, MetricComparison, MetricScores, Scores, SystemScores
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Column, Row, Scorecard, ScorecardEntry, Verdict
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.errors import MismatchError, check_equal
from phrasemt.printed.results import Figure, figure_at
from phrasemt.report.blocks import Key, Place, Runs, by_file, mean_cell, note_on_seeds, read_parts, read_runs
from phrasemt.scoring.external import metric_key
from phrasemt.scoring.scores import NATS, check_comparable, length_ratio, nats_of
from phrasemt.scoring.significance import decimals_of, holm, mark_of, power_among
from phrasemt.stages.report import MakeTable
from phrasemt.study.compared import ComparedFigure

_NOTED = "bleu_tok"  # the score whose differences the notes describe
SAME_LENGTH = 0.05  # relative differences of lengths that count as none
_WITHOUT_NATS = (
    "No nats of {}: systems of other programs have none, and decoders of chunks are given the chunks of the reference."
)
_AGAIN = "delete it and run again"
_POWER = (
    "By the deviation between trainings alone{corrected}, the smallest difference with p < 0.05 in 80 % of all "
    "repetitions, and the trainings of each system that would show the difference found"
)


def score_blocks(
    settings: MakeTable,
    scores: Sequence[Path],
    metrics: Sequence[Path],
    analyses: Sequence[Path],
    comparisons: Sequence[Path],
) -> list[Block]:
    """Make a block for each test set, if the study has systems that translate.

    metrics: files of `score_metric`. analyses: of `analyse_attention`, with the nats of the references.
    """
    names, places = [name for name, _ in settings.translating], settings.test_sets
    of_scores = read_runs(settings, "scores", scores, SystemScores, names, places)
    of_metrics = read_runs(
        settings,
        "score of a metric",
        metrics,
        MetricScores,
        names,
        [(metric, *place) for metric, *_ in settings.metrics for place in places],
        lambda file: {(file.metric, *key): part for key, part in file.by_place.items()},
    )
    of_nats = read_runs(
        settings,
        "nats of the references",
        analyses,
        AttentionAnalysis,
        settings.forced,
        places,
        lambda file: {(file.dataset, file.test_set, file.system, file.seed): nats_of(file)},
    )
    of_comparisons = read_parts(
        "comparison",
        comparisons,
        Comparison,
        lambda file: {(file.dataset, test_set, file.system): file for test_set in file.test_sets},
        [(*place, name) for place in places for name in names if name in settings.baselines],
    )
    return [
        _score_block(settings, place, runs, of_nats.get(place, {}), of_metrics, of_comparisons)
        for place, runs in of_scores.items()
    ]


def _score_columns(settings: MakeTable, keys: set[str]) -> Iterator[tuple[Column, bool]]:
    """The columns of scores, those of your own metrics last, and whether a difference follows. keys: of the scores."""
    own = {
        metric_key(name): (heading, f"mean over sentences{'; lower is better' if better == 'lower' else ''}")
        for name, heading, better in settings.metrics
    }
    assert keys <= {*CONVENTIONS, *own}, f"scores without a column: {keys - {*CONVENTIONS, *own}}"
    for key, convention in CONVENTIONS.items():
        if key in keys:
            meaning = convention.meaning + ("; lower is better" if convention.better == "lower" else "")
            yield Column(key=key, heading=convention.heading, meaning=meaning), convention.with_difference
    for key, (heading, meaning) in own.items():
        yield Column(key=key, heading=heading, meaning=meaning), True


def _score_block(
    settings: MakeTable,
    place: Place,
    of_scores: Mapping[str, Runs[Scores]],
    of_nats: Mapping[str, Runs[Scores]],
    of_metrics: Mapping[Place, Mapping[str, Runs[Scores]]],
    of_comparisons: Mapping[Key, tuple[DigestedFile, Comparison]],
) -> Block:
    check_comparable(place[1], by_file(of_scores))
    if of_nats:
        check_comparable(place[1], by_file(of_nats))
    first = next(iter(of_scores.values())).first
    lengths = {system: length_ratio(runs.parts.values()) for system, runs in of_scores.items()}
    if all(abs(length - 1) <= SAME_LENGTH for length in lengths.values()):
        lengths = {}
    rows = {}
    for system, title in settings.translating:
        cells = {
            name: of_scores[system].mean(_score_in(name), metric.signature, better=metric.better)
            for name, metric in first.metrics.items()
        }
        if system in of_nats:
            nats = of_nats[system].first.metrics[NATS]
            cells[NATS] = of_nats[system].mean(_score_in(NATS), nats.signature, better=nats.better, decimals=3)
        for metric, *_ in settings.metrics:
            runs, key = of_metrics[metric, *place][system], metric_key(metric)
            own = runs.first.metrics[key]
            cells[key] = runs.mean(_score_in(key), own.signature, better=own.better, decimals=4)
        rows[system] = Row(system=system, title=title, cells=cells)
    compared = {}
    for system in (name for name in rows if name in settings.baselines):
        source, file = of_comparisons[*place, system]
        compared[system] = source, file.test_sets[place[1]]
        _check_comparison(source.path, compared[system][1], rows[settings.baselines[system]], rows[system])
    scored = list(_score_columns(settings, {key for row in rows.values() for key in row.cells}))
    for name in (column.key for column, _ in scored):
        # also without a column, because the scorecard shows the difference in the measure of the paper
        of_name = {system: (source, metrics[name]) for system, (source, metrics) in compared.items() if name in metrics}
        p_values = {system: one.p_value for system, (_, one) in of_name.items()}
        tested = {system: p_value for system, p_value in p_values.items() if p_value is not None}
        corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
        for system, (source, comparison) in of_name.items():
            cells = rows[system].cells
            difference = _difference_cell(source, comparison, cells[name], corrected.get(system), tests=len(tested))
            cells[_difference_key(name)] = difference
    _add_intervals(rows, {system: comparison for system, (_, comparison) in compared.items()}, settings.baselines)
    columns = []
    for column, with_difference in scored:
        columns.append(column)
        if of_comparisons and with_difference:
            columns.append(Column(key=_difference_key(column.key), heading=DIFFERENCE))
    notes = [note_on_seeds(settings), *_notes_on_rows(settings), *_note_on_lengths(settings, place, lengths)]
    without = [title for name, title in settings.translating if name not in of_nats] if of_nats else []
    details = [_WITHOUT_NATS.format(", ".join(without))] if without else []
    if of_comparisons:
        notes.append(_note_on_differences(settings, [file for _, file in of_comparisons.values()], rows))
        details += _note_on_power(", ".join(place), rows)
    return Block(
        kind="scores",
        dataset=place[0],
        test_set=place[1],
        size=first.sentences,
        columns=columns,
        rows=list(rows.values()),
        lengths=lengths,
        notes=notes,
        details=details,
    )


def _score_in(convention: str) -> Callable[[Scores], float]:
    return lambda scores: scores.metrics[convention].score


def _add_intervals(
    rows: dict[str, Row], comparisons: Mapping[str, Mapping[str, MetricComparison]], baselines: Mapping[str, str]
) -> None:
    """Give the scores that were compared their intervals. Every comparison draws the same samples for a baseline.

    A system that is the baseline of others and has one itself gets the interval of its own comparison.
    """
    for side in ("baseline", "system"):
        for system, comparison in comparisons.items():
            cells = rows[system if side == "system" else baselines[system]].cells
            for name, metric in comparison.items():
                estimate = getattr(metric, side)
                cells[name] = cells[name].model_copy(update={"low": estimate.low, "high": estimate.high})


def _notes_on_rows(settings: MakeTable) -> Iterator[str]:
    """Yield notes on controls, and on systems of other programs."""
    title_of = dict(settings.translating)
    for system, controls in settings.controls.items():
        if system in title_of:
            yield f"Controls of {title_of[system]}: {'; '.join(title_of[control] for control in controls)}."
    if titles := [title for system, title in settings.translating if system in settings.outside]:
        yield f"Translated by other programs, whose seeds are not ours: {', '.join(titles)}."


def _note_on_lengths(settings: MakeTable, place: Place, lengths: Mapping[str, float]) -> Iterator[str]:
    """Yield a note on translations whose length is not that of the reference. lengths: as in `Block`."""
    if not lengths:
        return
    titles, systems = dict(settings.systems), sorted(lengths, key=lengths.__getitem__)
    unequal = lengths[systems[-1]] - lengths[systems[0]] > SAME_LENGTH
    texts = (f"{lengths[end]:.2f}" + (f" ({titles[end]})" if unequal else "") for end in (systems[0], systems[-1]))
    where = f"{', '.join(place)}: " if len(settings.test_sets) > 1 else ""
    times = " to ".join(dict.fromkeys(texts))
    yield f"{where}BLEU also measures length: the translations have {times} times the tokens of the reference."


def _difference_key(metric: str) -> str:
    return f"{metric}_difference"


def _difference_cell(
    source: DigestedFile, comparison: MetricComparison, scores: Cell, p_value: float | None, *, tests: int
) -> Cell:
    """The cell of a difference. p_value: corrected for the number of systems; the mark shows it, for both signs.

    None for a difference that is not tested. tests: as for `power_among`.
    """
    value = comparison.difference.value
    decimals = decimals_of(value, p_value, scores.decimals)
    text = f"{value:+.{decimals}f}"
    return Cell(
        value=value,
        text=text if float(text) else text[1:],
        decimals=decimals,
        mark=mark_of(p_value),
        better=comparison.better,
        signature=scores.signature,
        sources=[source, *scores.sources],
        low=comparison.difference.low,
        high=comparison.difference.high,
        p_value=p_value,
        uncorrected=comparison.p_value,
        one_sided=comparison.one_sided,
        koehn2004=comparison.koehn2004,
        power=power_among(comparison.power, value, tests=tests) if comparison.power and p_value is not None else None,
    )


def _check_comparison(path: str, compared: Mapping[str, MetricComparison], baseline: Row, system: Row) -> None:
    """Check that a comparison was made from the scores of the table. Raises MismatchError if not."""
    for name, metric in compared.items():
        for row, estimate in ((baseline, metric.baseline), (system, metric.system)):
            if not math.isclose(row.cells[name].value, estimate.value, abs_tol=1e-9):
                problem = f"the comparison was made from other scores than the table: {name} of {row.system}"
                check_equal(row.cells[name].value, estimate.value, problem, where=path, next_step=_AGAIN)


def _note_on_differences(settings: MakeTable, comparisons: Sequence[Comparison], rows: Mapping[str, Row]) -> str:
    draws = {(file.samples, file.seed) for file in comparisons}
    if len(draws) > 1:
        what = "comparisons with different numbers of bootstrap samples, or different seeds"
        raise MismatchError(what, found=sorted(draws), next_step="delete the comparisons and run again")
    titles = dict(settings.systems)
    others = [
        f"of {titles[name]} to {titles[baseline]}"
        for name, baseline in settings.baselines.items()
        if baseline != settings.baseline and name in dict(settings.translating)
    ]
    to_others = "".join(f"; {other}" for other in others)
    difference = f"{DIFFERENCE}: to {titles[settings.baseline]}{to_others}"
    key = _difference_key(_NOTED)
    tested = sum(key in row.cells and row.cells[key].p_value is not None for row in rows.values())
    if not tested:
        return f"{difference}."
    corrected = f", Holm correction for {tested} systems" if tested > 1 else ""
    return (
        f"{difference}; † p < 0.05, ‡ p < 0.01: two-sided paired bootstrap over sentences and trainings, "
        f"{comparisons[0].samples:,} samples{corrected}."
    )


def _note_on_power(place: str, rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield a note on what the trainings could have shown of differences without a mark."""
    key = _difference_key(_NOTED)
    of_each = [
        f"{row.title} {power.text}"
        for row in rows.values()
        if key in row.cells and not row.cells[key].mark and (power := row.cells[key].power) and power.deviation
    ]
    if of_each:
        several = sum(key in row.cells for row in rows.values()) > 1
        shown_by = _POWER.format(corrected=" and corrected as the marks are" if several else "")
        what = f"{place}, {DIFFERENCE} of {CONVENTIONS[_NOTED].heading} without a mark"
        yield f"{what}. {shown_by}: {'; '.join(of_each)}."


_NOTE = (
    "Scorecard: figures of the papers beside ours. On the data of a paper: reproduced: the gap is at most the "
    "tolerance of the measure ({tolerances}); within noise: the reported figure lies in our 95 % interval; else not "
    "reproduced. Other data: differences to the baseline of the paper are compared, never the figures; significant: "
    "p < 0.05, as in the tables; no larger than a margin (half of the gain that the paper reports): by two one-sided "
    "tests at 5 %; undecided: neither; in brackets what is detectable in 80 % of all replications. Not tested: one "
    "training of each, or the figure is a mean over test sets. Reported marks: of the paper; our p beside them: by the "
    "test that it used, paired bootstrap, one-sided, over sentences (Koehn 2004), and over sentences and trainings."
)


Cells = Mapping[tuple[str, str, str | None, str, str], Cell]  # by kind, data set, test set, system and column


def make_scorecard(
    figures: Sequence[ComparedFigure], blocks: Sequence[Block], titles: dict[str, str]
) -> Scorecard | None:
    """Make the scorecard; None for a study without a system that stands for a row of a paper."""
    if not figures:
        return None
    cells: Cells = {
        (block.kind, block.dataset, block.test_set, row.system, column): cell
        for block in blocks
        for row in block.rows
        for column, cell in row.cells.items()
    }
    printed = [figure_at(figure.place, figure.column) for figure in figures]
    entries = [_entry(*one, cells, titles[one[0].system]) for one in zip(figures, printed, strict=True)]
    tolerances = {
        f"{figure.paper.authors}: {figure.measure.tolerance:g} for {figure.measure.convention.split(';')[0]}"
        for figure in printed
    }
    return Scorecard(
        entries=entries,
        footnotes=list(dict.fromkeys(note for figure in printed for note in figure.notes)),
        note=_NOTE.format(tolerances="; ".join(sorted(tolerances))),
    )


def _mean(of_test_sets: Sequence[Cell], decimals: int) -> Cell:
    """The mean over test sets. Their sentences are drawn independently, so variances of the intervals add up."""
    first, size = of_test_sets[0], len(of_test_sets)
    sources = list({source.path: source for cell in of_test_sets for source in cell.sources}.values())
    if first.by_seed is not None:
        by_seed = {seed: math.fsum((c.by_seed or {})[seed] for c in of_test_sets) / size for seed in first.by_seed}
        mean = mean_cell(by_seed, better=first.better, signature=first.signature, sources=sources, decimals=decimals)
    else:
        value = math.fsum(cell.value for cell in of_test_sets) / size
        text = f"{value:+.{decimals}f}"
        about = {"better": first.better, "signature": first.signature, "sources": sources}
        mean = Cell(value=value, text=text, decimals=decimals, **about)
    if any(cell.low is None or cell.high is None for cell in of_test_sets):
        return mean
    below, above = (
        math.sqrt(math.fsum((cell.value - end) ** 2 for cell, end in zip(of_test_sets, ends, strict=True))) / size
        for ends in ([cell.low or 0.0 for cell in of_test_sets], [cell.high or 0.0 for cell in of_test_sets])
    )
    return mean.model_copy(update={"low": mean.value - below, "high": mean.value + above})


def _entry(compared: ComparedFigure, figure: Figure, cells: Cells, title: str) -> ScorecardEntry:
    """The printed figure that is compared, with ours."""
    measure, printed, column = figure.measure, figure.cell.value, figure.of_column
    counterpart, decimals = measure.ours, measure.decimals
    assert counterpart is not None
    assert printed is not None
    # The baseline of a paper may be compared with that of the study, of which its paper says nothing.
    is_baseline = compared.baseline == figure.row

    def ours_in(key: str) -> Cell | None:
        """Our figure on the test sets of the printed one, their mean; None if one is not known."""
        places = [(counterpart.kind, compared.dataset, name, compared.system, key) for name in compared.test_sets]
        if not places or not all(place in cells for place in places):
            return None
        return cells[places[0]] if len(places) == 1 else _mean([cells[place] for place in places], decimals)

    difference = None if is_baseline else ours_in(_difference_key(counterpart.column))
    is_difference = column.difference_to is not None
    ours = difference if is_difference else ours_in(counterpart.column)
    printed_difference = None if compared.baseline is None or is_baseline else figure.difference_to(compared.baseline)
    verdict: Verdict = "other data"
    finding = "" if compared.same_data else _finding(compared, printed_difference, difference, measure.margin)
    if ours is None:
        verdict = "not run"
        finding = "no such test set in the study" if not compared.test_sets else "the table has no such score"
    elif compared.same_data:
        verdict = _verdict(figure, ours)
    return ScorecardEntry(
        **compared.model_dump(exclude={"column", "baseline"}),
        title=title,
        paper=figure.paper.authors,
        table=figure.of_table.caption,
        row=figure.of_row.title,
        heading=column.heading,
        decimals=decimals,
        printed=printed,
        printed_significant=figure.cell.significant,
        is_difference=is_difference,
        printed_difference=printed_difference,
        column=counterpart.column,
        notes=figure.notes,
        ours=ours,
        difference=difference,
        gap=ours.value - printed if ours is not None and compared.same_data else None,
        verdict=verdict,
        finding=finding,
    )


def _verdict(figure: Figure, ours: Cell) -> Verdict:
    printed, tolerance = figure.cell.value, figure.measure.tolerance
    assert printed is not None
    assert tolerance is not None
    # A gap of printed digits is a decimal number: 28.67 - 28.37 is a little more than 0.3 in binary.
    if round(abs(ours.value - printed), 9) <= tolerance:
        return "reproduced"
    if ours.low is not None and ours.high is not None and ours.low <= printed <= ours.high:
        return "within noise"
    return "not reproduced"


def _finding(compared: ComparedFigure, printed: float | None, difference: Cell | None, margin: float | None) -> str:
    if compared.baseline is None:
        return "the baseline stands for no row of this table"
    if difference is None:
        return "baseline" if printed is None else "no difference to the baseline is tested"
    if printed is None:
        return "the paper reports no difference to this baseline"
    if difference.p_value is None:
        return "not tested"
    if difference.mark:
        direction = "same" if (printed > 0) == (difference.value > 0) else "opposite"
        return (
            f"{direction} direction, significant" if printed else "significant, where the paper reports no difference"
        )
    if margin and difference.one_sided and max(map(abs, difference.one_sided)) < margin:
        return f"no larger than {margin:g}"
    power = difference.power
    return "undecided" + (f" ({power.detectable:.2f} is detectable)" if power is not None and power.deviation else "")
