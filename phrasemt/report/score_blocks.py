"""Blocks of the results table for scores and for contrastive pairs, on one test set each, with differences.

Accuracies on contrastive pairs stand by kind of mistake, and by the distance between words that must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from phrasemt.artefacts.scores import (
    Comparison,
    ComparisonOnTestSet,
    MetricComparison,
    MetricOnTestSet,
    MetricScores,
    Power,
    Scores,
    SystemScores,
)
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import DIFFERENCE, HEADINGS, Block, Cell, Column, Row
from phrasemt.artefacts.translations import ContrastAccuracy, Counts
from phrasemt.errors import MismatchError, check_equal
from phrasemt.report.blocks import Grid, note_on_seeds, read_grid, runs_in, runs_of, select_test_set
from phrasemt.scoring.external import metric_key
from phrasemt.scoring.scores import check_comparable
from phrasemt.scoring.significance import decimals_of, holm, mark_of
from phrasemt.scoring.statistics import REFERENCE_LENGTH, SYSTEM_LENGTH, wilson_interval
from phrasemt.stages.report import MakeTable


class _Measure(NamedTuple):
    """A score of the table. with_difference: whether a column with the difference to the baseline follows."""

    heading: str
    with_difference: bool
    meaning: str
    decimals: int = 2


_MEASURES = {
    "bleu_tok": _Measure(HEADINGS["bleu_tok"], True, "tokens, as multi-bleu.perl"),
    "bleu_tok_uncased": _Measure(HEADINGS["bleu_tok_uncased"], False, "tokens in lower case, as multi-bleu.perl -lc"),
    "bleu_tok_compound_split": _Measure(
        HEADINGS["bleu_tok_compound_split"], False, "Moses tokens split at hyphens, as Tensor2Tensor"
    ),
    "bleu_detok": _Measure(HEADINGS["bleu_detok"], True, "sacreBLEU on detokenised text"),
    "chrf2": _Measure(HEADINGS["chrf2"], False, "sacreBLEU on detokenised text"),
    "chrf2pp": _Measure(HEADINGS["chrf2pp"], False, "sacreBLEU on detokenised text"),
    "ter": _Measure(HEADINGS["ter"], False, "sacreBLEU on detokenised text; lower is better"),
}
_LENGTHS_OF = "bleu_tok"  # the convention whose tokens count
_RUNAWAY = 2
_UNTESTED = "No marks, because no system was trained several times: intervals cover the choice of sentences only."
_VARIATION = (
    "The deviation between trainings is pooled over the systems with several, and stands for those with one, too."
)
_POWER = (
    "By the deviation between trainings alone, the smallest difference with p < 0.05 in 80 % of all repetitions, and "
    "the trainings of each system that would show the difference found"
)


def score_blocks(
    settings: MakeTable, scores: Sequence[Path], metrics: Sequence[Path], comparisons: Sequence[Path]
) -> list[Block]:
    """Make a block for each test set, if the study has systems that translate. metrics: files of `score_metric`."""
    names = [name for name, _ in settings.translating]
    metric_grid = read_grid(
        "score of a metric",
        metrics,
        MetricScores,
        lambda file: {(file.metric, *place): part for place, part in file.by_place.items()},
        [
            (metric, *test_set, *run)
            for metric, *_ in settings.metrics
            for test_set in settings.test_sets
            for run in runs_of(settings, names)
        ],
    )
    score_grid = read_grid(
        "scores",
        scores,
        SystemScores,
        lambda file: file.by_place,
        [(*test_set, *run) for test_set in settings.test_sets for run in runs_of(settings, names)],
    )
    comparison_grid = read_grid(
        "comparison",
        comparisons,
        Comparison,
        lambda file: {(file.dataset, test_set, file.system): file for test_set in file.test_sets},
        [(*test_set, name) for test_set in settings.test_sets for name in names if name in settings.baselines],
    )
    grids = score_grid, metric_grid, comparison_grid
    return [_block(settings, test_set, *grids) for test_set in settings.test_sets if names]


def _measures(settings: MakeTable) -> dict[str, _Measure]:
    """The scores of the table by their key, those of your own metrics last."""
    of_user = {
        metric_key(name): _Measure(
            heading, True, f"mean over sentences{'; lower is better' if better == 'lower' else ''}", 4
        )
        for name, heading, better in settings.metrics
    }
    return _MEASURES | of_user


def _block(
    settings: MakeTable,
    test_set: tuple[str, str],
    score_grid: Grid[Scores],
    metric_grid: Grid[MetricOnTestSet],
    comparison_grid: Grid[Comparison],
) -> Block:
    chosen = select_test_set(score_grid, test_set)
    check_comparable(test_set[1], {source.path: part for source, part in chosen.values()})
    first = next(iter(chosen.values()))[1]
    measures = _measures(settings)
    metrics = {
        metric: {place[3:]: entry for place, entry in metric_grid.items() if place[:3] == (metric, *test_set)}
        for metric, *_ in settings.metrics
    }
    rows = {}
    for system, title in settings.translating:
        runs = runs_in(chosen, system, settings)
        cells = {
            name: runs.mean(_score_in(name), first.metrics[name].signature, decimals=measures[name].decimals)
            for name in _MEASURES
            if name in first.metrics
        }
        for metric, of_metric in metrics.items():
            scores, key = runs_in(of_metric, system, settings), metric_key(metric)
            for path, part in zip((source.path for source in scores.sources), scores.parts.values(), strict=True):
                what = f"metric {metric} has scores of another number of sentences"
                check_equal(first.sentences, part.sentences, what, where=path, next_step="delete it and run again")
            signature = scores.first.signature
            cells[key] = scores.mean(attrgetter("score"), signature, decimals=measures[key].decimals)
        rows[system] = Row(system=system, title=title, cells=cells)
    compared = {}
    for system in rows:
        if system in settings.baselines:
            source, file = comparison_grid[(*test_set, system)]
            compared[system] = source, file.test_sets[test_set[1]]
            _check_comparison(source, file, compared[system][1], settings, rows)
    shown = {name: measure for name, measure in measures.items() if any(name in row.cells for row in rows.values())}
    for name in shown:  # also without a column, because the scorecard shows the difference in the measure of the paper
        p_values = {
            system: comparison.metrics[name].p_values.over_seeds for system, (_, comparison) in compared.items()
        }
        tested = {system: p_value for system, p_value in p_values.items() if p_value is not None}
        corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
        for system, (source, comparison) in compared.items():
            cells = rows[system].cells
            difference = _difference_cell(source, comparison.metrics[name], cells[name], corrected.get(system))
            cells[_difference_key(name)] = difference
    _add_intervals(rows, {system: comparison for system, (_, comparison) in compared.items()}, settings.baselines)
    columns = []
    for name, measure in shown.items():
        columns.append(Column(key=name, heading=measure.heading, meaning=measure.meaning))
        if measure.with_difference and comparison_grid:
            columns.append(Column(key=_difference_key(name), heading=DIFFERENCE))
    notes = [note_on_seeds(settings), *_notes_on_rows(settings), *_note_on_lengths(settings, chosen)]
    if comparison_grid:
        notes.append(_note_on_differences(settings, [file for _, file in comparison_grid.values()], rows))
        notes += _note_on_power(rows)
    return Block(
        kind="scores",
        dataset=test_set[0],
        test_set=test_set[1],
        size=first.sentences,
        columns=columns,
        rows=list(rows.values()),
        notes=notes,
    )


def _score_in(convention: str) -> Callable[[Scores], float]:
    return lambda scores: scores.metrics[convention].score


def _add_intervals(
    rows: dict[str, Row], comparisons: dict[str, ComparisonOnTestSet], baselines: Mapping[str, str]
) -> None:
    """Give the scores that were compared their intervals. Every comparison draws the same samples for a baseline.

    A system that is the baseline of others and has one itself gets the interval of its own comparison.
    """
    for side in ("baseline", "system"):
        for system, comparison in comparisons.items():
            cells = rows[system if side == "system" else baselines[system]].cells
            for name, metric in comparison.metrics.items():
                estimate = getattr(metric.over_seeds or metric, side)
                cells[name] = cells[name].model_copy(update={"low": estimate.low, "high": estimate.high})


def _notes_on_rows(settings: MakeTable) -> Iterator[str]:
    """Yield notes on rows with one translation in place of one for each seed, by the reason."""
    for note, systems in (
        ("Translated by other programs, whose seeds are not ours", settings.outside),
        ("One translation, because nothing in it is drawn at random", settings.unseeded),
    ):
        if titles := [title for system, title in settings.translating if system in systems]:
            yield f"{note}: {', '.join(titles)}."


def _note_on_lengths(settings: MakeTable, chosen: Grid[Scores]) -> Iterator[str]:
    """Yield a note that names the systems with outputs of more than twice the tokens of their reference."""
    found = []
    for system, title in settings.translating:
        tables = [chosen[system, seed][1].statistics[_LENGTHS_OF] for seed in settings.seeds_of[system]]
        longer = sum(row[SYSTEM_LENGTH] > _RUNAWAY * row[REFERENCE_LENGTH] for table in tables for row in table)
        if longer:
            ratio = sum(row[SYSTEM_LENGTH] for table in tables for row in table) / max(
                1, sum(row[REFERENCE_LENGTH] for table in tables for row in table)
            )
            outputs = sum(map(len, tables))
            found.append(f"{title} {longer:,} of {outputs:,} (length of all outputs: {ratio:.2f} of the references)")
    if found:
        yield f"Outputs of more than {_RUNAWAY} times the tokens of their reference: {'; '.join(found)}."


def _difference_key(metric: str) -> str:
    return f"{metric}_difference"


def _difference_cell(source: DigestedFile, comparison: MetricComparison, scores: Cell, p_value: float | None) -> Cell:
    """The cell of a difference. p_value: corrected for the number of systems; the mark shows it, for both signs.

    None for a difference that is not tested.
    """
    value = comparison.difference.value
    decimals = decimals_of(value, p_value, scores.decimals)
    text = f"{value:+.{decimals}f}"
    interval = comparison.shown
    return Cell(
        value=value,
        text=text if float(text) else text[1:],
        decimals=decimals,
        mark=mark_of(p_value),
        signature=comparison.signature,
        sources=[source, *scores.sources],
        low=interval.low,
        high=interval.high,
        p_values=comparison.p_values,
        p_value=p_value,
        power=comparison.over_seeds
        and Power(**{name: getattr(comparison.over_seeds, name) for name in Power.model_fields}),
    )


def _check_comparison(
    source: DigestedFile, file: Comparison, comparison: ComparisonOnTestSet, settings: MakeTable, rows: dict[str, Row]
) -> None:
    """Check that a comparison was made from the scores of the table. Raises MismatchError if not."""
    pairs: list[tuple[str, Any, Any]] = [
        ("baseline", settings.baselines[file.system], file.baseline),
        ("seeds", sorted(settings.seeds_of[file.system]), sorted(file.system_seeds)),
        ("seeds of the baseline", sorted(settings.seeds_of[file.baseline]), sorted(file.baseline_seeds)),
    ]
    for name, metric in comparison.metrics.items():
        for side, estimate in ((file.baseline, metric.baseline), (file.system, metric.system)):
            cell = rows[side].cells.get(name) if side in rows else None
            if cell is None or cell.signature != metric.signature:
                pairs.append((f"convention of {name}", cell and cell.signature, metric.signature))
            elif not math.isclose(cell.value, estimate.value, abs_tol=1e-9):
                pairs.append((f"{name} of {side}", cell.value, estimate.value))
    for what, expected, found in pairs:
        problem = f"the comparison was made from other scores than the table: difference in {what}"
        check_equal(expected, found, problem, where=source.path, next_step="delete it and run again")


def _note_on_differences(settings: MakeTable, comparisons: Sequence[Comparison], rows: Mapping[str, Row]) -> str:
    draws = {(file.samples, file.seed) for file in comparisons}
    if len(draws) > 1:
        what = "comparisons with different numbers of bootstrap samples, or different seeds"
        raise MismatchError(what, found=sorted(draws), next_step="delete the comparisons and run again")
    systems = len({file.system for file in comparisons})
    titles = dict(settings.systems)
    others = [
        f"of {titles[name]} to {titles[baseline]}"
        for name, baseline in settings.baselines.items()
        if baseline != settings.baseline and name in dict(settings.translating)
    ]
    to_others = "".join(f"; {other}" for other in others)
    difference = f"{DIFFERENCE}: difference to {titles[settings.baseline]}{to_others}."
    key = _difference_key(_LENGTHS_OF)
    if not any(row.cells[key].p_value is not None for row in rows.values() if key in row.cells):
        return f"{difference} {_UNTESTED}"
    return (
        f"{difference} † p < 0.05, ‡ p < 0.01: better or worse by paired bootstrap over sentences and trainings, "
        f"two-sided, {comparisons[0].samples:,} samples"
        f"{f', corrected for {systems} systems (Holm)' if systems > 1 else ''}. {_VARIATION}"
    )


def _note_on_power(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield a note on what the trainings could have shown of differences without a mark."""
    key = _difference_key(_LENGTHS_OF)
    of_each = [
        f"{row.title} {power.text}"
        for row in rows.values()
        if key in row.cells and not row.cells[key].mark and (power := row.cells[key].power) and power.deviation
    ]
    if of_each:
        yield f"{DIFFERENCE} of {_MEASURES[_LENGTHS_OF].heading} without a mark. {_POWER}: {'; '.join(of_each)}."


_NOTE_ON_CONTRASTS = (
    "Contrastive pairs: percentage of pairs whose right target is more probable than the target with a single mistake, "
    "for all pairs, by kind of mistake and by the distance between the two words that must agree (in brackets: number "
    "of pairs). Bars in the figures: 95 % intervals of Wilson (1927)."
)


def contrast_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make the blocks of each set of contrastive pairs."""
    titles = {name: title for name, title in settings.translating if name in settings.trained}
    grid = read_grid(
        "contrastive accuracy",
        paths,
        ContrastAccuracy,
        lambda file: {(file.dataset, file.contrast_set, file.system, file.seed): file},
        [(*place, *run) for place in settings.contrasts for run in runs_of(settings, titles)],
    )
    return [block for place in settings.contrasts if titles for block in _blocks(settings, place, grid, titles)]


def _blocks(
    settings: MakeTable, place: tuple[str, str], grid: Grid[ContrastAccuracy], titles: Mapping[str, str]
) -> Iterator[Block]:
    """Yield one block of a set with one kind of mistake, else one of all kinds and one of each kind with distances."""
    files = {where[2:]: entry for where, entry in grid.items() if where[:2] == place}
    expected = _pairs(next(iter(files.values()))[1])
    for source, file in files.values():
        what, next_step = "not the contrastive pairs of the first system", "score all systems on the same pairs"
        check_equal(expected, _pairs(file), what, where=source.path, next_step=next_step)
    for mistake, sizes in expected.items():
        rows = []
        for system, title in titles.items():
            runs = runs_in(files, system, settings)
            cells = {}
            for group, pairs in sizes.items():
                key = f"{mistake} {group}" if mistake else group
                signature = f"contrastive_accuracy|group:{key}|pairs:{pairs}"
                cell = runs.mean(partial(_accuracy, mistake, group), signature, decimals=1)
                low, high = wilson_interval(cell.value / 100, pairs)
                cells[key] = cell.model_copy(update={"low": 100 * low, "high": 100 * high})
            rows.append(Row(system=system, title=title, cells=cells))
        headings = [f"{group} ({pairs:,})" for group, pairs in sizes.items()]
        yield Block(
            kind="contrasts" if mistake or len(expected) == 1 else "mistakes",
            dataset=place[0],
            contrast_set=place[1],
            mistake=mistake or None,
            size=sizes["all"],
            columns=[Column(key=key, heading=heading) for key, heading in zip(rows[0].cells, headings, strict=True)],
            rows=rows,
            notes=[note_on_seeds(settings), _NOTE_ON_CONTRASTS],
        )


def _accuracy(mistake: str, group: str, file: ContrastAccuracy) -> float:
    counts = _counts(file)[mistake][group]
    return 100 * counts.right / counts.pairs


def _counts(file: ContrastAccuracy) -> dict[str, dict[str, Counts]]:
    """Return the counts of each group of each block of the set, by kind of mistake; "": the block of all pairs."""
    by_distance = {kind.kind: {"all": kind, **{group.name: group for group in kind.by_distance}} for kind in file.kinds}
    if len(file.kinds) == 1:
        return {"": by_distance[file.kinds[0].kind]}
    return {
        "": {"all": file.total, **{kind.kind: kind for kind in file.kinds}},
        **{kind: groups for kind, groups in by_distance.items() if len(groups) > 1},
    }


def _pairs(file: ContrastAccuracy) -> dict[str, dict[str, int]]:
    return {
        mistake: {group: counts.pairs for group, counts in groups.items()} for mistake, groups in _counts(file).items()
    }
