"""The results table: JSON with the origin of every number, Markdown for a terminal, LaTeX for a paper.

One block of rows per test set and kind of score, and per set of contrastive pairs; one row per system in the order of
the study. A number is the mean over the seeds of the study, computed from unrounded scores and rounded once, to the
nearest and at a tie to the even digit. The table is whole or it is an error: a missing or foreign file, a score of
another convention, or a comparison made from other scores ends the stage.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.files.lines import write_lines, write_text
from phrasemt.paper.blocks.chunks import chunk_blocks
from phrasemt.paper.blocks.contrasts import contrast_blocks
from phrasemt.paper.blocks.perplexity import perplexity_blocks
from phrasemt.paper.blocks.scores import score_blocks
from phrasemt.paper.cells import Block, Table
from phrasemt.paper.printing import to_latex, to_markdown
from phrasemt.settings import TableSettings

log = logging.getLogger("phrasemt.paper.tables")


def make_table(
    *,
    settings: TableSettings,
    cores: int,
    scores: list[Path],
    comparisons: list[Path],
    perplexities: list[Path],
    chunks: list[Path],
    contrasts: list[Path],
    table: Path,
    markdown: Path,
    latex: Path,
) -> None:
    """Make the table of a study from what was measured of its systems.

    Raises DataError for a hole in the grid of test sets, systems and seeds, naming it, and MismatchError for files that
    do not belong to the grid or to each other.
    """
    blocks = [
        *score_blocks(settings, scores, comparisons),
        *perplexity_blocks(settings, perplexities),
        *chunk_blocks(settings, chunks),
        *contrast_blocks(settings, contrasts),
    ]
    result = Table(
        format=1,
        study=settings.study,
        title=settings.title,
        baseline=settings.baseline,
        systems=settings.systems,
        seeds=settings.seeds,
        blocks=blocks,
        signatures=list(_signatures(blocks)),
        command=f"snakemake --profile profiles/local --configfile STUDY.yaml results/{settings.study}/table.md",
    )
    write_text(table, result.model_dump_json(indent=1, exclude_none=True) + "\n")
    write_lines(markdown, to_markdown(result))
    write_lines(latex, to_latex(result))
    files = len(scores) + len(perplexities) + len(chunks) + len(contrasts)
    log.info("make_table: %d systems, %d blocks, %d files of scores", len(settings.systems), len(blocks), files)


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
