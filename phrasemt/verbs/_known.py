"""What a study knows of the figures and claims of papers: from its table, its artefacts, and the sheets of raters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.printed.results import Figure, SizeKind, figures, figures_of_row, load_papers, row_at
from phrasemt.report.claims import Artefacts, ClaimRow, beside_findings, claim_rows
from phrasemt.report.scored import decided_pairs, read_scored
from phrasemt.report.sections.cost import beside_papers, costs, relative_costs
from phrasemt.report.sections.trainings import read_training
from phrasemt.scoring.ratings import SystemRating
from phrasemt.study.claims import analysed_figures, claims_of
from phrasemt.study.compared import compared_costs
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.symbols import SPECIAL_TOKENS
from phrasemt.verbs._results import Results, paired_test
from phrasemt.verbs._study import study_name
from phrasemt.workflow.paths import Paths

Place = tuple[str, str]  # of a row, `paper/table/row`, and the heading of a column
_SHARES = ("under_translation", "over_translation")


@dataclass(frozen=True)
class Known:
    """What a study knows of a printed figure. same_data: measured on the data of the paper."""

    ours: str
    gap: str
    verdict: str
    same_data: bool


def known_figures(given: Path, ratings: Mapping[str, SystemRating]) -> Iterator[tuple[Place, Known]]:
    """What a study knows of printed figures. given: its file or its name, which is enough for its scorecard.

    ratings: of systems, from filled sheets. Raises PhrasemtError for a study without a table.
    """
    content = _table(given)
    yield from _of_scorecard(content)
    if given.suffix:
        study = load_study(given)
        found = artefacts_of(study, content, ratings)
        for cost in beside_papers(list(compared_costs(study)), found.costs):
            ours = "" if cost.ours is None else f"{cost.ours:.2f} times {cost.compared.unit}"
            yield (cost.compared.row, cost.compared.heading), Known(ours, "", cost.verdict, same_data=True)
        for one in beside_findings(analysed_figures(study), found):
            known = Known(one.finding.text, "", f"{one.finding.on}: {one.verdict}", one.figure.same_data)
            yield (one.figure.row, one.figure.heading), known
        yield from _of_ratings(study, ratings)
        yield from _of_data(study)


def claims_beside(given: Path, paper: str, ratings: Mapping[str, SystemRating]) -> Iterator[ClaimRow]:
    """The claims of a paper beside what a study measures of them. Raises PhrasemtError for a study without a table."""
    study = load_study(given)
    yield from claim_rows(claims_of(load_papers()[paper], study), artefacts_of(study, _table(given), ratings))


def artefacts_of(study: Study, content: Table, ratings: Mapping[str, SystemRating]) -> Artefacts:
    """Read what a study has measured, so far as its files are there."""
    paths = Paths(study.study)
    test, found = paired_test(study), Results.of(study, study.datasets)
    trainings = [read_training(path) for path in sorted(Path().glob(paths.training_record.glob))]
    return Artefacts(
        table=content,
        trainings=trainings,
        scored=list(read_scored(scores=found.scores, analyses=found.attention, source=found.source, test=test)),
        attention=found.attention,
        contrasts=decided_pairs(found.contrasts, test),
        costs=relative_costs(dict(content.systems), content.baselines, costs(study.study, trainings)),
        ratings=ratings,
    )


def _table(given: Path) -> Table:
    path = Path(Paths(study_name(given)).table)
    if not path.exists():
        raise PhrasemtError("the study has no table yet", where=path, next_step="run the study, or leave it out")
    return Table.read(path)


def _of_scorecard(content: Table) -> Iterator[tuple[Place, Known]]:
    for entry in content.scorecard.entries if content.scorecard else ():
        shown = entry.ours if entry.gap is not None or entry.difference is None else entry.difference
        yield (
            (entry.place, entry.heading),
            Known(
                ours="" if shown is None else shown.text + shown.mark,
                gap="" if entry.gap is None else f"{entry.gap:+.2f}",
                verdict=entry.verdict + (f": {entry.finding}" if entry.finding else ""),
                same_data=entry.same_data,
            ),
        )


def _of_ratings(study: Study, ratings: Mapping[str, SystemRating]) -> Iterator[tuple[Place, Known]]:
    for name, system in study.systems.items():
        for place in system.stands_for if name in ratings else ():
            for figure in figures_of_row(*row_at(place)):
                if question := figure.measure.question:
                    mean = ratings[name].means[question]
                    ours = f"{100 * mean:.0f}" if question in _SHARES else f"{mean:.2f}"
                    verdict = f"{ratings[name].items} rated sentences"
                    yield (place, figure.of_column.heading), Known(ours, "", verdict, _is_on_its_data(study, figure))


def _is_on_its_data(study: Study, figure: Figure) -> bool:
    place = f"{figure.paper.paper}/{figure.of_column.data}"
    return any(dataset.stands_for == place for dataset in study.datasets.values())


def _of_data(study: Study) -> Iterator[tuple[Place, Known]]:
    """The sizes of the training data of data sets that stand for those of a paper."""
    for name, dataset in study.datasets.items():
        paper, _, data = (dataset.stands_for or "").partition("/")
        for figure in figures(load_papers()[paper]) if paper else ():
            size = figure.of_column.size
            if size and figure.of_column.data == data and (ours := _size(size, study, name)) is not None:
                text = f"{ours / 1e6:.2f}" if figure.of_column.measure == "pairs" else f"{ours:,}"
                verdict = f"{name}, training pairs after the filters"
                yield (figure.place, figure.of_column.heading), Known(text, "", verdict, same_data=True)


def _size(kind: SizeKind, study: Study, dataset: str) -> int | None:
    """A size of the training data of a data set; None where its file is not there."""
    paths = Paths.of(study, dataset)
    source, target = study.datasets[dataset].languages
    match kind:
        case "pairs":
            path = Path(paths.dropped_pairs.at(split="train"))
            return DroppedPairs.read(path).kept if path.exists() else None
        case "source words" | "target words":
            language = source if kind == "source words" else target
            path = Path(paths.tokens.at(split="train", language=language))
            return sum(len(line.split()) for line in read_lines(path)) if path.exists() else None
        case "vocabulary":
            path = Path(paths.vocabulary.at(language=target))
            return len(Vocabulary.read(path)) - len(SPECIAL_TOKENS) if path.exists() else None
        case "longest side":
            return max((system.training.max_length for system in study.models.values()), default=None)
