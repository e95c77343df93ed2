"""What fills each printed figure and each claim of the papers: "study, system, analysis" of a study of phrasemt.

`python tests/helpers/fillers.py` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from phrasemt.printed.results import ClaimTest, Figure, Paper, figures, found_in, load_papers
from phrasemt.report.claims import missing_rows
from phrasemt.study.compared import claims_of
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

STUDIES = Path(__file__).parents[2] / "studies"


def everything() -> Iterator[tuple[str, list[str]]]:
    """Each printed figure and each measurement of a claim with what fills it."""
    known = {path.stem: load_study(path) for path in sorted(STUDIES.glob("*.yaml"))}
    for paper in load_papers().values():
        for figure in figures(paper):
            yield f"{figure.place}, {figure.of_column.heading}", list(_of_figure(figure, known))
        for claim, one in paper.claims.items():
            for number, measured in enumerate(one.measured):
                yield f"{paper.paper}, claim {claim}, {measured.analysis}", list(_of_claim(paper, claim, number, known))


def _of_figure(figure: Figure, known: Mapping[str, Study]) -> Iterator[str]:
    """What fills a printed figure, on the data of the paper."""
    data = None if figure.of_column.data is None else f"{figure.paper.paper}/{figure.of_column.data}"
    analysis = found_in(figure)
    for name, study in known.items():
        datasets = [key for key, dataset in study.datasets.items() if data in (None, dataset.stands_for)]
        if analysis == "training data":
            yield from (f"{name}, {dataset}, {analysis}" for dataset in datasets)
        elif datasets and analysis != "nothing":
            systems = (system for system, row in study.systems.items() if figure.place in row.stands_for)
            yield from (f"{name}, {system}, {analysis}" for system in systems)


def _of_claim(paper: Paper, claim: str, number: int, known: Mapping[str, Study]) -> Iterator[str]:
    """What fills a measurement of a claim."""
    measured = paper.claims[claim].measured[number]
    for name, study in known.items():
        if measured.analysis == "contrasts" and not any(dataset.contrastive for dataset in study.datasets.values()):
            continue
        (own,) = (one for one in claims_of(paper, study) if one.name == claim)
        for one in own.measured:
            same = {key: getattr(one, key) for key in ClaimTest.model_fields} == dict(measured)
            if same and not missing_rows(one):
                yield f"{name}, {one.system}, {one.analysis}"


if __name__ == "__main__":
    for what, fillers in everything():
        print(f"{what}: {'; '.join(fillers) or 'NOTHING'}")
