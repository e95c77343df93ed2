"""The report: one HTML page about a study that needs no other file, no network and no script.

It shows what the table holds, how the trainings went, what cleaning dropped, and where each number comes from. The page
is `report.html` beside this module, filled in by Jinja. The same inputs give the same bytes.
"""

from __future__ import annotations

import collections
import itertools
import json
import logging
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup
from pydantic import BaseModel

from phrasemt.errors import DamagedFileError, DataError, MismatchError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import read_lines, write_text
from phrasemt.files.sidecars import read_sidecar
from phrasemt.paper.cells import DIFFERENCE, Block, Row, Table
from phrasemt.paper.figures import Drawing, Series, draw_categories, draw_curves
from phrasemt.paper.syntax import ChunkStatistics, PhraseStatistics, length_figures, read_annotators, read_measured
from phrasemt.scoring.scores import read_artefact
from phrasemt.settings import ReportSettings

log = logging.getLogger("phrasemt.paper.report")

_DROPPED_HEAD = re.compile(r"# read (\d+) kept (\d+) dropped (\d+)")


class Evaluation(BaseModel):
    """Dev scores after an update; no BLEU of a language model."""

    update: int
    dev_bleu: float | None = None
    dev_perplexity: float


class TrainingRecord(BaseModel):
    """What the report reads of the record that `train_model` writes; metrics: file beside the record."""

    format: Literal[1]
    parameters: int
    updates: int
    stopped: str
    best_update: int | None
    evaluations: list[Evaluation]
    metrics: str


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """A training with its curve; `losses` is empty where the training state was deleted."""

    dataset: str
    system: str
    seed: int
    record: TrainingRecord
    losses: Mapping[int, float]
    tokens_per_second: float | None

    @property
    def best(self) -> Evaluation | None:
        return next((one for one in self.record.evaluations if one.update == self.record.best_update), None)


@dataclass(frozen=True, kw_only=True)
class CleaningCounts:
    """What cleaning did to a split: pairs read, kept, and dropped by each filter."""

    dataset: str
    split: str
    read: int
    kept: int
    dropped: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A file that the page draws on: its digest, and the stage and code that made it."""

    path: str
    sha256: str
    stage: str
    code: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A setting with its value in each system, empty where the system does not have it."""

    key: str
    values: Sequence[str]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def write_report(
    *,
    settings: ReportSettings,
    cores: int,
    table: Path,
    records: list[Path],
    dropped: list[Path],
    phrases: list[Path],
    chunks: list[Path],
    annotators: list[Path],
    report: Path,
) -> None:
    """Write the page of a study.

    Raises DataError when a training of the table has no record, MismatchError when a score file is not the one that the
    table was made from, and DamagedFileError for files that cannot be read or were changed after they were made.
    """
    content = read_artefact(table, Table)
    trainings = [_read_training(path) for path in records]
    _check_trainings(content, trainings)
    origins = _Origins()
    scores = {
        _anchor(block, row): [origins.of(path, sha256) for path, sha256 in _sources(row)]
        for block in content.blocks
        for row in block.rows
    }
    others = [origins.of(path) for path in [table, *records, *dropped, *phrases, *chunks, *annotators]]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(minus=lambda text: re.sub(r"^-", "−", text), svg=lambda drawing: Markup(drawing.svg))
    titles = dict(content.systems)
    measured_phrases = read_measured(phrases, PhraseStatistics)
    page = environment.get_template("report.html").render(
        title=settings.title,
        table=content,
        titles=titles,
        anchor=_anchor,
        differences=list(_differences(content)),
        curves=[(dataset, list(_curves(dataset, trainings, titles))) for dataset in _datasets(content)],
        contrasts=[_contrast_figure(block) for block in content.blocks if block.kind == "contrasts"],
        trainings=trainings,
        choices=_choices(content, records),
        cleanings=[_read_dropped(path) for path in dropped],
        annotators=read_annotators(annotators),
        phrases=measured_phrases,
        phrase_figures=list(length_figures(measured_phrases)),
        chunks=read_measured(chunks, ChunkStatistics),
        scores=scores,
        others=others,
        versions=origins.versions(),
    )
    write_text(report, page)
    log.info("write_report: %d trainings, %d score files", len(trainings), sum(len(files) for files in scores.values()))


# ------------------------------------------------------------------------------------------------------------- reading


def _read_training(path: Path) -> TrainingCurve:
    """The workflow's folders name a training: <dataset>.<source>-<target>/models/<system>/<seed>/training.json."""
    record = read_artefact(path, TrainingRecord)
    seed, system, _, dataset = (folder.name for folder in list(path.absolute().parents)[:4])
    losses, speeds = {}, []
    metrics = path.parent / record.metrics
    if metrics.exists():
        for number, line in enumerate(read_lines(metrics), start=1):
            try:
                values = json.loads(line)
                if "loss" in values:  # evaluations stand between the updates
                    losses[values["update"]] = values["loss"]
                    speeds.append(values["tokens_per_second"])
            except (json.JSONDecodeError, KeyError) as error:
                raise DamagedFileError(
                    "not a line of training metrics", where=f"{metrics}, line {number}", found=repr(error)
                ) from None
    return TrainingCurve(
        dataset=dataset.split(".")[0],
        system=system,
        seed=int(seed),
        record=record,
        losses=losses,
        tokens_per_second=statistics.median(speeds) if speeds else None,
    )


def _check_trainings(table: Table, trainings: Sequence[TrainingCurve]) -> None:
    found = {(training.dataset, training.system, training.seed) for training in trainings}
    for needed in itertools.product(_datasets(table), dict(table.systems), table.seeds):
        if needed not in found:
            raise DataError(
                f"the report would have a hole: no training record for {' '.join(map(str, needed))}",
                next_step="run the workflow again; it makes what is missing",
            )


def _read_dropped(path: Path) -> CleaningCounts:
    lines = read_lines(path)
    head = _DROPPED_HEAD.fullmatch(next(lines, ""))
    next(lines, "")  # names of the columns
    filters = collections.Counter(line.split("\t")[1] for line in lines)
    if head is None or int(head[3]) != filters.total() or int(head[1]) != int(head[2]) + int(head[3]):
        raise DamagedFileError(
            "the counts of dropped pairs do not add up",
            where=path,
            expected=head[0] if head else "# read N kept K dropped D",
            found=f"{filters.total()} dropped pairs",
            next_step="delete it and run again",
        )
    return CleaningCounts(
        dataset=path.absolute().parents[1].name.split(".")[0],
        split=path.name.split(".")[0],
        read=int(head[1]),
        kept=int(head[2]),
        dropped=dict(filters.most_common()),
    )


class _Origins:
    """Digests and sidecars of the files that the page draws on, each read once."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Origin, dict[str, str]]] = {}

    def of(self, path: Path | str, sha256: str | None = None) -> Origin:
        """The origin of a file; `sha256` is what the table says it was."""
        if str(path) not in self._found:
            sidecar = read_sidecar(path)
            digest = digest_file(path)
            recorded = {Path(output["path"]).name: output["sha256"] for output in sidecar["outputs"].values()}
            if recorded.get(Path(path).name) != digest:
                raise DamagedFileError(
                    "changed after it was made",
                    where=path,
                    expected=f"sha256 {recorded.get(Path(path).name)}",
                    found=digest,
                    next_step="delete it and run again",
                )
            origin = Origin(path=str(path), sha256=digest, stage=sidecar["stage"], code=sidecar["code"])
            self._found[str(path)] = origin, sidecar["versions"]
        origin = self._found[str(path)][0]
        if sha256 is not None and sha256 != origin.sha256:
            raise MismatchError(
                "not the file that the table was made from",
                where=path,
                expected=f"sha256 {sha256}",
                found=origin.sha256,
                next_step="make the table again",
            )
        return origin

    def versions(self) -> list[tuple[str, str, str, int]]:
        """Stage, code digest, versions of libraries, and how many of the files they made."""
        counts = collections.Counter(
            (origin.stage, origin.code, ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
            for origin, versions in self._found.values()
        )
        return [(*key, count) for key, count in counts.items()]


# -------------------------------------------------------------------------------------------------------- what to show


def _datasets(table: Table) -> list[str]:
    return list(dict.fromkeys(block.dataset for block in table.blocks))


def _anchor(block: Block, row: Row) -> str:
    return f"from-{block.name}-{row.system}"


def _sources(row: Row) -> Iterable[tuple[str, str]]:
    """Path and digest of each file behind the numbers of a row, in the order of the cells."""
    return dict.fromkeys((source.path, source.sha256) for cell in row.cells.values() for source in cell.sources)


def _differences(table: Table) -> Iterator[dict[str, object]]:
    """One line per tested difference: interval and both p-values."""
    for block in table.blocks:
        for row in block.rows:
            for before, column in itertools.pairwise(block.columns):
                cell = row.cells.get(column.key)
                if column.heading == DIFFERENCE and cell is not None:
                    yield {"block": block, "row": row, "metric": before.heading, "cell": cell}


def _curves(dataset: str, trainings: Sequence[TrainingCurve], titles: Mapping[str, str]) -> Iterator[Drawing]:
    runs = [training for training in trainings if training.dataset == dataset]
    losses = []
    for run in runs:
        # The fall of the first updates would press everything after it into a flat line.
        first = max(run.losses, default=0) / 10
        if late := {update: loss for update, loss in run.losses.items() if update > first}:
            losses.append(Series(group=titles[run.system], x=list(late), y=list(late.values())))
    if losses:
        yield draw_curves(
            f"loss-{dataset}", losses, title=f"{dataset}: training loss", x_label="updates", y_label="loss per token"
        )
    bleu: list[Series] = []
    perplexity: list[Series] = []
    for run in runs:
        evaluations = run.record.evaluations
        scores = [one.dev_bleu for one in evaluations if one.dev_bleu is not None]
        (bleu if scores else perplexity).append(
            Series(
                group=titles[run.system],
                x=[one.update for one in evaluations],
                y=scores or [one.dev_perplexity for one in evaluations],
            )
        )
    for name, series in (("dev BLEU", bleu), ("dev perplexity", perplexity)):
        if series := [one for one in series if len(one.x)]:
            yield draw_curves(
                f"{name.split()[1]}-{dataset}", series, title=f"{dataset}: {name}", x_label="updates", y_label=name
            )


def _contrast_figure(block: Block) -> Drawing:
    groups = [column.key for column in block.columns if column.key != "all"]
    return draw_categories(
        f"contrasts-{block.dataset}",
        groups,
        [
            Series(group=row.title, x=range(len(groups)), y=[row.cells[group].value for group in groups])
            for row in block.rows
        ],
        title=f"{block.dataset}: accuracy on contrastive pairs",
        x_label="distance in words",
        y_label="accuracy, %",
    )


def _choices(table: Table, records: Sequence[Path]) -> list[Choice]:
    """Settings of model, training and search, from the sidecars of each system's first training and translation."""
    scored = {row.system: row for block in table.blocks[::-1] if block.kind == "scores" for row in block.rows}
    settings: dict[str, dict[str, str]] = {}
    for system, _ in table.systems:
        record = next(path for path in records if path.absolute().parents[1].name == system)
        used = read_sidecar(record)["settings"]
        sections = {section: used[section] for section in ("model", "training")}
        if system in scored:
            scores = next(source.path for cell in scored[system].cells.values() for source in cell.sources)
            translation = read_sidecar(scores)["inputs"]["tokens"][0]["path"]
            sections["decoding"] = read_sidecar(translation)["settings"]["decoding"]
        settings[system] = dict(_flat("", sections))
    keys = list(dict.fromkeys(key for values in settings.values() for key in values))
    return [Choice(key=key, values=[values.get(key, "") for values in settings.values()]) for key in keys]


def _flat(prefix: str, section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", json.dumps(value) if not isinstance(value, str) else value
