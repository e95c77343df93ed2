"""How blocks of the results table are made, and those of contrastive pairs, perplexities and chunks.

A block is about one test set or one set of contrastive pairs. A cell names the files that its number comes from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from scipy.special import stdtrit

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.artefacts.scores import Better
from phrasemt.artefacts.sidecar import DigestedFile
from phrasemt.artefacts.table import Block, BlockKind, Cell, Column, Row
from phrasemt.artefacts.translations import (
    ChunkAccuracies,
    ChunkAccuracy,
    ChunkDecisions,
    ContrastAccuracy,
    Counts,
    Perplexity,
    PerplexityScores,
)
from phrasemt.errors import DataError, MismatchError, check_equal
from phrasemt.fields import Settings
from phrasemt.files.system import digest_file
from phrasemt.scoring.scores import wilson_interval
from phrasemt.stages.report import MakeTable

Part = TypeVar("Part", bound=Settings)
Place = tuple[str, ...]  # data set, and test set or set of contrastive pairs
Key = tuple[str | int, ...]


def read_parts(
    what: str,
    paths: Iterable[Path],
    model: type[JsonFile],
    parts: Callable[[Any], Mapping[Key, Part]],
    needed: list[Key],
) -> dict[Key, tuple[DigestedFile, Part]]:
    """Read score files; return their parts, each with its file, by keys such as (data set, test set, system, seed).

    what: the kind of score, for messages. model, parts: the type of a file, and its parts. Raises DataError naming a
    needed key without a part, and MismatchError for a second part of a key and for a key that is not needed.
    """
    found: dict[Key, tuple[DigestedFile, Part]] = {}
    for path in paths:
        source = DigestedFile(path=str(path), sha256=digest_file(path))
        for key, part in parts(model.read(path)).items():
            problem = f"second {what} for" if key in found else f"{what} outside of the table:"
            if key in found or key not in needed:
                raise MismatchError(
                    f"{problem} {' '.join(map(str, key))}", where=path, next_step="give each file of the study once"
                )
            found[key] = source, part
    if missing := [key for key in needed if key not in found]:
        raise DataError(
            f"the table would be incomplete: no {what} for {' '.join(map(str, missing[0]))}",
            expected=len(needed),
            found=len(found),
            next_step="run the workflow again, which makes the missing files",
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Runs(Generic[Part]):
    """The parts of the score files of one system in one place, by seed, and these files."""

    parts: Mapping[int, Part]
    sources: Sequence[DigestedFile]

    @property
    def first(self) -> Part:
        """The part of the first seed."""
        return next(iter(self.parts.values()))

    def mean(
        self, value: Callable[[Part], float], signature: str, *, better: Better = "higher", decimals: int = 2
    ) -> Cell:
        """The cell of the mean of a value."""
        by_seed = {seed: value(part) for seed, part in self.parts.items()}
        return mean_cell(by_seed, better=better, signature=signature, sources=self.sources, decimals=decimals)


def read_runs(
    settings: MakeTable,
    what: str,
    paths: Iterable[Path],
    model: type[JsonFile],
    systems: Sequence[str],
    places: Sequence[Place],
    parts: Callable[[Any], Mapping[Key, Any]] = attrgetter("by_place"),
) -> dict[Place, dict[str, Runs[Any]]]:
    """Read the score files of systems; return the runs of each by place. The rest is as of `read_parts`."""
    seeds = {system: settings.seeds_of[system] for system in systems}
    needed: list[Key] = [(*place, system, seed) for place in places for system in systems for seed in seeds[system]]
    found = read_parts(what, paths, model, parts, needed)

    def runs(place: Place, system: str) -> Runs[Any]:
        entries = {seed: found[*place, system, seed] for seed in seeds[system]}
        of_seeds = {seed: part for seed, (_, part) in entries.items()}
        return Runs(parts=of_seeds, sources=[source for source, _ in entries.values()])

    return {place: {system: runs(place, system) for system in systems} for place in places if systems}


def by_file(runs: Mapping[str, Runs[Part]]) -> dict[str, Part]:
    """The parts of all systems by their files."""
    return {
        source.path: part for one in runs.values() for source, part in zip(one.sources, one.parts.values(), strict=True)
    }


def make_blocks(
    settings: MakeTable,
    kind: BlockKind,
    runs: Mapping[Place, Mapping[str, Runs[Any]]],
    columns: Sequence[Column],
    cells: Callable[[Runs[Any]], dict[str, Cell]],
    note: str,
    sizes: Sequence[str] = ("sentences",),
) -> Iterator[Block]:
    """Yield a block for each place, with a row for each system.

    cells: those of a row, some columns may be missing. sizes: fields that all parts of a place must agree on, sentences
    first. Raises MismatchError naming the first file with other sizes.
    """
    titles = dict(settings.systems)
    for (dataset, test_set), of_systems in runs.items():
        found = {path: {name: getattr(part, name) for name in sizes} for path, part in by_file(of_systems).items()}
        first_path, first = next(iter(found.items()))
        what, next_step = f"{test_set} cannot be compared with {first_path}", "score all systems on the same test set"
        for path, others in found.items():
            check_equal(first, others, what, where=path, next_step=next_step)
        rows = [Row(system=name, title=titles[name], cells=cells(of_system)) for name, of_system in of_systems.items()]
        yield Block(
            kind=kind,
            dataset=dataset,
            test_set=test_set,
            size=first[sizes[0]],
            columns=[column for column in columns if any(column.key in row.cells for row in rows)],
            rows=rows,
            notes=[note_on_seeds(settings), note],
        )


def mean_cell(
    by_seed: dict[int, float], *, better: Better, signature: str, sources: Sequence[DigestedFile], decimals: int = 2
) -> Cell:
    """Make the cell of a mean over seeds; of several seeds with their standard deviation and Student's interval."""
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    value, low, high = math.fsum(values) / len(values), None, None
    if deviation is not None:
        half = float(stdtrit(len(values) - 1, 0.975)) * deviation / math.sqrt(len(values))
        low, high = value - half, value + half
    plus_minus = "" if deviation is None else f" ± {deviation:.{decimals}f}"
    return Cell(
        value=value,
        text=f"{value:.{decimals}f}{plus_minus}",
        decimals=decimals,
        better=better,
        signature=signature,
        sources=list(sources),
        by_seed=by_seed,
        deviation=deviation,
        low=low,
        high=high,
    )


def note_on_seeds(settings: MakeTable) -> str:
    """Return the note that says which trainings stand behind the numbers of the study."""
    if len(settings.seeds) == 1:
        trained = f"One training of each system (seed {settings.seeds[0]})"
        return f"{trained}: differences are not tested; intervals cover the choice of test sentences only."
    seeds = ", ".join(map(str, settings.seeds))
    note = f"Mean ± standard deviation of {len(settings.seeds)} trainings of each system (seeds {seeds})."
    numbers = {
        system: len(of_system) for system, of_system in settings.seeds_of.items() if system not in settings.outside
    }
    fewer = [
        f"{title} ({numbers[name]})"
        for name, title in settings.systems
        if numbers.get(name, len(settings.seeds)) < len(settings.seeds)
    ]
    return f"{note} Fewer trainings, of the first seeds: {', '.join(fewer)}." if fewer else note


_NOTE_ON_CONTRASTS = (
    "Contrastive pairs: a pair is right if the reference is more probable than the same sentence with a mistake; "
    "percent right, in brackets the number of pairs."
)


def contrast_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make the blocks of each set of contrastive pairs."""
    titles = {name: title for name, title in settings.translating if name in settings.trained}
    of_sets = read_runs(
        settings,
        "contrastive accuracy",
        paths,
        ContrastAccuracy,
        list(titles),
        settings.contrasts,
        lambda file: {(file.dataset, file.contrast_set, file.system, file.seed): file},
    )
    return [block for place, runs in of_sets.items() for block in _contrast_blocks(settings, place, runs, titles)]


def _contrast_blocks(
    settings: MakeTable, place: Place, of_systems: Mapping[str, Runs[ContrastAccuracy]], titles: Mapping[str, str]
) -> Iterator[Block]:
    """Yield one block of a set with one kind of mistake, else one of all kinds and one of each kind with distances."""
    files = by_file(of_systems)
    expected = _pairs(next(iter(files.values())))
    for path, file in files.items():
        what, next_step = "not the contrastive pairs of the first system", "score all systems on the same pairs"
        check_equal(expected, _pairs(file), what, where=path, next_step=next_step)
    for mistake, sizes in expected.items():
        rows = []
        for system, title in titles.items():
            cells = {}
            for group, pairs in sizes.items():
                key = f"{mistake} {group}" if mistake else group
                signature = f"contrastive_accuracy|group:{key}|pairs:{pairs}"
                cell = of_systems[system].mean(partial(_accuracy, mistake, group), signature, decimals=1)
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


_PERPLEXITY_COLUMNS = [
    Column(key="per_token", heading="per token", meaning="exp(NLL / tokens), </s> included"),
    Column(key="per_word", heading="per word", meaning="exp(NLL / (words + sentences))"),
]
_PERPLEXITY_NOTE = "Perplexity without label smoothing; each sentence is a text of its own. No test of significance."


def perplexity_blocks(settings: MakeTable, paths: Sequence[Path]) -> list[Block]:
    """Make a block for each test set, if the study has language models."""
    names, places = settings.language_models, settings.test_sets
    runs = read_runs(settings, "perplexity", paths, PerplexityScores, names, places)
    sizes = "sentences", "words", "tokens"
    return list(
        make_blocks(settings, "perplexity", runs, _PERPLEXITY_COLUMNS, _perplexity_cells, _PERPLEXITY_NOTE, sizes)
    )


def _perplexity_cells(runs: Runs[Perplexity]) -> dict[str, Cell]:
    size = runs.first
    signature = f"perplexity|smooth:none|sentences:{size.sentences}|words:{size.words}|tokens:{size.tokens}"
    return {column.key: runs.mean(attrgetter(column.key), signature, better="lower") for column in _PERPLEXITY_COLUMNS}


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
    runs = read_runs(settings, "scores of chunks", paths, ChunkAccuracies, settings.chunking, settings.test_sets)
    sizes = "sentences", "positions", "chunks"
    blocks = list(make_blocks(settings, "chunks", runs, _CHUNK_COLUMNS, _chunk_cells, _CHUNK_NOTE, sizes))
    for block, of_systems in zip(blocks, runs.values(), strict=True):
        first = of_systems[settings.chunking[0]]
        one = Runs(parts={settings.seeds[0]: first.first}, sources=first.sources[:1])
        block.rows.insert(0, Row(system="", title=_MAJORITY, cells=_chunk_cells(one, attrgetter("majority"))))
    return blocks


def _chunk_cells(
    runs: Runs[ChunkAccuracy], decisions: Callable[[ChunkAccuracy], ChunkDecisions] = lambda part: part
) -> dict[str, Cell]:
    signature = f"chunks|teacher_forced|positions:{runs.first.positions}|chunks:{runs.first.chunks}"

    def percentage(key: str) -> Callable[[ChunkAccuracy], float]:
        return lambda part: 100 * getattr(decisions(part), key)

    return {column.key: runs.mean(percentage(column.key), signature) for column in _CHUNK_COLUMNS}
