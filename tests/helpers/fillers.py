"""What fills each printed figure and each claim of the papers: a study of phrasemt, its system, and an analysis.

`python tests/helpers/fillers.py` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from phrasemt.printed.results import ClaimTest, Figure, Paper, figures, found_in, load_papers
from phrasemt.report.claims import missing_rows
from phrasemt.study.compared import claims_of
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

STUDIES = Path(__file__).parents[2] / "studies"


@dataclass(frozen=True)
class Filler:
    """A study file, and the system or data set in it that a figure is about."""

    study: str
    system: str
    analysis: str


def studies() -> dict[str, Study]:
    """The studies that come with phrasemt, by the names of their files."""
    return {path.stem: load_study(path) for path in sorted(STUDIES.glob("*.yaml"))}


def of_figure(figure: Figure, known: Mapping[str, Study]) -> Iterator[Filler]:
    """What fills a printed figure, on the data of the paper."""
    data = None if figure.of_column.data is None else f"{figure.paper.paper}/{figure.of_column.data}"
    for name, study in known.items():
        datasets = [key for key, dataset in study.datasets.items() if data in (None, dataset.stands_for)]
        if found_in(figure) == "training data":
            yield from (Filler(name, dataset, "training data") for dataset in datasets)
            continue
        for system, row in study.systems.items() if datasets else ():
            if figure.place not in row.stands_for or found_in(figure) == "nothing":
                continue
            yield Filler(name, system, found_in(figure))


def of_claim(paper: Paper, claim: str, number: int, known: Mapping[str, Study]) -> Iterator[Filler]:
    """What fills a measurement of a claim."""
    for name, study in known.items():
        (own,) = (one for one in claims_of(paper, study) if one.name == claim)
        measured = paper.claims[claim].measured[number]
        for one in own.measured:
            same = {key: getattr(one, key) for key in ClaimTest.model_fields} == dict(measured)
            if same and not missing_rows(one) and can_measure(study, measured):
                yield Filler(name, str(one.system), one.analysis)


def can_measure(study: Study, measured: ClaimTest) -> bool:
    """Whether the study has what an analysis is made from, besides its systems."""
    return measured.analysis != "contrasts" or any(dataset.contrastive for dataset in study.datasets.values())


def everything() -> Iterator[tuple[str, list[Filler]]]:
    """Each printed figure and each measurement of a claim with what fills it."""
    known = studies()
    for paper in load_papers().values():
        for figure in figures(paper):
            yield f"{figure.place}, {figure.of_column.heading}", list(of_figure(figure, known))
        for claim, one in paper.claims.items():
            for number, measured in enumerate(one.measured):
                yield f"{paper.paper}, claim {claim}, {measured.analysis}", list(of_claim(paper, claim, number, known))


if __name__ == "__main__":
    for what, fillers in everything():
        print(f"{what}: {'; '.join(f'{one.study}, {one.system}, {one.analysis}' for one in fillers) or 'NOTHING'}")
