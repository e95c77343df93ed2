"""Blocks of the results table: perplexities, decisions about chunks, averaged weights; and what all blocks
are made with.

A cell names the files that its number comes from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.corpus import ComparedSplits
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, BlockKind, Cell, Column, Row
from phrasemt.artefacts.training import AverageScores
from phrasemt.artefacts.translations import ChunkAccuracies, ChunkAccuracy, ChunkDecisions, Perplexity, PerplexityScores
from phrasemt.corpus.compare_splits import describe
from phrasemt.errors import DataError, MismatchError, check_equal
from phrasemt.fields import Settings
from phrasemt.files.digests import digest_file
from phrasemt.stages.report import MakeTable

Artefact = TypeVar("Artefact", bound=JsonFile)
Part = TypeVar("Part", bound=Settings)
Key = tuple[str | int, ...]
Grid = dict[Key, tuple[DigestedFile, Part]]


def runs_of(settings: MakeTable, systems: Iterable[str]) -> list[tuple[str, int]]:
    """Each of these systems with each of its seeds."""
    return [(system, seed) for system in systems for seed in settings.seeds_of[system]]


def read_grid(
    what: str,
    paths: Sequence[Path],
    model: type[Artefact],
    parts: Callable[[Any], Mapping[Key, Part]],
    needed: Sequence[Key],
) -> Grid[Part]:
    """Read score files; return each part with its file, by its place in a grid such as (test set, system, seed).

    what: the kind of score, for messages. model, parts: the type of a file, and its parts by place. needed: the places
    of the grid. Raises DataError naming a place without a part, and MismatchError for a second part of a place and for
    a part outside of the grid.
    """
    found: Grid[Part] = {}
    for path in paths:
        source = DigestedFile(path=str(path), sha256=digest_file(path))
        for place, part in parts(model.read(path)).items():
            problem = f"second {what} for" if place in found else f"{what} outside of the table:"
            if place in found or place not in needed:
                raise MismatchError(
                    f"{problem} {' '.join(map(str, place))}", where=path, next_step="give each file of the study once"
                )
            found[place] = source, part
    if missing := [place for place in needed if place not in found]:
        raise DataError(
            f"the table would be incomplete: no {what} for {' '.join(map(str, missing[0]))}",
            expected=len(needed),
            found=len(found),
            next_step="run the workflow again, which makes the missing files",
        )
    return found


def select_test_set(grid: Grid[Part], test_set: tuple[str, str]) -> Grid[Part]:
    """Return the part of a grid for a test set (data set, name), by system and seed."""
    return {place[2:]: entry for place, entry in grid.items() if place[:2] == test_set}


@dataclass(frozen=True, kw_only=True)
class Runs(Generic[Part]):
    """The parts of the score files of one system on one test set, by seed, and these files."""

    parts: Mapping[int, Part]
    sources: Sequence[DigestedFile]

    @property
    def first(self) -> Part:
        """The part of the first seed."""
        return next(iter(self.parts.values()))

    def mean(self, value: Callable[[Part], float], signature: str, *, decimals: int = 2) -> Cell:
        """The cell of the mean of a value."""
        by_seed = {seed: value(part) for seed, part in self.parts.items()}
        return mean_cell(by_seed, signature=signature, sources=self.sources, decimals=decimals)


def runs_in(grid: Grid[Part], system: str, settings: MakeTable) -> Runs[Part]:
    """The runs of a system in a grid whose places end with system and seed."""
    entries = {seed: grid[system, seed] for seed in settings.seeds_of[system]}
    parts = {seed: part for seed, (_, part) in entries.items()}
    return Runs(parts=parts, sources=[source for source, _ in entries.values()])


def make_blocks(
    settings: MakeTable,
    kind: BlockKind,
    what: str,
    paths: Sequence[Path],
    model: type[Artefact],
    systems: Sequence[str],
    *,
    places: Sequence[tuple[str, str]],
    columns: Sequence[Column],
    cells: Callable[[Runs[Any]], dict[str, Cell]],
    sizes: Sequence[str] = ("sentences",),
    note: str,
) -> Iterator[tuple[Block, dict[str, Runs[Any]]]]:
    """Yield a block with a row for each of these systems, and their runs, for each place: data set and test set or dev.

    what, paths, model: as of `read_grid`; the parts of a file are its `by_place`. cells: those of a row, some columns
    may be missing. sizes: fields that all parts of a place must agree on, sentences first. Raises the errors of
    `read_grid`, and MismatchError naming the first file with other sizes.
    """
    needed = [(*place, *run) for place in places for run in runs_of(settings, systems)]
    grid = read_grid(what, paths, model, lambda file: file.by_place, needed)
    titles = dict(settings.systems)
    for place in places if systems else ():
        chosen = select_test_set(grid, place)
        runs, rows = {}, []
        for system in systems:
            runs[system] = runs_in(chosen, system, settings)
            found = cells(runs[system])
            in_order = {column.key: found[column.key] for column in columns if column.key in found}
            rows.append(Row(system=system, title=titles[system], cells=in_order))
        size = _common_size(place[1], chosen, sizes)
        block = Block(
            kind=kind,
            dataset=place[0],
            test_set=place[1],
            size=size,
            columns=[column for column in columns if any(column.key in row.cells for row in rows)],
            rows=rows,
            notes=[note_on_seeds(settings), note],
        )
        yield block, runs


def _common_size(test_set: str, grid: Grid[Any], names: Sequence[str]) -> int:
    """The first of the sizes, which all parts have. Raises MismatchError naming the first file that differs."""
    sizes = [(source.path, {name: getattr(part, name) for name in names}) for source, part in grid.values()]
    first_path, first = sizes[0]
    what, next_step = f"{test_set} cannot be compared with {first_path}", "score all systems on the same test set"
    for path, found in sizes:
        check_equal(first, found, what, where=path, next_step=next_step)
    return int(first[names[0]])


def mean_cell(by_seed: dict[int, float], *, signature: str, sources: Sequence[DigestedFile], decimals: int = 2) -> Cell:
    """Make the cell of a mean over seeds, with the standard deviation if there are several seeds."""
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    value = math.fsum(values) / len(values)
    plus_minus = "" if deviation is None else f" ± {deviation:.{decimals}f}"
    return Cell(
        value=value,
        text=f"{value:.{decimals}f}{plus_minus}",
        decimals=decimals,
        signature=signature,
        sources=list(sources),
        by_seed=by_seed,
        deviation=deviation,
    )


def dev_bleu_signature(tokenizer: str) -> str:
    """The beginning of the signature of dev BLEU. tokenizer: sacreBLEU's; with 13a, BLEU is computed on tokens."""
    tokens, smoothing = ("none", "none") if tokenizer == "13a" else (tokenizer, "exp")
    return f"BLEU|case:mixed|tok:{tokens}|smooth:{smoothing}"


def note_on_seeds(settings: MakeTable) -> str:
    """Return the note that says which trainings stand behind the numbers of the study."""
    if len(settings.seeds) == 1:
        return f"One training per system (seed {settings.seeds[0]}). The variation between trainings was not measured."
    seeds = ", ".join(map(str, settings.seeds))
    note = f"Mean ± sample standard deviation over {len(settings.seeds)} trainings per system (seeds {seeds})."
    others = {*settings.outside, *settings.unseeded}
    numbers = {system: len(of_system) for system, of_system in settings.seeds_of.items() if system not in others}
    fewer = [
        f"{title} ({numbers[name]})"
        for name, title in settings.systems
        if numbers.get(name, len(settings.seeds)) < len(settings.seeds)
    ]
    return f"{note} Fewer trainings, of the first seeds: {', '.join(fewer)}." if fewer else note


def notes_on_splits(settings: MakeTable, paths: Sequence[Path]) -> dict[tuple[str, str], str]:
    """Return a note for each test set (data set, name).

    Raises DataError naming a test set without counts.
    """
    found = {}
    for path in paths:
        dataset = ComparedSplits.pattern.names(path)["dataset"]
        for name, counts in ComparedSplits.read(path).splits.items():
            found[dataset, name] = f"{dataset}, {name}: {describe(counts)}."
    for test_set in settings.test_sets:
        if test_set not in found:
            what = f"the table would be incomplete: no counts of what {' '.join(test_set)} shares with train"
            next_step = "run the workflow again, which makes the missing files"
            raise DataError(what, where=", ".join(map(str, paths)) or "--splits", next_step=next_step)
    return {test_set: found[test_set] for test_set in settings.test_sets}


_PERPLEXITY_COLUMNS = [
    Column(key="per_token", heading="per token", meaning="exp(NLL / tokens), </s> included"),
    Column(key="per_word", heading="per word", meaning="exp(NLL / (words + sentences))"),
]
_PERPLEXITY_NOTE = "Perplexity without label smoothing; each sentence is a text of its own. No test of significance."


def perplexity_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has language models."""
    made = make_blocks(
        settings,
        "perplexity",
        "perplexity",
        paths,
        PerplexityScores,
        settings.language_models,
        places=settings.test_sets,
        columns=_PERPLEXITY_COLUMNS,
        cells=_perplexity_cells,
        sizes=("sentences", "words", "tokens"),
        note=_PERPLEXITY_NOTE,
    )
    return [block for block, _ in made]


def _perplexity_cells(runs: Runs[Perplexity]) -> dict[str, Cell]:
    size = runs.first
    signature = f"perplexity|smooth:none|sentences:{size.sentences}|words:{size.words}|tokens:{size.tokens}"
    return {column.key: runs.mean(attrgetter(column.key), signature) for column in _PERPLEXITY_COLUMNS}


_CHUNK_COLUMNS = [
    Column(key="boundary_acc", heading="boundary", meaning="share of positions with the right decision"),
    Column(key="boundary_precision", heading="P", meaning="share of predicted starts that are right"),
    Column(key="boundary_recall", heading="R", meaning="share of reference starts that are predicted"),
    Column(key="boundary_f1", heading="F1", meaning="of starts"),
    Column(key="label_acc_paper", heading="label/all", meaning="share of positions with the right boundary and label"),
    Column(key="label_acc", heading="label", meaning="share of reference chunks with the right label"),
]
_CHUNK_NOTE = (
    "Chunks: decisions in percent. At each position (a word or </s>) the model knows the words and chunks of the "
    "reference before it. label/all is the label accuracy of Zhou et al. (2017): a position counts as right if its "
    "boundary and label are right, also within chunks, where no label is learned."
)
_MAJORITY = "always a start, always the most frequent label"


def chunk_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has chunk-based decoders."""
    blocks = []
    for block, runs in make_blocks(
        settings,
        "chunks",
        "scores of chunks",
        paths,
        ChunkAccuracies,
        settings.chunking,
        places=settings.test_sets,
        columns=_CHUNK_COLUMNS,
        cells=lambda runs: _chunk_cells(runs, lambda part: part),
        sizes=("sentences", "positions", "chunks"),
        note=_CHUNK_NOTE,
    ):
        first = runs[settings.chunking[0]]
        one = Runs(parts={settings.seeds[0]: first.first}, sources=first.sources[:1])
        block.rows.insert(0, Row(system="", title=_MAJORITY, cells=_chunk_cells(one, lambda part: part.majority)))
        blocks.append(block)
    return blocks


def _chunk_cells(runs: Runs[ChunkAccuracy], decisions: Callable[[ChunkAccuracy], ChunkDecisions]) -> dict[str, Cell]:
    signature = f"chunks|teacher_forced|positions:{runs.first.positions}|chunks:{runs.first.chunks}"

    def percentage(key: str) -> Callable[[ChunkAccuracy], float]:
        return lambda part: 100 * getattr(decisions(part), key)

    return {column.key: runs.mean(percentage(column.key), signature) for column in _CHUNK_COLUMNS}


_BLEU, _PERPLEXITY = "greedy search", "per token of the vocabulary, without label smoothing"
_AVERAGE_COLUMNS = [
    Column(key="dev_bleu", heading="dev BLEU", meaning=_BLEU),
    Column(key="dev_perplexity", heading="dev perplexity", meaning=_PERPLEXITY),
    Column(key="last_bleu", heading="last BLEU"),
    Column(key="last_perplexity", heading="last perplexity"),
    Column(key="updates", heading="averaged updates"),
]
_AVERAGE_NOTE = (
    "Averages: dev scores of the weights that translate. They are the mean of the weights after the averaged updates "
    "(in brackets: how many). last: dev scores of the weights after the last update alone."
)


def average_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each data set; no blocks for a study that trains nothing."""
    titles = {name: title for name, title in settings.systems if name in settings.trained}
    knowing = ", ".join(titles[system] for system in settings.chunking if system in titles)
    blocks = []
    for block, runs in make_blocks(
        settings,
        "averages",
        "scores of averaged weights",
        paths,
        AverageScores,
        list(titles),
        places=[(dataset, "dev") for dataset in settings.datasets],
        columns=_AVERAGE_COLUMNS,
        cells=_average_cells,
        note=_AVERAGE_NOTE,
    ):
        if knowing:
            given = "Dev perplexities given where the chunks of the reference begin, unlike others"
            block.notes.append(f"{given}: {knowing}.")
        worse = [
            f"{titles[system]} (seed {seed})"
            for system, of_system in runs.items()
            for seed, file in of_system.parts.items()
            if file.worse_than_last
        ]
        if worse:
            what = f"Averages of {block.dataset} that are worse on dev than the last update"
            block.notes.append(f"{what}: {', '.join(worse)}.")
        blocks.append(block)
    return blocks


def _average_cells(runs: Runs[AverageScores]) -> dict[str, Cell]:
    """The cells of a system, by column. A language model has no BLEU."""
    first = runs.first
    sentences = f"sentences:{first.sentences}"
    bleu = f"{dev_bleu_signature(first.dev_bleu_tokenizer)}|beam:1|{sentences}"
    perplexity = f"perplexity|smooth:none|{sentences}"
    updates = runs.mean(lambda file: len(file.updates), "number of averaged checkpoints")
    text = "; ".join(dict.fromkeys(_range(file.updates) for file in runs.parts.values()))
    cells = {
        "dev_perplexity": runs.mean(lambda file: file.dev_perplexity, perplexity),
        "last_perplexity": runs.mean(lambda file: file.last.dev_perplexity, perplexity),
        "updates": updates.model_copy(update={"text": text}),
    }
    if first.dev_bleu is not None:
        cells["dev_bleu"] = runs.mean(attrgetter("dev_bleu"), bleu)
        cells["last_bleu"] = runs.mean(attrgetter("last.dev_bleu"), bleu)
    return cells


def _range(updates: Sequence[int]) -> str:
    """The averaged updates: `360 to 400 (5)`, or `400` for a single checkpoint."""
    return str(updates[0]) if len(updates) == 1 else f"{updates[0]} to {updates[-1]} ({len(updates)})"
