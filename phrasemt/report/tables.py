"""The stage `make_table`: results as JSON with origins, as Markdown for a terminal, as LaTeX, and as CSV.

The table has one block for each test set and kind of score, for each set of contrastive pairs, and for the averaged
weights of each data set on dev. A block has one row for each system, in the order of the study. A number is the mean
over the seeds of its system, computed from unrounded scores and rounded once, half to even. A missing or superfluous
file, a score of another convention, or a comparison that was made from other scores is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.corpus import ComparedSplits
from phrasemt.artefacts.scores import Comparison, MetricScores, SystemScores
from phrasemt.artefacts.table import Block, CsvTable, LatexTable, MarkdownTable, Table
from phrasemt.artefacts.training import AverageScores
from phrasemt.artefacts.translations import ChunkAccuracies, ContrastAccuracy, PerplexityScores
from phrasemt.files.lines import write_lines
from phrasemt.report.blocks.averages import average_blocks
from phrasemt.report.blocks.chunks import chunk_blocks
from phrasemt.report.blocks.contrasts import contrast_blocks
from phrasemt.report.blocks.perplexity import perplexity_blocks
from phrasemt.report.blocks.scores import score_blocks
from phrasemt.report.blocks.splits import notes_on_splits
from phrasemt.report.printing import to_csv, to_latex, to_markdown
from phrasemt.report.scorecard import make_scorecard
from phrasemt.stages.report import MakeTable

log = logging.getLogger("phrasemt.report.tables")


def make_table(
    *,
    settings: MakeTable,
    cores: int,
    scores: list[In[SystemScores]],
    metrics: list[In[MetricScores]],
    comparisons: list[In[Comparison]],
    perplexities: list[In[PerplexityScores]],
    chunks: list[In[ChunkAccuracies]],
    contrasts: list[In[ContrastAccuracy]],
    averages: list[In[AverageScores]],
    splits: list[In[ComparedSplits]],
    table: Out[Table],
    markdown: Out[MarkdownTable],
    latex: Out[LatexTable],
    csv: Out[CsvTable],
) -> None:
    """Make the table of a study from the score files of its systems.

    Raises DataError naming a combination of test set, system and seed without a score, and MismatchError for files that
    do not belong to the study or to each other.
    """
    blocks = [
        *score_blocks(settings, scores, metrics, comparisons),
        *perplexity_blocks(settings, perplexities),
        *chunk_blocks(settings, chunks),
        *contrast_blocks(settings, contrasts),
        *average_blocks(settings, averages),
    ]
    notes = notes_on_splits(settings, splits)
    for block in blocks:
        if block.test_set is not None and (note := notes.get((block.dataset, block.test_set))):
            block.notes.append(note)
    result = Table(
        study=settings.study,
        title=settings.title,
        baseline=settings.baseline,
        baselines=settings.baselines,
        systems=settings.systems,
        trained={name: settings.seeds_of[name] for name in settings.trained},
        seeds=settings.seeds,
        scorecard=make_scorecard(settings.figures, blocks, dict(settings.systems)),
        blocks=blocks,
        signatures=list(_signatures(blocks)),
        command=f"snakemake --profile profiles/local results/{settings.study}/table.md --configfile STUDY.yaml",
    )
    result.write(table)
    write_lines(markdown, to_markdown(result))
    write_lines(latex, to_latex(result))
    write_lines(csv, to_csv(result))
    files = sum(map(len, (scores, metrics, perplexities, chunks, contrasts, averages)))
    log.info("make_table: %d systems, %d blocks, %d files of scores", len(settings.systems), len(blocks), files)


def _signatures(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield one line for each metric and signature; it names the test sets if they have different signatures."""
    headings_of: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for column in block.columns:
            if column.meaning:
                signatures = headings_of.setdefault(f"{column.heading} ({column.meaning})", {})
                # A row may lack the cell: a language model has no BLEU.
                cell = next(row.cells[column.key] for row in block.rows if column.key in row.cells)
                signatures.setdefault(cell.signature, []).append(block.heading)
    for metric, signatures in headings_of.items():
        for signature, headings in signatures.items():
            where = f" [{'; '.join(headings)}]" if len(signatures) > 1 else ""
            yield f"{metric}{where}: {signature}"
