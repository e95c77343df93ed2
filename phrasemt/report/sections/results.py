"""What a study found, from its table: the sections "Results", "Beside the paper", "All metrics" and "Provenance".

Each row of "All metrics" links to the list of its files in "Provenance", with their digests, and the stages and code
that made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from phrasemt.artefacts.scores import CONVENTIONS
from phrasemt.artefacts.sidecar import DigestedFile, Evidence, Sidecar
from phrasemt.artefacts.table import DIFFERENCE, Block, Row, Table
from phrasemt.files.system import check_file
from phrasemt.report.figures import colour_of, ticks
from phrasemt.report.page import Section, TextTable, fill
from phrasemt.report.scores import SAME_LENGTH
from phrasemt.report.sections.trainings import TrainingCurve, convergence
from phrasemt.report.summary import (
    BLEU,
    GAIN,
    Gain,
    Rows,
    details,
    gains,
    main_columns,
    main_rows,
    paper_tables,
    score_blocks_of,
    system_order,
)
from phrasemt.scoring.scores import NATS

_SAME_SIZE = 0.05  # the largest relative difference of numbers of parameters that is none
_NATS = "Nats"
_NOTE_ON_NATS = "Nats: per token of the reference, by forced decoding; lower is better."
_NOTE_ON_MARKS = " Their marks are those of the differences in nats."
_MOST_SYSTEMS = 6  # that a forest plot shows in all metrics; of more, in BLEU alone


def results_section(table: Table, trainings: Sequence[TrainingCurve]) -> Section | None:
    """Make the section; None for a study of which only other things are known than scores and perplexities."""
    colours = {title: colour_of(place) for place, title in enumerate(system_order(table))}
    blocks = [block for block in table.blocks if block.kind in ("scores", "perplexity")]
    if not blocks:
        return None
    parts = []
    for block in blocks:
        rows = main_rows(block)
        if block.kind == "scores":
            rows = _with_further_columns(rows, table, block, trainings)
        parts.append((block, rows, _forest(table, block, colours)))
    notes = dict.fromkeys(note for block in blocks for note in block.notes)
    if any(_NATS in rows[0] for _, rows, _ in parts):
        marked = any(gain.cell.mark for block in blocks for gain in gains(table, block, NATS))
        notes[_NOTE_ON_NATS + _NOTE_ON_MARKS * marked] = None
    content = fill("sections/results.html", parts=parts, colours=colours, gain=GAIN, notes=notes)
    return Section(anchor="results", heading="Results", content=content)


def _with_further_columns(rows: Rows, table: Table, block: Block, trainings: Sequence[TrainingCurve]) -> Rows:
    """The first table with nats, agreement and parameters, as far as they are known."""
    nats = {row.system: row.cells[NATS].text for row in block.rows if NATS in row.cells}
    marks = {gain.row.system: gain.cell.mark for gain in gains(table, block, NATS)}
    pairs = [one for one in table.blocks if one.kind in ("contrasts", "mistakes") and one.mistake is None]
    agreement = {
        row.system: row.cells["all"].text for one in pairs[:1] if one.dataset == block.dataset for row in one.rows
    }
    parameters = {one.system: f"{one.record.parameters:,}" for one in trainings if one.dataset == block.dataset}
    further: Mapping[str, Mapping[str, str]] = {
        _NATS: {system: text + marks.get(system, "") for system, text in nats.items()},
        "Pairs right, %": agreement,
        "Parameters": parameters,
    }
    shown = {heading: values for heading, values in further.items() if values}
    of_rows = [list(shown), *([values.get(row.system, "") for values in shown.values()] for row in block.rows)]
    return [[*row, *cells] for row, cells in zip(rows, of_rows, strict=True)]


def _forest(table: Table, block: Block, colours: Mapping[str, str]) -> Markup | None:
    """The gains of a test set as a forest plot; None without any."""
    reported = {
        entry.system: entry
        for entry in (table.scorecard.entries if table.scorecard else ())
        if (entry.dataset, entry.test_sets) == (block.dataset, [block.test_set])
        and entry.printed_difference is not None
        and CONVENTIONS.get(entry.column, CONVENTIONS[NATS]).metric == "BLEU"  # not perplexity or chunks
    }
    lanes: list[tuple[str, Gain, float | None]] = []  # heading of the metric at its first gain, and the reported gain
    for column in main_columns(block):
        of_metric = gains(table, block, column.key)
        # Other metrics than those of `CONVENTIONS` have other scales.
        if column.key not in CONVENTIONS or (column.key != BLEU and len(of_metric) > _MOST_SYSTEMS):
            continue
        headings = [column.heading + (", fewer edits" if column.key == "ter" else ""), *[""] * len(of_metric)]
        for heading, gain in zip(headings, of_metric, strict=False):
            entry = reported.get(gain.row.system) if column.key == BLEU else None
            lanes.append((heading, gain, entry.printed_difference if entry else None))
    if not lanes:
        return None
    shown_gains = [gain for _, gain, _ in lanes]
    places = [0.0, *(place for gain in shown_gains for place in (gain.gained.low, gain.gained.value, gain.gained.high))]
    places += [printed for _, _, printed in lanes if printed is not None]
    axis = ticks(min(places), max(places))
    tested = {gain.cell.p_value is not None for gain in shown_gains}
    shown = [entry for system, entry in reported.items() if any(gain.row.system == system for gain in shown_gains)]
    baselines = {gain.baseline for gain in shown_gains}
    return fill(
        "sections/results.forest.html",
        baseline=baselines.pop() if len(baselines) == 1 else "the baselines",
        lanes=lanes,
        colours=colours,
        ticks=axis,
        at=lambda value: f"{100 * (value - axis[0]) / (axis[-1] - axis[0]):.2f}%",
        hollow=False in tested,
        filled=True in tested,
        papers=list(dict.fromkeys(entry.paper for entry in shown)),
        of_data="" if all(entry.same_data for entry in shown) else ", on other data",
    )


def caveats(table: Table, controls: Mapping[str, Sequence[str]], trainings: Sequence[TrainingCurve]) -> str:
    """What limits the answer: the first two of size, unequal lengths, number of trainings, and convergence."""
    blocks = score_blocks_of(table)
    found = gains(table, blocks[0]) if blocks else []
    of_dataset = [one for one in trainings if blocks and one.dataset == blocks[0].dataset]
    sentences = list(_on_size(table, found, controls, of_dataset))
    if found and max(lengths := list(blocks[0].lengths.values()) or [0.0]) - min(lengths) > SAME_LENGTH:
        ends = f"{min(lengths):.2f} to {max(lengths):.2f}"
        sentences.append(f"BLEU here also measures the length of the translations: {ends} of the reference.")
    if found and all(gain.cell.p_value is None for gain in found):
        sentences.append("phrasemt plan STUDY --detect 0.5 says how many seeds a difference of 0.5 BLEU needs.")
    if (text := convergence(trainings)).endswith("not converged"):
        sentences.append(f"{text[0].upper()}{text[1:]}.")
    return " ".join(sentences[:2])


def _on_size(
    table: Table, found: Sequence[Gain], controls: Mapping[str, Sequence[str]], trainings: Sequence[TrainingCurve]
) -> Iterator[str]:
    """Yield a sentence about systems with more parameters than their baselines and without a control of their size."""
    sizes = {one.system: one.record.parameters for one in trainings}
    larger: dict[str, float] = {}
    for system in (gain.row.system for gain in found if gain.row.system in sizes):
        baseline = sizes.get(table.baselines[system])
        same_size = [
            one for one in controls.get(system, ()) if abs(sizes.get(one, 0) / sizes[system] - 1) <= _SAME_SIZE
        ]
        if baseline and sizes[system] > (1 + _SAME_SIZE) * baseline and not same_size:
            larger[system] = sizes[system] / baseline
    if larger:
        titles = dict(table.systems)
        names = f"{len(larger)} systems" if len(larger) > 2 else " and ".join(titles[system] for system in larger)
        ratios = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (min(larger.values()), max(larger.values()))))
        has, its = ("has", "its") if len(larger) == 1 else ("have", "their")
        yield (
            f"{names} {has} {ratios} times the parameters of the baseline, and no control of {its} size: this study "
            "cannot tell phrases from size."
        )


def metrics_section(table: Table) -> Section:
    """Make the section. Each row links to the list of its files in the section "Provenance"."""
    tables = []
    for block in table.blocks:
        links = {row.title: f"#{anchor(block, row)}" for row in block.rows}
        for heading, (headings, *rows), _ in details(table, block):
            tables.append(TextTable(caption=heading, headings=headings, rows=rows, links=links))
    content = fill("sections/results.metrics.html", table=table, tables=tables)
    headings = [column.heading for block in table.blocks for column in block.columns if column.heading != DIFFERENCE]
    of_scores = [heading for heading in dict.fromkeys(headings) if " (" not in heading]
    return Section(anchor="metrics", heading="All metrics", finding=", ".join(of_scores), content=content)


def anchor(block: Block, row: Row) -> str:
    """Return the id of the list of files behind a row, the target of its link."""
    return f"from-{block.name}-{row.system}"


# The sections that measure what the papers claim, by their anchors.
_CLAIMS = {
    "results": "gains",
    "lengths": "long sentences",
    "pairs": "words that must agree over a distance",
    "phrases": "the use of phrases",
    "attention": "attention to n-grams",
    "controls": "what a gain comes from",
}


def scorecard_section(table: Table, others: Sequence[Section]) -> Section | None:
    """Make the section; None for a study in which no system stands for a row of a paper. others: of the page."""
    card = table.scorecard
    if card is None:
        return None
    tables = list(paper_tables(card))
    counts = Counter(entry.finding or entry.verdict for entry in card.entries if entry.finding != "baseline")
    speaking = [f'"{one.heading}" ({_CLAIMS[one.anchor]})' for one in others if one.anchor in _CLAIMS]
    content = fill(
        "sections/results.scorecard.html",
        tables=[TextTable(caption=note, headings=headings, rows=rows) for (headings, *rows), note in tables],
        footnotes=card.footnotes,
        claims=f"Sections of this page that measure what the papers claim: {', '.join(speaking)}.",
    )
    finding = "; ".join(f"{finding}: {count}" if len(counts) > 1 else finding for finding, count in counts.items())
    return Section(
        anchor="papers", heading="Beside the paper", finding=finding or "the baseline alone", content=content
    )


def origins_section(table: Table, others: Sequence[Path]) -> Section:
    """Make the section. others: files that the page shows besides those that the table names.

    Raises DamagedFileError for a file that has changed since its stage wrote it, or since the table was made.
    """
    evidence = Evidence()
    scores = {  # of each row, the digests of the files that its numbers were computed from
        anchor(block, row): {source.path: source.sha256 for cell in row.cells.values() for source in cell.sources}
        for block in table.blocks
        for row in block.rows
    }
    made_by: dict[str, Sidecar] = {}
    for path, digest in (file for files in scores.values() for file in files.items()):
        made_by[path] = evidence.check_output(path)
        what = "not the file that the table was made from"
        check_file(Path(path), digest, what, found=evidence.digest(path), next_step="make the table again")
    made_by |= {str(path): evidence.check_output(str(path)) for path in others}
    content = fill(
        "sections/results.origins.html",
        table=table,
        anchor=anchor,
        scores=scores,
        others=[DigestedFile(path=str(path), sha256=evidence.digest(str(path))) for path in others],
        versions=[(*key, count) for key, count in Counter(map(_made_with, made_by.values())).items()],
    )
    finding = f"{len(made_by):,} files with their sha256, and the code and libraries that made them"
    return Section(anchor="origins", heading="Provenance", finding=finding, content=content)


def _made_with(sidecar: Sidecar) -> tuple[str, str, str]:
    """Stage, digest of its code, and versions of libraries."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(sidecar.versions.items()))
    return sidecar.stage, sidecar.code, versions
