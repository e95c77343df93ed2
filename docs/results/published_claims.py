"""The claims of the papers beside what the published trainings measure of them: docs/claims.md."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from typing import Any

from run_values import DRAWS, of_study, words_of
from runs import FOLDER, Run

from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Block, Cell, Row, Table
from phrasemt.artefacts.training import Evaluation, TrainingRecord
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy
from phrasemt.printed.results import load_papers
from phrasemt.report.claims import ClaimRow, Measured, claim_rows, ledger
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import PairedTest, decided_pairs, gains_of
from phrasemt.study.compared import claims_of
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

# The studies whose systems stand for rows of papers, in the order of the table.
_STUDIES = ("multi30k-systems", "bible-en-de", "demo-phrases", "demo-families", "demo-claims")


def claims(*, repeated: bool = False) -> list[list[str]]:
    """The table: each claim with all figures that the published trainings have for it. repeated: as in `ledger`."""
    return ledger(load_papers().values(), _rows(), repeated=repeated)


@functools.cache
def _rows() -> list[ClaimRow]:
    rows: list[ClaimRow] = []
    for name in _STUDIES:
        study = load_study(FOLDER.parents[1] / "studies" / f"{name}.yaml")
        evidence = evidence_of(study)
        found = (row for paper in load_papers().values() for row in claim_rows(claims_of(paper, study), evidence))
        rows += (row._replace(on=f"{name}: {row.on}") for row in found if row.ours)
    return rows


def evidence_of(study: Study) -> Measured:
    """What the published trainings of a study have measured, except their times."""
    runs = [run for run in of_study(study.study) if run.system in study.systems]
    parts = [(_names(run), name, part) for run in runs for name, part in run.test_sets.items()]
    trained = {name: [run.seed for run in runs if run.system == name] for name in study.systems}
    several = [name for name, seeds in trained.items() if len(seeds) > 1]
    test = PairedTest(samples=DRAWS["samples"], seed=DRAWS["seed"], repeated=several)
    scores = [SystemScores(**of, test_sets={name: part.scores}) for of, name, part in parts if part.statistics]
    analyses = [AttentionAnalysis(**of, **part.attention) for of, _, part in parts if part.attention]
    decided = [
        ContrastAccuracy(**of, contrast_set=name, kinds=part.contrasts, decisions=part.decisions)
        for of, name, part in parts
        if part.decisions
    ]
    table = Table(
        study=study.study,
        title=study.title or study.study,
        baseline="",
        baselines={},
        systems=[(name, system.title or name) for name, system in study.systems.items()],
        trained=trained,
        seeds=study.seeds,
        blocks=list(_blocks(scores)),
        signatures=[],
        command="",
    )
    words = {(of["dataset"], name): words_of(part) for of, name, part in parts if part.statistics}
    return Measured(
        table=table,
        trainings=[_training(run) for run in runs if run.record],
        gains=list(gains_of(scores=scores, analyses=analyses, words=words, test=test)),
        attention=analyses,
        contrasts=decided_pairs(decided, test),
    )


def _names(run: Run) -> dict[str, Any]:
    return {"dataset": run.dataset, "system": run.system, "seed": run.seed}


def _blocks(scores: list[SystemScores]) -> Iterator[Block]:
    """The mean scores of each system; differences come from the gains."""
    for dataset, test_set in dict.fromkeys((one.dataset, name) for one in scores for name in one.test_sets):
        rows = []
        here = [one for one in scores if one.dataset == dataset and test_set in one.test_sets]
        for system in dict.fromkeys(one.system for one in here):
            by_seed = {one.seed: one.test_sets[test_set] for one in here if one.system == system}
            cells = {}
            for metric, first in here[0].test_sets[test_set].metrics.items():
                values = {seed: one.metrics[metric].score for seed, one in by_seed.items()}
                mean = statistics.mean(values.values())
                cells[metric] = Cell(value=mean, text="", signature=first.signature, sources=[], by_seed=values)
            rows.append(Row(system=system, title=system, cells=cells))
        size = here[0].test_sets[test_set].sentences
        yield Block(kind="scores", dataset=dataset, test_set=test_set, size=size, columns=[], rows=rows, notes=[])


def _training(run: Run) -> TrainingCurve:
    """What claims need of a training; the rest is not published."""
    columns = (run.evaluations.get(name, []) for name in ("update", "dev_perplexity"))
    return TrainingCurve(
        dataset=run.dataset,
        system=run.system,
        seed=run.seed,
        losses={},
        evaluations=[Evaluation(update=update, dev_perplexity=value) for update, value in zip(*columns, strict=True)],
        record=TrainingRecord.model_construct(**run.record),
        tokens_per_second=None,
        seconds_of_updates=None,
        evaluation_share=None,
    )
