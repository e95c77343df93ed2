"""What a study found, in few words: the main scores with their gains, one sentence, and the gains beside the paper's.

The page, table.md, table.tex and `phrasemt show` begin with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phrasemt.artefacts.scores import CONVENTIONS, Estimate
from phrasemt.artefacts.table import DIFFERENCE, Block, Cell, Column, Row, Scorecard, ScorecardEntry, Table
from phrasemt.printed.results import printed_mark
from phrasemt.scoring.significance import FEWEST, p_text

BLEU = "bleu_tok"
_MAIN = {BLEU: "BLEU", "chrf2": "chrF2", "ter": "TER"}  # and metrics of your own
GAIN = f"{DIFFERENCE}, 95 % interval"
_NAMED = 3  # systems that the first sentence names; of more, the best and the worst
Rows = list[list[str]]  # headings first


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The difference of a system to its baseline in one metric. gained: above 0 where the system is better."""

    row: Row
    baseline: str
    cell: Cell
    gained: Estimate

    @property
    def text(self) -> str:
        return self.gained.text(self.cell.decimals, self.cell.mark)


def system_order(table: Table) -> list[str]:
    """The titles of the systems in the order of their colours, the baseline first."""
    titles = dict(table.systems)
    return [titles[table.baseline], *(title for name, title in table.systems if name != table.baseline)]


def score_blocks_of(table: Table) -> list[Block]:
    return [block for block in table.blocks if block.kind == "scores"]


def pairs_of(block: Block, group: str) -> int:
    """The number of pairs of a group of a block of contrastive pairs."""
    return int(block.rows[0].cells[group].signature.rpartition("pairs:")[2])


def main_columns(block: Block) -> list[Column]:
    """The columns of the first table: one kind of BLEU, chrF2, TER, and your own metrics; of perplexities all."""
    if block.kind == "perplexity":
        return [column.model_copy(update={"heading": f"perplexity {column.heading}"}) for column in block.columns]
    return [
        column.model_copy(update={"heading": _MAIN.get(column.key, column.heading)})
        for column in block.columns
        if column.key in _MAIN or (column.key not in CONVENTIONS and column.heading != DIFFERENCE)
    ]


def gains(table: Table, block: Block, metric: str = BLEU) -> list[Gain]:
    """The differences of a metric to the baselines, in the order of the systems."""
    titles, found = dict(table.systems), []
    for row in (row for row in block.rows if f"{metric}_difference" in row.cells):
        cell = row.cells[f"{metric}_difference"]
        sign = -1 if cell.better == "lower" else 1
        low, high = sorted((sign * (cell.low or 0.0), sign * (cell.high or 0.0)))
        gained = Estimate(value=sign * cell.value, low=low, high=high)
        found.append(Gain(row=row, baseline=titles[table.baselines[row.system]], cell=cell, gained=gained))
    return found


def gain_text(cell: Cell | None) -> str:
    """A difference with its mark and its interval; empty without one."""
    return "" if cell is None else f"{cell.text}{cell.mark} ({cell.interval()})"


def main_rows(block: Block) -> Rows:
    """The first table. The gain stands beside the first score."""
    rows = _rows(block, main_columns(block))
    if any(f"{BLEU}_difference" in row.cells for row in block.rows):
        shown = [GAIN, *(gain_text(row.cells.get(f"{BLEU}_difference")) for row in block.rows)]
        for row, text in zip(rows, shown, strict=True):
            row.insert(2, text)
    return rows


def details(table: Table, block: Block) -> Iterator[tuple[str, Rows, Sequence[str]]]:
    """Yield headings, rows and notes of the tables with all numbers of a block that its first table omits."""
    columns = [column for column in block.columns if column.heading != DIFFERENCE]
    if block.kind == "scores":
        yield f"All metrics: {block.heading}", _rows(block, columns), ()
        compared = [(column, {gain.row.system: gain for gain in gains(table, block, column.key)}) for column in columns]
        if systems := list(dict.fromkeys(system for _, of_column in compared for system in of_column)):
            titles = dict(table.systems)
            rows = [["System", *(column.heading for column, _ in compared)]]
            rows += [
                [titles[name], *(_tested(of[name].cell) if name in of else "" for _, of in compared)]
                for name in systems
            ]
            yield f"Differences, 95 % intervals: {block.heading}", rows, ()
        return
    small = [column for column in columns if block.contrast_set and pairs_of(block, column.key) < FEWEST]
    notes = list(block.notes)
    if small:
        left_out = ", ".join(column.heading for column in small)
        notes.append(f"Groups of fewer than {FEWEST} pairs are in table.json only: {left_out}.")
    yield block.heading, _rows(block, [column for column in columns if column not in small]), notes


def _rows(block: Block, columns: Sequence[Column]) -> Rows:
    heading = ["System", *(column.heading for column in columns)]
    return [heading, *([row.title, *map(row.printed, columns)] for row in block.rows)]


def _tested(cell: Cell) -> str:
    """A difference with its p, corrected for the number of systems, if it is tested."""
    return gain_text(cell) + ("" if cell.p_value is None else f", p {p_text(cell.p_value)}")


def answer(table: Table) -> str:
    """What the study found on its first test set, in one sentence."""
    blocks = score_blocks_of(table)
    if not blocks:
        return _perplexities(table)
    block = blocks[0]
    where = f"{block.size:,} test sentences" if len(blocks) == 1 else f"{block.dataset}, {block.test_set}"
    found = gains(table, block)
    if not found:
        row = block.rows[0]
        return f"{row.title} scores {row.cells[BLEU].text} BLEU on {where}."
    baselines = {gain.baseline for gain in found}
    over = f"over {baselines.pop()} on {where}" if len(baselines) == 1 else f"over the baselines on {where}"
    tested = [gain for gain in found if gain.cell.p_value is not None]
    significant = [gain for gain in tested if gain.cell.mark]
    if significant:
        others = len(found) - len(named := _extremes(significant))
        rest = sum(gain not in named for gain in significant)
        of_others = (
            f"; of {others} other difference{'s' * (others > 1)}, {rest or 'none'} {'are' if rest > 1 else 'is'}"
        )
        corrected = " after correction" if len(tested) > 1 else ""
        return f"{_joined(named)} {over}, significant{corrected}{of_others if others else ''}."
    if tested:
        largest = max(tested, key=lambda gain: abs(gain.gained.value))
        shown = max((gain.cell.power.detectable for gain in tested if gain.cell.power), default=0.0)
        detected = f"; a difference of {shown:.1f} BLEU would have been detected" if shown else ""
        none = "No difference" if len(tested) == len(found) else "No tested difference"
        return f"{none} is significant: {_joined([largest])} {over}{detected}."
    named = found if len(found) <= _NAMED else [max(found, key=_gained), min(found, key=_gained)]
    others = len(found) - len(named)
    between = f", and {others} other{'s lie' if others > 1 else ' lies'} between" if others else ""
    not_tested = {1: "the difference is not tested", 2: "neither difference is tested"}
    untested = not_tested.get(len(found), "no difference is tested")
    if any(len(seeds) > 1 for seeds in table.trained.values()):
        return f"{_joined(named)} {over}{between}; {untested}: too few systems were trained several times."
    return f"{_joined(named)} {over}{between}; each system was trained once, so {untested}."


def _gained(gain: Gain) -> float:
    return gain.gained.value


def _extremes(significant: Sequence[Gain]) -> list[Gain]:
    """The largest gain and the largest loss, as far as there are any."""
    best, worst = max(significant, key=_gained), min(significant, key=_gained)
    if worst.gained.value >= 0:
        return [best]
    return [worst] if best.gained.value < 0 else [best, worst]


def _in_words(gain: Gain) -> str:
    """What is gained, as the first sentence says it: gains 1.76 BLEU (0.14 to 3.27)."""
    gained, verb = gain.gained, "gains"
    if gained.value < 0:
        gained, verb = Estimate(value=-gained.value, low=-gained.high, high=-gained.low), "loses"
    return f"{gain.row.title} {verb} {gained.text(gain.cell.decimals, ' BLEU').removeprefix('+')}"


def _joined(named: Sequence[Gain]) -> str:
    first, *others = map(_in_words, named)
    return " and ".join(filter(None, (", ".join([first, *others[:-1]]), *others[-1:])))


def _perplexities(table: Table) -> str:
    block = next((block for block in table.blocks if block.kind == "perplexity"), None)
    if block is None:
        return ""
    of_systems = ", ".join(f"{row.title} {row.cells['per_word'].text}" for row in block.rows)
    return f"Perplexity per word on {block.size:,} test sentences: {of_systems}."


def paper_tables(card: Scorecard) -> Iterator[tuple[Rows, str]]:
    """Yield the differences on other data than the paper's, and the figures on its data, each with a note on all."""
    compared = [entry for entry in card.entries if entry.ours is not None]
    others: dict[tuple[str, ...], ScorecardEntry] = {}  # the score and the difference of a row are one comparison
    for entry in (entry for entry in compared if not entry.same_data and entry.printed_difference is not None):
        gain = f"{entry.printed_difference:.{entry.decimals}f}"
        others.setdefault((entry.system, entry.table, entry.row, entry.dataset, *entry.test_sets, gain), entry)
    if rows := [_other_data(entry, card) for entry in others.values()]:
        note = "Other data than the paper's, so only differences to the baseline are compared."
        yield _paper_table(("System", f"{DIFFERENCE} reported", f"{DIFFERENCE} here, 95 % interval"), rows, note)
    if rows := [_same_data(entry, card) for entry in compared if entry.same_data]:
        yield _paper_table(("System", "reported", "here", "95 % interval", "gap"), rows, card.note)


def _other_data(entry: ScorecardEntry, card: Scorecard) -> list[str]:
    mark = printed_mark(entry.printed_significant)
    reported = f"{entry.printed_difference:+.{entry.decimals}f}{mark}"
    verdict = "; ".join(filter(None, (entry.finding, entry.significance)))
    return [entry.title, reported, gain_text(entry.difference), verdict, *_places(entry, card)]


def _same_data(entry: ScorecardEntry, card: Scorecard) -> list[str]:
    assert entry.ours is not None
    verdict = "; ".join(filter(None, (entry.text, entry.significance)))
    ours = entry.ours.text + entry.ours.mark, entry.ours.interval(), f"{entry.gap:+.2f}"
    return [entry.title, entry.printed_text, *ours, verdict, *_places(entry, card)]


def _places(entry: ScorecardEntry, card: Scorecard) -> tuple[str, str, str]:
    """The table of the paper, the row with the column where scores are compared, and our test sets."""
    marks = "".join(f"[{number}]" for number in sorted(card.footnotes.index(note) + 1 for note in entry.notes))
    row = f"{entry.row}, {entry.heading}" if entry.same_data else entry.row
    test_sets = f"{entry.dataset}, {', '.join(entry.test_sets)}".rstrip(", ")
    return f"{entry.paper}, {entry.table.split(':')[0]}", row + marks, test_sets


def _paper_table(headings: Sequence[str], rows: Rows, note: str) -> tuple[Rows, str]:
    """What all lines share stands in the heading or in the note."""
    columns = list(zip(*rows, strict=True))
    shown: dict[str, Sequence[str]] = dict(zip(headings, columns, strict=False))
    verdicts, tables, of_rows, places = columns[len(headings) :]
    if len(set(verdicts)) > 1:
        shown["verdict"] = verdicts
    elif verdicts[0]:
        note = f"{note} {verdicts[0][0].upper()}{verdicts[0][1:]}."
    if len(set(tables)) > 1:
        shown["table"] = tables
    shown["row" if len(set(tables)) > 1 else f"row of {tables[0]}"] = of_rows
    if len(set(places)) > 1:
        shown["on"] = places
    return [list(shown), *map(list, zip(*shown.values(), strict=True))], note
