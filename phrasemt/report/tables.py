"""The stage `make_table`: results as JSON with origins, as Markdown for a terminal, as LaTeX for a paper, and as CSV.

The table has one block for each test set and kind of score, and for each set of contrastive pairs. A block has one row
for each system, in the order of the study. A number is the mean over the seeds of its system, computed from unrounded
scores and rounded once, half to even. A missing or superfluous file, a score of another convention, or a comparison
that was made from other scores is an error.

tabulate would do the alignment only: marks beside numbers, escapes and mathematics in LaTeX would stay here.
"""

from __future__ import annotations

import csv
import io
import logging
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.corpus import ComparedSplits
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Table
from phrasemt.corpus.compare_splits import describe
from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines
from phrasemt.report.blocks import chunk_blocks, contrast_blocks, perplexity_blocks
from phrasemt.report.scores import make_scorecard, score_blocks
from phrasemt.report.summary import details, main_rows, paper_tables
from phrasemt.stages.report import MakeTable

log = logging.getLogger("phrasemt.report.tables")


def make_table(
    *,
    settings: MakeTable,
    cores: int,
    system_scores: list[Path],
    metric_scores: list[Path],
    comparison: list[Path],
    attention_analysis: list[Path],
    perplexity_scores: list[Path],
    chunk_accuracies: list[Path],
    contrast_accuracy: list[Path],
    compared_splits: list[Path],
    table: Path,
    markdown: Path,
    latex: Path,
    csv: Path,
) -> None:
    """Make the table of a study from the score files of its systems.

    Raises DataError naming a combination of test set, system and seed without a score, and MismatchError for files that
    do not belong to the study or to each other.
    """
    blocks = [
        *score_blocks(settings, system_scores, metric_scores, attention_analysis, comparison),
        *perplexity_blocks(settings, perplexity_scores),
        *chunk_blocks(settings, chunk_accuracies),
        *contrast_blocks(settings, contrast_accuracy),
    ]
    notes = _notes_on_splits(settings, compared_splits)
    for block in blocks:
        if block.test_set is not None and (note := notes.get((block.dataset, block.test_set))):
            block.details.append(note)
    result = Table(
        study=settings.study,
        title=settings.title,
        baseline=settings.baseline,
        baselines=settings.baselines,
        pool_groups=settings.pool_groups,
        systems=settings.systems,
        trained={name: settings.seeds_of[name] for name in settings.trained},
        seeds=settings.seeds,
        scorecard=make_scorecard(settings.figures, blocks, dict(settings.systems)),
        blocks=blocks,
        signatures=list(_signatures(blocks)),
        command="phrasemt run STUDY.yaml",
    )
    result.write(table)
    write_lines(markdown, to_markdown(result))
    write_lines(latex, to_latex(result))
    write_lines(csv, to_csv(result))
    log.info("make_table: %d systems, %d blocks", len(settings.systems), len(blocks))


def _notes_on_splits(settings: MakeTable, paths: Sequence[Path]) -> dict[tuple[str, str], str]:
    """Return a note for each test set (data set, name).

    Raises DataError naming a test set without counts.
    """
    found = {}
    for path in paths:
        names = Paths.compared_splits.names(path)
        dataset, unit = names["dataset"], "sentences" if names["source"] == names["target"] else "pairs"
        for name, counts in ComparedSplits.read(path).splits.items():
            found[dataset, name] = f"{dataset}, {name}: {describe(counts, unit)}."
    for test_set in settings.test_sets:
        if test_set not in found:
            what = f"the table would be incomplete: no counts of what {' '.join(test_set)} shares with train"
            next_step = "run the workflow again, which makes the missing files"
            raise DataError(what, where=", ".join(map(str, paths)) or "--splits", next_step=next_step)
    return {test_set: found[test_set] for test_set in settings.test_sets}


def _signatures(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield one line for each metric and signature; it names the test sets if they have different signatures."""
    headings_of: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for column in block.columns:
            if column.meaning:
                signatures = headings_of.setdefault(f"{column.heading} ({column.meaning})", {})
                # A row may have no such cell: a language model has no BLEU.
                cell = next(row.cells[column.key] for row in block.rows if column.key in row.cells)
                signatures.setdefault(cell.signature, []).append(block.heading)
    for metric, signatures in headings_of.items():
        for signature, headings in signatures.items():
            where = f" [{'; '.join(headings)}]" if len(signatures) > 1 else ""
            yield f"{metric}{where}: {signature}"


def to_markdown(table: Table) -> Iterator[str]:
    """Yield the lines of table.md: the main results, figures of the papers, then all else."""
    yield f"# {table.title}"
    said: set[str] = set()
    for block in (block for block in table.blocks if block.kind in ("scores", "perplexity")):
        yield from ("", f"## Results: {block.heading}", "", *markdown_rows(main_rows(block)))
        yield from _wrapped([note for note in block.notes if note not in said])
        said.update(block.notes)
    if table.scorecard is not None:
        tables = list(paper_tables(table.scorecard))
        if tables:
            yield from ("", "## Beside the paper")
        for rows, note in tables:
            yield from ("", *markdown_rows(rows), *_wrapped([note]))
        yield from _wrapped([f"[{place}] {note}" for place, note in enumerate(table.scorecard.footnotes, start=1)])
    yield from ("", "## Details")
    for block in (block for block in table.blocks if block.kind != "perplexity"):
        for heading, rows, notes in details(table, block):
            yield from ("", f"### {heading}", "", *markdown_rows(rows))
            yield from _wrapped([note for note in notes if note not in said])
            said.update(notes)
    yield from ("", "### Data and signatures", *_wrapped(table.details), "")
    yield from (f"- {signature}" for signature in table.signatures)
    yield from (
        "",
        f"To reproduce, with the file of the study `{table.study}` as STUDY.yaml:",
        "",
        f"    {table.command}",
    )


def _wrapped(notes: Sequence[str]) -> Iterator[str]:
    for note in notes:
        yield from ("", *textwrap.wrap(note, 100, break_long_words=False, break_on_hyphens=False))


def numeric_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    """The columns, but the first, that have numbers only, which are aligned at the right. rows: headings first."""
    columns = list(zip(*rows[1:], strict=True))
    return {place for place, column in enumerate(columns) if place and all(map(_NUMBER.fullmatch, column))}


_NUMBER = re.compile(r"([+-]?[\d.,]+%?( ± [\d.]+)?[†‡]?( to [+-]?[\d.]+)?)?")


def markdown_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, with columns aligned for a terminal. rows: headings first."""
    right = numeric_columns(rows)
    escaped = [[text.replace("|", r"\|") for text in row] for row in rows]
    widths = [max(3, *map(_width, column)) for column in zip(*escaped, strict=True)]
    for number, row in enumerate(escaped):
        padding = [" " * (width - _width(text)) for text, width in zip(row, widths, strict=True)]
        cells = [
            space + text if column in right else text + space
            for column, (text, space) in enumerate(zip(row, padding, strict=True))
        ]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            rules = ["-" * (width - 1) + (":" if column in right else "-") for column, width in enumerate(widths)]
            yield f"| {' | '.join(rules)} |"


def _width(text: str) -> int:
    """Return the width of a text in a terminal: two columns for a Chinese character, none for a combining mark."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def to_latex(table: Table) -> Iterator[str]:
    """Yield the lines of table.tex: a `table` with booktabs rules for the main results of each test set and paper."""
    yield rf"% needs \usepackage{{booktabs}}. All metrics: {Path(Paths(table.study).markdown_table).name}"
    yield from (f"% {signature}" for signature in table.signatures)
    yield f"% {table.command}"
    for block in table.blocks:
        of_scores = block.kind == "scores"
        rows = main_rows(block) if of_scores else next(rows for _, rows, _ in details(table, block))
        about = "; ".join(note.removesuffix(".") for note in block.notes)
        yield from ("", *latex_tabular(f"{block.heading}. {about}.", f"{table.study}-{block.name}", rows))
    for number, (rows, note) in enumerate(paper_tables(table.scorecard) if table.scorecard else (), start=1):
        caption = f"{table.title}, beside the paper. {note}"
        yield from ("", *latex_tabular(caption, f"{table.study}-paper-{number}", rows))


def latex_tabular(caption: str, label: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with booktabs rules. rows: headings first."""
    label, right = re.sub(r"[^a-zA-Z0-9]+", "-", label), numeric_columns(rows)
    columns = "".join("r" if place in right else "l" for place in range(len(rows[0])))
    yield from (r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}")
    yield from (r"\toprule", _latex_row(*rows[0]), r"\midrule", *(_latex_row(*row) for row in rows[1:]), r"\bottomrule")
    yield from (r"\end{tabular}", rf"\caption{{{_latex(caption)}}}", rf"\label{{tab:{label}}}", r"\end{table}")


def _latex_row(*texts: str) -> str:
    return " & ".join(map(_latex, texts)) + r" \\"


_CSV = (
    *("kind", "dataset", "test_set", "system", "title", "column", "seed", "value", "deviation", "low", "high"),
    *("p_value", "detectable", "seeds_needed", "signature", "printed", "place"),
)


def to_csv(table: Table) -> Iterator[str]:
    """Yield the lines of table.csv, numbers unrounded: for each cell, each of its seeds, and each printed figure."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _CSV, lineterminator="\n")
    writer.writeheader()
    for entry in table.scorecard.entries if table.scorecard else []:
        place = {"kind": "scorecard", "dataset": entry.dataset, "test_set": ", ".join(entry.test_sets)}
        what = {**place, "system": entry.system, "title": entry.title, "column": entry.column}
        numbers = _numbers(entry.ours) if entry.ours else {}
        writer.writerow({**what, **numbers, "printed": entry.printed, "place": entry.place})
    for block in table.blocks:
        for row in block.rows:
            for column, cell in row.cells.items():
                place = {"kind": block.kind, "dataset": block.dataset, "system": row.system}
                place["test_set"] = block.test_set or block.contrast_set or ""
                what = {**place, "title": row.title, "column": column, "signature": cell.signature}
                writer.writerow({**what, **_numbers(cell)})
                writer.writerows({**what, "seed": seed, "value": one} for seed, one in (cell.by_seed or {}).items())
    yield from stream.getvalue().removesuffix("\n").split("\n")


def _numbers(cell: Cell) -> dict[str, float | None]:
    numbers = {name: getattr(cell, name) for name in ("value", "deviation", "low", "high", "p_value")}
    return numbers | {name: getattr(cell.power, name, None) for name in ("detectable", "seeds_needed")}


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
    """Escape LaTeX's special characters; set marks, ±, Δ and the minus signs of numbers in mathematics."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
