"""The sections "Data", "Parser, phrases and chunks", "Learning curves" and "Settings".

Data: what cleaning kept and dropped, what the splits share, what tokenisation changes. Phrases and chunks: parsers,
chunkers, and the statistics of phrases and chunks. Settings: the settings in which they differ.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemt.artefacts.corpus import ComparedSplits, DroppedPairs, RoundTrip
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.syntax import Card, ChunkStatistics, PhraseStatistics
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.training import Metrics, TrainingRecord
from phrasemt.errors import DataError
from phrasemt.report.figures import Drawing, Series, draw_curves
from phrasemt.report.page import Section, fill
from phrasemt.report.summary import system_order


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """A finished training.

    evaluation_share: part of its time that the evaluations on dev took. None: unknown.
    """

    dataset: str
    system: str
    seed: int
    record: TrainingRecord
    tokens_per_second: float | None
    evaluation_share: float | None

    @property
    def measurements(self) -> Mapping[str, float]:
        """Further measurements of the last evaluation, by name (docs/measurements.md)."""
        return self.record.evaluations[-1].measurements if self.record.evaluations else {}


def read_training(path: Path) -> TrainingCurve:
    """Read the record of a training and its metrics. Raises DamagedFileError for one that cannot be read."""
    record = TrainingRecord.read(path)
    names = Paths.training_record.names(path)
    metrics = Metrics.read(path.parent / record.metrics)
    speeds = [report.tokens_per_second for report in metrics.updates]
    seconds = max((report.seconds for report in metrics.reports), default=0.0)
    evaluations = sum(report.evaluation_seconds for report in metrics.evaluations)
    return TrainingCurve(
        dataset=names["dataset"],
        system=names["system"],
        seed=int(names["seed"]),
        record=record,
        tokens_per_second=statistics.median(speeds) if speeds else None,
        evaluation_share=evaluations / seconds if seconds and evaluations else None,
    )


def check_trainings(table: Table, trainings: Sequence[TrainingCurve]) -> None:
    """Check that each trained system of the table has a training with each seed on each data set.

    Raises DataError naming the first training that is missing.
    """
    found = {(training.dataset, training.system, training.seed) for training in trainings}
    runs = [(system, seed) for system, seeds in table.trained.items() for seed in seeds]
    for needed in ((dataset, *run) for dataset in table.datasets for run in runs):
        if needed not in found:
            what = f"the report would be incomplete: no training record for {' '.join(map(str, needed))}"
            raise DataError(what, next_step="run the workflow again, which makes the missing files")


def curves_section(table: Table, trainings: Sequence[TrainingCurve]) -> Section:
    drawings = [drawing for dataset in table.datasets for drawing in curves(dataset, trainings, table)]
    content = fill("sections/trainings.html", drawings=drawings)
    return Section(anchor="curves", heading="Learning curves", finding=convergence(trainings), content=content)


def convergence(trainings: Sequence[TrainingCurve]) -> str:
    """How many trainings had their best dev score at their last evaluation: they may not have converged."""
    records = [one.record for one in trainings if one.record.evaluations]
    rising = sum(record.best_update == record.evaluations[-1].update for record in records)
    if not rising:
        return "all trainings had their best dev score before the end"
    number = "all" if rising == len(trainings) else f"{rising} of {len(trainings)}"
    return f"{number} trainings had their best dev score at the end: not converged"


def curves(dataset: str, trainings: Sequence[TrainingCurve], table: Table) -> Iterator[Drawing]:
    """Draw dev BLEU on a data set, one line for each training; of language models dev perplexity.

    Perplexities above ten times the last one are left out: they would flatten the others.
    """
    titles = dict(table.systems)
    lines: dict[str, list[Series]] = {"dev BLEU": [], "dev perplexity": []}
    for training in (one for one in trainings if one.dataset == dataset and one.record.evaluations):
        values = {one.update: one.dev_bleu for one in training.record.evaluations if one.dev_bleu is not None}
        measure = "dev BLEU" if values else "dev perplexity"
        if not values:
            perplexities = {one.update: one.dev_perplexity for one in training.record.evaluations}
            highest = 10 * list(perplexities.values())[-1]
            values = {update: value for update, value in perplexities.items() if value < highest}
        lines[measure].append(Series(group=titles[training.system], x=list(values), y=list(values.values())))
    for measure, series in lines.items():
        if series:
            about = {"title": f"{dataset}: {measure}", "x_label": "updates", "y_label": measure}
            yield draw_curves(series, **about, systems=system_order(table))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting with its value in each system; the value is empty for a system that does not have the setting."""

    key: str
    values: Sequence[str]

    @property
    def differs(self) -> bool:
        """Whether two systems that have the setting have different values of it."""
        return len(set(filter(None, self.values))) > 1

    @property
    def everywhere(self) -> bool:
        return all(self.values)


def systems_section(table: Table, trainings: Sequence[TrainingCurve], records: Sequence[Path]) -> Section:
    """Make the section. records: of the trainings."""
    settings = settings_of_systems(table, records)
    content = fill(
        "sections/trainings.settings.html", titles=dict(table.systems), trainings=trainings, settings=settings
    )
    differ = [setting.key for setting in settings if setting.differs]
    more = f" and {len(differ) - 4} more settings" if len(differ) > 4 else ""
    finding = f"the systems differ in {', '.join(differ[:4])}{more}" if differ else "equal settings of all systems"
    return Section(anchor="systems", heading="Settings", finding=finding, content=content)


def settings_of_systems(table: Table, records: Sequence[Path]) -> list[Setting]:
    """Read the settings of all systems from the sidecars of each system's first training and first translation."""
    scored = {row.system: row for block in table.blocks[::-1] if block.kind == "scores" for row in block.rows}
    settings: dict[str, dict[str, str]] = {}
    for system, _ in table.systems:
        sections: dict[str, Any] = {}
        for record in [path for path in records if path.absolute().parents[1].name == system][:1]:
            sidecar = Sidecar.beside(record)
            sections |= {section: sidecar.settings[section] for section in ("model", "training")}
            for file in sidecar.inputs.get("initial_weights", ()):
                sections["init_from"] = {"file": file.path, "sha256": file.sha256[:12]}
        if system in scored:
            scores = next(source.path for cell in scored[system].cells.values() for source in cell.sources)
            sections |= _of_translation(Sidecar.beside(Sidecar.beside(scores).inputs["tokens"][0].path))
        settings[system] = dict(flatten("", sections))
    keys = list(dict.fromkeys(key for values in settings.values() for key in values))
    return [Setting(key=key, values=[values.get(key, "") for values in settings.values()]) for key in keys]


def _of_translation(sidecar: Sidecar) -> dict[str, Any]:
    """The settings of a search, or the file that another program translated into; Moses has neither."""
    sections: dict[str, Any] = {name: value for name, value in sidecar.settings.items() if name == "decoding"}
    for file in sidecar.inputs.get("translations", ()):
        sections["translations"] = {"file": file.path, "sha256": file.sha256[:12]}
    return sections


def flatten(prefix: str, section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of nested settings by dotted keys: text as it is, other values as JSON."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", json.dumps(value) if not isinstance(value, str) else value


def data_section(dropped: Sequence[Path], splits: Sequence[Path], round_trips: Sequence[Path]) -> Section:
    cleanings = [(Paths.dropped_pairs.names(path), DroppedPairs.read(path)) for path in dropped]
    compared = [
        (Paths.compared_splits.names(path)["dataset"], name, counts)
        for path in splits
        for name, counts in ComparedSplits.read(path).splits.items()
    ]
    round_trips_read = [(Paths.round_trip.names(path), RoundTrip.read(path)) for path in round_trips]
    content = fill("sections/trainings.data.html", cleanings=cleanings, splits=compared, round_trips=round_trips_read)
    kept = ", ".join(f"{cleaning.kept:,}" for names, cleaning in cleanings if names["split"] == "train")
    shared = [counts.in_train.pairs for _, _, counts in compared if counts.in_train]
    finding = f"{kept} training pairs; {sum(shared):,} pairs of dev and test sets are also in train"
    return Section(anchor="data", heading="Data", finding=finding, content=content)


def syntax_section(phrases: Sequence[Path], chunks: Sequence[Path], annotators: Sequence[Path]) -> Section | None:
    """Make the section from statistics of phrases and chunks and cards of annotators; None if there are none."""
    if not (phrases or chunks or annotators):
        return None
    cards = [(path.absolute().parent.name, card, scores_of(card)) for path in annotators for card in [Card.read(path)]]
    content = fill(
        "sections/trainings.syntax.html",
        annotators=cards,
        phrases=[(Paths.phrase_statistics.names(path), PhraseStatistics.read(path)) for path in phrases],
        chunks=[(Paths.chunk_statistics.names(path), ChunkStatistics.read(path)) for path in chunks],
    )
    scored = [f"{name}: F1 {scores['f1']:.1f} on held-out sentences" for name, _, scores in cards if "f1" in scores]
    finding = "; ".join(scored) or f"phrases of {len(phrases)} and chunks of {len(chunks)} texts"
    return Section(anchor="syntax", heading="Parser, phrases and chunks", finding=finding, content=content)


def scores_of(card: Card) -> dict[str, float]:
    """The scores of a parser or chunker in percent; empty if they are unknown."""
    return {name: 100 * value for name, value in card.scores.items() if isinstance(value, float)}
