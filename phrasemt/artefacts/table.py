"""The results table: blocks, rows and cells. A cell names the files that its number comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.scores import Better, Power
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.fields import Settings
from phrasemt.printed.results import printed_mark

DIFFERENCE = "Δ"
BlockKind = Literal["scores", "perplexity", "chunks", "mistakes", "contrasts"]
Verdict = Literal["reproduced", "within noise", "not reproduced", "other data", "not run"]


class Cell(Settings):
    """A number of the table.

    value: unrounded. text: as printed. mark: of significance. better: which values are. signature: the convention of
    the score. sources: the files that the number was computed from.
    by_seed, deviation: of a mean, the values and their sample standard deviation.
    low, high: 95 % interval, of scores and of differences. Of a difference, p_value: corrected for the number of
    systems, the mark shows it, None if it is not tested; uncorrected, one_sided, koehn2004: as in `MetricComparison`;
    power: of its trainings. decimals: with which the number and its interval are printed.
    """

    value: float
    text: str
    decimals: int = 2
    mark: str = ""
    better: Better
    signature: str
    sources: list[DigestedFile]
    by_seed: dict[int, float] | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    uncorrected: float | None = None
    one_sided: tuple[float, float] | None = None
    koehn2004: float | None = None
    power: Power | None = None

    def interval(self) -> str:
        """The 95 % interval as it is printed, empty if there is none."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:.{self.decimals}f} to {self.high:.{self.decimals}f}"


class Column(Settings):
    """A column of a block. key: of its cells in each row. meaning: line of the legend, empty if none is needed."""

    key: str
    heading: str
    meaning: str = ""


class Row(Settings):
    """A row of a block. system: empty for a row that is not about a system. Cells of some columns may be missing."""

    system: str
    title: str
    cells: dict[str, Cell]

    def printed(self, column: Column) -> str:
        """Return the text of a column: the number with its mark, or nothing for a missing cell."""
        cell = self.cells.get(column.key)
        return "" if cell is None else cell.text + cell.mark


class Block(Settings):
    """Rows about a test set, or about a set of contrastive pairs.

    Contrastive pairs have a contrast_set and no test_set. kind: `mistakes` for the pairs of a set by kind of mistake,
    `contrasts` by distance. mistake: the kind, if the block is about one of several. size: of sentences or pairs.
    lengths: of each system, the tokens of its translations for one of the reference; empty if all are 0.95 to 1.05.
    notes: below its rows; details: what readers need less often.
    """

    kind: BlockKind
    dataset: str
    test_set: str | None = None
    contrast_set: str | None = None
    mistake: str | None = None
    size: int
    columns: list[Column]
    rows: list[Row]
    lengths: dict[str, float] = Field(default_factory=dict)
    notes: list[str]
    details: list[str] = Field(default_factory=list)

    @property
    def name(self) -> str:
        """Name for labels and links, unique in the table."""
        return "-".join(filter(None, (self.kind, self.dataset, self.test_set, self.contrast_set, self.mistake)))

    @property
    def heading(self) -> str:
        if self.test_set is None:
            place = ", ".join(filter(None, (self.dataset, self.contrast_set, self.mistake)))
            return f"{place}, {self.size:,} contrastive pairs"
        what = "" if self.kind == "scores" else f", {self.kind}"
        return f"{self.dataset}, {self.test_set}{what} ({self.size:,} sentences)"


class ScorecardEntry(Settings):
    """A printed figure beside ours.

    place: of the row, `paper/table/row`; column: of our results table. test_sets: of our data set; our figure is the
    mean over them; empty without the test set. printed_difference: to the row that the baseline of the system stands
    for; None if it stands for no row of the table, and for the baseline of the paper itself. is_difference: the printed
    figure is itself that difference. title: of the system. ours: our figure on the test sets, with its interval; None
    if the study has none. difference: ours to our baseline. gap: ours minus printed, on the data of the paper only.
    finding: what is known on other data, or why nothing is.
    """

    system: str
    title: str
    place: str
    paper: str
    table: str
    row: str
    heading: str
    decimals: int
    printed: float
    printed_significant: float | None = None
    is_difference: bool
    printed_difference: float | None = None
    column: str
    dataset: str
    test_sets: list[str]
    same_data: bool
    notes: list[str]
    ours: Cell | None = None
    difference: Cell | None = None
    gap: float | None = None
    verdict: Verdict
    finding: str

    @property
    def printed_text(self) -> str:
        """The figure as the paper prints it, with a mark if it calls it significant."""
        text = f"{self.printed:{'+' if self.is_difference else ''}.{self.decimals}f}"
        return text + printed_mark(self.printed_significant)

    @property
    def text(self) -> str:
        return self.verdict + (f": {self.finding}" if self.finding else "")

    @property
    def significance(self) -> str:
        """Of a figure that the paper calls significant, our p by its test (Koehn 2004) and over seeds."""
        ours = self.difference
        if self.printed_significant is None or ours is None or ours.koehn2004 is None:
            return ""
        over_seeds = "" if ours.uncorrected is None else f", over seeds {ours.uncorrected:.3f}"
        return f"reported p < {self.printed_significant:g}; ours by the same test {ours.koehn2004:.3f}{over_seeds}"


class Scorecard(Settings):
    """The figures of the papers beside ours (phrasemt/report/scores.py).

    footnotes: the notes of all entries, each once: discrepancies in the papers.
    """

    entries: list[ScorecardEntry]
    footnotes: list[str]
    note: str


class Table(JsonFile, format=5):
    """The results of a study. systems: name and title, in the order of the study. trained: the seeds of each system
    that was trained. seeds: of the study. baseline: of the study. baselines: of each other system, what its differences
    are to. pool_groups: of each system, the kind within which deviations between trainings are pooled.

    scorecard: None if no system stands for a row of a paper.
    """

    study: str
    title: str
    baseline: str
    baselines: dict[str, str]
    pool_groups: dict[str, str]
    systems: list[tuple[str, str]]
    trained: dict[str, list[int]]
    seeds: list[int]
    scorecard: Scorecard | None = None
    blocks: list[Block]
    signatures: list[str]
    command: str

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(block.dataset for block in self.blocks))

    @property
    def details(self) -> list[str]:
        return list(dict.fromkeys(note for block in self.blocks for note in block.details))
