"""The results table: JSON with the origin of every number, Markdown for a terminal, LaTeX for a paper.

One block of rows per test set and per set of contrastive pairs, one row per system in the order of the study. A number
is the mean over the seeds of the study, computed from unrounded scores and rounded once, to the nearest and at a tie to
the even digit. The table is whole or it is an error: a missing or foreign file, a score of another convention, or a
comparison made from other scores ends the stage.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
import statistics
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from phrasemt.errors import DataError, MismatchError
from phrasemt.fields import Settings
from phrasemt.lines import write_lines, write_text
from phrasemt.provenance import digest_file
from phrasemt.scoring.scores import ScoreFile, check_comparable, read_artefact
from phrasemt.scoring.significance import ComparisonFile, PValues
from phrasemt.settings import TableSettings

log = logging.getLogger("phrasemt.paper.tables")

Artefact = TypeVar("Artefact", bound=BaseModel)
Key = tuple[str | int, ...]
Files = dict[Key, tuple[Path, Artefact]]

# Metric -> heading, whether the difference to the baseline stands beside it, and what the heading means.
_METRICS = {
    "bleu_tok": ("BLEU tok", True, "Moses tokens, as multi-bleu.perl"),
    "bleu_tok_compound_split": ("BLEU split", False, "Moses tokens split at hyphens, as Tensor2Tensor"),
    "bleu_detok": ("BLEU detok", True, "sacreBLEU on detokenised text"),
    "chrf2": ("chrF2", False, "sacreBLEU on detokenised text"),
}
DIFFERENCE = "Δ"
_MARKS = ("‡", "†")


class DistanceGroup(Settings):
    """Contrastive pairs whose distance lies from low to high (no limit: None); accuracy None without pairs."""

    low: int
    high: int | None
    pairs: int
    accuracy: float | None


class ContrastFile(Settings):
    """The file that `score_contrasts` writes. Accuracies are shares, 0 to 1."""

    format: Literal[1]
    dataset: str
    system: str
    seed: int
    pairs: int
    accuracy: float
    by_distance: list[DistanceGroup]


class Source(Settings):
    """A file that a number was computed from."""

    path: str
    sha256: str


class Cell(Settings):
    """A number of the table. value: unrounded; text: as printed; low, high: 95 % interval of a difference."""

    value: float
    text: str
    mark: str = ""
    signature: str
    sources: list[Source]
    by_seed: dict[int, float] | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    p_values: PValues | None = None


class Column(Settings):
    """key: of the cells in the rows; meaning: one line for the legend, empty where the heading says it."""

    key: str
    heading: str
    meaning: str = ""


class Row(Settings):
    """A system; the baseline has no cells for differences."""

    system: str
    title: str
    cells: dict[str, Cell]

    def printed(self, column: Column) -> str:
        """What stands in a column: the number with its mark, nothing for a difference of the baseline."""
        return self.cells[column.key].text + self.cells[column.key].mark if column.key in self.cells else ""


class Block(Settings):
    """The rows of one test set, or of the contrastive pairs of a data set (no test_set). size: sentences or pairs."""

    dataset: str
    test_set: str | None = None
    size: int
    columns: list[Column]
    rows: list[Row]
    notes: list[str]

    @property
    def heading(self) -> str:
        if self.test_set is None:
            return f"{self.dataset}, {self.size:,} contrastive pairs"
        return f"{self.dataset}, {self.test_set} ({self.size:,} sentences)"


class Table(Settings):
    """The file table.json."""

    format: Literal[1]
    study: str
    title: str
    baseline: str
    seeds: list[int]
    blocks: list[Block]
    signatures: list[str]
    command: str

    @property
    def notes(self) -> list[str]:
        """The notes of all blocks, each once."""
        return list(dict.fromkeys(note for block in self.blocks for note in block.notes))


def make_table(
    *,
    settings: TableSettings,
    cores: int,
    scores: list[Path],
    comparisons: list[Path],
    contrasts: list[Path],
    table: Path,
    markdown: Path,
    latex: Path,
) -> None:
    """Make the table of a study from its score files, comparisons and contrastive accuracies.

    Raises DataError for a hole in the grid of test sets, systems and seeds, naming it, and MismatchError for files that
    do not belong to the grid or to each other.
    """
    names = [name for name, _ in settings.systems]
    challengers = [name for name in names if name != settings.baseline]
    score_files = _read_grid(
        "score file",
        scores,
        ScoreFile,
        lambda file: (file.dataset, file.split, file.system, file.seed),
        [(*test_set, name, seed) for test_set in settings.test_sets for name in names for seed in settings.seeds],
    )
    comparison_files = _read_grid(
        "comparison",
        comparisons,
        ComparisonFile,
        lambda file: (file.dataset, file.split, file.system),
        [(*test_set, name) for test_set in settings.test_sets for name in challengers],
    )
    contrast_files = _read_grid(
        "contrastive accuracy",
        contrasts,
        ContrastFile,
        lambda file: (file.dataset, file.system, file.seed),
        list(itertools.product(settings.contrasts, names, settings.seeds)),
    )
    blocks = [_score_block(settings, test_set, score_files, comparison_files) for test_set in settings.test_sets]
    blocks += [_contrast_block(settings, dataset, contrast_files) for dataset in settings.contrasts]
    result = Table(
        format=1,
        study=settings.study,
        title=settings.title,
        baseline=settings.baseline,
        seeds=settings.seeds,
        blocks=blocks,
        signatures=list(_signatures(blocks)),
        command=f"snakemake --profile profiles/local --configfile STUDY.yaml results/{settings.study}/table.md",
    )
    write_text(table, result.model_dump_json(indent=1, exclude_none=True) + "\n")
    write_lines(markdown, to_markdown(result))
    write_lines(latex, to_latex(result))
    log.info("make_table: %d systems, %d blocks, %d score files", len(names), len(blocks), len(scores))


# ------------------------------------------------------------------------------------------------------------- reading


def _read_grid(
    what: str, paths: Sequence[Path], model: type[Artefact], key: Callable[[Artefact], Key], needed: Sequence[Key]
) -> Files[Artefact]:
    """The files by their place in the grid; each place has exactly one."""
    found: Files[Artefact] = {}
    for path in paths:
        file = read_artefact(path, model)
        place = key(file)
        problem = f"a second {what} for" if place in found else f"a {what} that the table has no place for:"
        if place in found or place not in needed:
            raise MismatchError(
                f"{problem} {' '.join(map(str, place))}", where=path, next_step="give each file of the study once"
            )
        found[place] = path, file
    if missing := [place for place in needed if place not in found]:
        raise DataError(
            f"the table would have a hole: no {what} for {' '.join(map(str, missing[0]))}",
            expected=f"{len(needed)} files",
            found=len(found),
            next_step="run the workflow again; it makes what is missing",
        )
    return found


def _check_comparison(path: Path, file: ComparisonFile, settings: TableSettings, rows: dict[str, Row]) -> None:
    """Checks that a comparison was made from the scores of the table.

    Raises MismatchError.
    """
    pairs: list[tuple[str, Any, Any]] = [
        ("baseline", settings.baseline, file.baseline),
        ("seeds", sorted(settings.seeds), sorted(file.system_seeds)),
        ("seeds of the baseline", sorted(settings.seeds), sorted(file.baseline_seeds)),
    ]
    for name, metric in file.metrics.items():
        for side, estimate in ((file.baseline, metric.baseline), (file.system, metric.system)):
            cell = rows[side].cells.get(name) if side in rows else None
            if cell is None or cell.signature != metric.signature:
                pairs.append((f"convention of {name}", cell and cell.signature, metric.signature))
            elif not math.isclose(cell.value, estimate.value, abs_tol=1e-9):
                pairs.append((f"{name} of {side}", cell.value, estimate.value))
    for what, expected, found in pairs:
        if expected != found:
            raise MismatchError(
                f"the comparison was made from other scores than the table: another {what}",
                where=path,
                expected=expected,
                found=found,
                next_step="delete it and run again",
            )


# -------------------------------------------------------------------------------------------------------------- blocks


def _score_block(
    settings: TableSettings,
    test_set: tuple[str, str],
    score_files: Files[ScoreFile],
    comparison_files: Files[ComparisonFile],
) -> Block:
    chosen = {place[2:]: entry for place, entry in score_files.items() if place[:2] == test_set}
    check_comparable(dict(chosen.values()))
    metrics = [name for name in _METRICS if name in next(iter(chosen.values()))[1].metrics]
    rows = {}
    for system, title in settings.systems:
        files = {seed: chosen[system, seed] for seed in settings.seeds}
        cells = {
            name: _mean_cell(
                {seed: file.metrics[name].score for seed, (_, file) in files.items()},
                signature=files[settings.seeds[0]][1].metrics[name].signature,
                sources=[path for path, _ in files.values()],
            )
            for name in metrics
        }
        rows[system] = Row(system=system, title=title, cells=cells)
    for system, row in rows.items():
        if system != settings.baseline:
            path, file = comparison_files[(*test_set, system)]
            _check_comparison(path, file, settings, rows)
            for name in metrics:
                if _METRICS[name][1]:
                    row.cells[_difference_key(name)] = _difference_cell(path, file, name, row.cells[name])
    columns = []
    for name in metrics:
        heading, with_difference, meaning = _METRICS[name]
        columns.append(Column(key=name, heading=heading, meaning=meaning))
        if with_difference and comparison_files:
            columns.append(Column(key=_difference_key(name), heading=DIFFERENCE))
    notes = [_note_on_seeds(settings)]
    if comparison_files:
        notes.append(_note_on_differences(settings, [file for _, file in comparison_files.values()]))
    return Block(
        dataset=test_set[0],
        test_set=test_set[1],
        size=next(iter(chosen.values()))[1].sentences,
        columns=columns,
        rows=list(rows.values()),
        notes=notes,
    )


def _difference_key(metric: str) -> str:
    return f"{metric}_difference"


def _mean_cell(by_seed: dict[int, float], *, signature: str, sources: Sequence[Path], decimals: int = 2) -> Cell:
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    value = math.fsum(values) / len(values)
    spread = "" if deviation is None else f" ± {deviation:.{decimals}f}"
    return Cell(
        value=value,
        text=f"{value:.{decimals}f}{spread}",
        signature=signature,
        sources=[Source(path=str(path), sha256=digest_file(path)) for path in sources],
        by_seed=by_seed,
        deviation=deviation,
    )


def _difference_cell(path: Path, file: ComparisonFile, metric: str, scores: Cell) -> Cell:
    comparison = file.metrics[metric]
    value = comparison.difference.value
    text = f"{value:+.2f}"
    return Cell(
        value=value,
        text=text if float(text) else "0.00",
        mark=_mark(comparison.p_values.koehn2004),
        signature=comparison.signature,
        sources=[Source(path=str(path), sha256=digest_file(path)), *scores.sources],
        low=comparison.difference.low,
        high=comparison.difference.high,
        p_values=comparison.p_values,
    )


def _mark(p_value: float) -> str:
    return "‡" if p_value < 0.01 else "†" if p_value < 0.05 else ""


def _contrast_block(settings: TableSettings, dataset: str, files: Files[ContrastFile]) -> Block:
    paths = {place[1:]: path for place, (path, _) in files.items() if place[0] == dataset}
    contents = {place[1:]: file for place, (_, file) in files.items() if place[0] == dataset}
    groups = _groups(next(iter(contents.values())))
    for place, file in contents.items():
        if _groups(file) != groups:
            raise MismatchError(
                "other contrastive pairs than those of the first system",
                where=paths[place],
                expected=groups,
                found=_groups(file),
                next_step="score all systems on the same pairs",
            )
    rows = []
    for system, title in settings.systems:
        by_seed = {seed: _accuracies(contents[system, seed]) for seed in settings.seeds}
        cells = {
            group: _mean_cell(
                {seed: 100 * accuracies[group] for seed, accuracies in by_seed.items()},
                signature=f"contrastive_accuracy|distance:{group}|pairs:{pairs}",
                sources=[paths[system, seed] for seed in settings.seeds],
                decimals=1,
            )
            for group, pairs in groups.items()
        }
        rows.append(Row(system=system, title=title, cells=cells))
    columns = [Column(key=group, heading=f"{group} ({pairs:,})") for group, pairs in groups.items()]
    notes = [_note_on_seeds(settings), _NOTE_ON_CONTRASTS]
    return Block(dataset=dataset, size=groups["all"], columns=columns, rows=rows, notes=notes)


def _groups(file: ContrastFile) -> dict[str, int]:
    """Number of pairs: of all, and of each group of distances that has some."""
    return {"all": file.pairs, **{_range(group): group.pairs for group in file.by_distance if group.pairs}}


def _accuracies(file: ContrastFile) -> dict[str, float]:
    by_distance = {_range(group): group.accuracy for group in file.by_distance if group.accuracy is not None}
    return {"all": file.accuracy, **by_distance}


def _range(group: DistanceGroup) -> str:
    return f"{group.low}+" if group.high is None else f"{group.low}-{group.high}"


# --------------------------------------------------------------------------------------------------------------- notes

_NOTE_ON_CONTRASTS = (
    "Contrastive pairs: how often, in percent, the right target is more probable than one with a single mistake; all, "
    "and by the distance in words between the two that must agree (in brackets: number of pairs)."
)


def _note_on_seeds(settings: TableSettings) -> str:
    seeds = ", ".join(map(str, settings.seeds))
    if len(settings.seeds) == 1:
        return f"One training per system (seed {seeds}): how much trainings differ from each other is not measured."
    return f"Mean ± sample standard deviation over {len(settings.seeds)} trainings per system (seeds {seeds})."


def _note_on_differences(settings: TableSettings, comparisons: Sequence[ComparisonFile]) -> str:
    draws = {(file.samples, file.seed) for file in comparisons}
    if len(draws) > 1:
        raise MismatchError(
            "comparisons by different numbers of samples or seeds of the resampling",
            found=sorted(draws),
            next_step="delete the comparisons and run again",
        )
    return (
        f"{DIFFERENCE}: difference to {dict(settings.systems)[settings.baseline]}. † p < 0.05, ‡ p < 0.01: better by "
        f"paired bootstrap (Koehn 2004), {comparisons[0].samples:,} samples. The test covers the sampling of test "
        "sentences only, not the randomness of training."
    )


def _signatures(blocks: Sequence[Block]) -> Iterator[str]:
    """One line per metric and signature; with the test sets where they differ in it."""
    places: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for column in block.columns:
            if column.meaning:
                signatures = places.setdefault(f"{column.heading} ({column.meaning})", {})
                signatures.setdefault(block.rows[0].cells[column.key].signature, []).append(block.heading)
    for metric, signatures in places.items():
        for signature, headings in signatures.items():
            where = f" [{'; '.join(headings)}]" if len(signatures) > 1 else ""
            yield f"{metric}{where}: {signature}"


# -------------------------------------------------------------------------------------------------------------- output


def to_markdown(table: Table) -> Iterator[str]:
    """The lines of table.md; the columns line up in a terminal."""
    yield f"# {table.title}"
    for block in table.blocks:
        yield from ("", f"## {block.heading}", "", *_aligned(block))
    for note in table.notes:
        yield from ("", *textwrap.wrap(note, 100, break_long_words=False, break_on_hyphens=False))
    yield ""
    yield from (f"- {signature}" for signature in table.signatures)
    yield from (
        "",
        f"To reproduce, with the file of the study `{table.study}` as STUDY.yaml:",
        "",
        f"    {table.command}",
    )


def _aligned(block: Block) -> Iterator[str]:
    columns = [["System", *(row.title.replace("|", r"\|") for row in block.rows)]]
    for column in block.columns:
        texts = [row.printed(column) for row in block.rows]
        marked = any(text.endswith(_MARKS) for text in texts)  # marks hang out to the right of the aligned numbers
        columns.append(
            [column.heading, *(text if text.endswith(_MARKS) or not marked else text + " " for text in texts)]
        )
    widths = [max(3, *map(_width, column)) for column in columns]
    for number, (title, *texts) in enumerate(zip(*columns, strict=True)):
        cells = [title + " " * (widths[0] - _width(title))]
        cells += [" " * (width - _width(text)) + text for text, width in zip(texts, widths[1:], strict=True)]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
            yield f"| {' | '.join(rules)} |"


def _width(text: str) -> int:
    """Columns that a terminal gives a text: two for Chinese characters, none for combining marks."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def to_latex(table: Table) -> Iterator[str]:
    """The lines of table.tex: for each block a `table` with booktabs rules."""
    yield r"% needs \usepackage{booktabs}"
    yield from (f"% {signature}" for signature in table.signatures)
    yield f"% {table.command}"
    for block in table.blocks:
        label = re.sub(r"[^a-zA-Z0-9]+", "-", f"{table.study}-{block.dataset}-{block.test_set or 'contrasts'}")
        caption = _latex(" ".join([f"{table.title}: {block.heading}.", *block.notes]))
        yield from ("", r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{label}}}")
        yield rf"\begin{{tabular}}{{l{'r' * len(block.columns)}}}"
        yield r"\toprule"
        yield _latex_row("System", *(column.heading for column in block.columns))
        yield r"\midrule"
        for row in block.rows:
            yield _latex_row(row.title, *map(row.printed, block.columns))
        yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _latex_row(*texts: str) -> str:
    return " & ".join(map(_latex, texts)) + r" \\"


_LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    DIFFERENCE: r"$\Delta$",
}


def _latex(text: str) -> str:
    """Text for LaTeX: its special characters escaped, signs of this module in mathematics, minus before numbers."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
