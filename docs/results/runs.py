"""The trainings behind docs/results.md: one compressed file for each study, `docs/results/<study>.json.xz`.

A file is a list of runs, as JSON. A run is a system, trained with one seed on one data set: its record, all evaluations
on dev, the dev scores of the averaged weights, and for each test set the translations and what scores are computed
from. Tables are lists of columns, which compress to half the size of lists of rows.

`.venv/bin/python docs/results/runs.py STUDY.yaml` adds the runs of a finished study, or replaces them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phrasemt.artefacts.paths import RESULTS
from phrasemt.artefacts.scores import CONVENTIONS, Scores
from phrasemt.files.lines import read_lines
from phrasemt.scoring.scores import accuracy_scores, corpus_scores, nats_scores, of_clusters
from phrasemt.study.reading import load_study
from phrasemt.workflow.changes import changes_since

FOLDER = Path(__file__).parent
Content = Mapping[str, Any]
_OF_RECORD = ("parameters", "idle_parameters", "precision", "updates", "model")


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """What a run has on a test set; a kind of system leaves out what it does not have.

    references: sha256 of each reference as tokens and as text. signatures, statistics: by metric; statistics as in
    score files, but [columns][sentences]. contrasts: pairs and right decisions by kind of mistake and by distance;
    decisions: about each pair. chunks: accuracy of the decisions about chunks. perplexity: negative log-probability,
    words and tokens. attention: where the model attends. source_words: of each source, separated by white space.
    """

    references: Content = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, list[list[float]]] = field(default_factory=dict)
    translations: list[str] = field(default_factory=list)
    contrasts: list[Content] = field(default_factory=list)
    decisions: Content = field(default_factory=dict)
    chunks: Content = field(default_factory=dict)
    perplexity: Content = field(default_factory=dict)
    attention: Content = field(default_factory=dict)
    source_words: list[int] = field(default_factory=list)

    @functools.cached_property
    def scores(self) -> Scores:
        """The part of a score file: the statistics, and the scores that follow from them."""
        metrics = {}
        for name, columns in self.statistics.items():
            metric = CONVENTIONS[name].score(0, self.signatures[name])
            score = float(corpus_scores(metric, np.array(columns, dtype=np.float64).sum(axis=1)))
            metrics[name] = metric.model_copy(update={"score": score})
        return Scores(
            sentences=len(self.translations),
            references=dict(self.references),
            metrics=metrics,
            statistics=_transposed(self.statistics),
        )

    @property
    def forced(self) -> Scores:
        """Nats per token of the references under forced decoding."""
        return nats_scores(self.attention["sentence_nats"], self.attention["sentence_tokens"])

    @property
    def accuracy(self) -> Scores:
        """Decisions about contrastive pairs, in percent. Raises KeyError for a run that was published without them."""
        scores, clusters = accuracy_scores(self.decisions["right"]), self.decisions.get("clusters")
        return scores if clusters is None else of_clusters(scores, np.array(clusters))


@dataclass(frozen=True, kw_only=True)
class Run:
    """A system, trained with a seed.

    record: number of parameters, settings of the model, updates. evaluations: columns by the names of
    docs/measurements.md; None where an evaluation lacks a value. average: scores on dev of the averaged weights and of
    the last ones. weights: BLEU on dev and weights of a tuned system of Moses.
    """

    dataset: str
    system: str
    seed: int
    record: Content = field(default_factory=dict)
    evaluations: Mapping[str, list[Any]] = field(default_factory=dict)
    average: Content = field(default_factory=dict)
    weights: Content = field(default_factory=dict)
    test_sets: Mapping[str, TestSet] = field(default_factory=dict)


def _transposed(tables: Mapping[str, list[list[float]]]) -> dict[str, list[list[float]]]:
    return {name: [list(row) for row in zip(*table, strict=True)] for name, table in tables.items()}


def read_runs(study: str) -> list[Run]:
    """Read the file of a study."""
    runs = json.loads(lzma.decompress(_path(study).read_bytes()))
    return [
        Run(**run | {"test_sets": {name: TestSet(**part) for name, part in run.get("test_sets", {}).items()}})
        for run in runs
    ]


def write_runs(study: str, runs: Iterable[Run]) -> None:
    """Write the file of a study. Equal runs give equal JSON."""
    ordered = sorted(runs, key=lambda run: (run.dataset, run.system, run.seed))
    text = json.dumps([_filled(dataclasses.asdict(run)) for run in ordered], ensure_ascii=False, separators=(",", ":"))
    _path(study).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def _path(study: str) -> Path:
    return FOLDER / f"{study}.json.xz"


def _filled(content: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not empty, with those of the test sets."""
    parts = {name: _filled(part) for name, part in content.get("test_sets", {}).items()}
    return {name: value for name, value in (content | {"test_sets": parts}).items() if value not in ({}, [])}


def runs_of_study(results: Path) -> Iterator[Run]:
    """Read the runs of a finished study. results: its folder, `results/<study>`."""
    written = (file.parent for file in results.glob("*/models/*/*/*.json"))  # not by a training that goes on
    paths = [*written, *results.glob("*/scores/*/*.json")]
    places = {path.relative_to(results).with_suffix("").parts for path in paths if "." not in path.stem}
    for folder, system, seed in sorted({(place[0], *place[2:]) for place in places}):
        dataset = results / folder
        name = f"{system}/{seed}"
        yield Run(
            dataset=folder.split(".")[0],
            system=system,
            seed=int(seed),
            **of_training(_read(dataset / "models" / name / "training.json")),
            average=_read(dataset / "models" / name / "averaged.json"),
            weights=_read(dataset / "models" / name / "weights.json"),
            test_sets=_test_sets(dataset, name),
        )


def of_training(record: dict[str, Any]) -> dict[str, Any]:
    """The fields `record` and `evaluations` of a run. record: `training.json`."""
    evaluations = [one | one.pop("measurements", {}) for one in record.pop("evaluations", [])]
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation)
    return {
        "record": {name: record[name] for name in _OF_RECORD if name in record},
        "evaluations": {name: [evaluation.get(name) for evaluation in evaluations] for name in names},
    }


def _test_sets(dataset: Path, name: str) -> dict[str, TestSet]:
    """The test sets of a run. name: its system and its seed."""
    source_language = dataset.name.rpartition(".")[2].partition("-")[0]
    contrast_sets = {path.stem for path in (dataset / "contrasts" / name).glob("*.json") if "." not in path.stem}
    parts = {
        kind: _read(dataset / kind / f"{name}.json").get("test_sets", {})
        for kind in ("scores", "chunk_scores", "perplexities")
    }
    found = {}
    for test_set in sorted({test_set for part in parts.values() for test_set in part} | contrast_sets):
        contrasts = _read(dataset / "contrasts" / name / f"{test_set}.json")
        found[test_set] = TestSet(
            **of_scores(parts["scores"].get(test_set, {})),
            translations=_lines(dataset / "translations" / name / f"{test_set}.txt"),
            contrasts=contrasts.get("kinds", []),
            decisions=contrasts.get("decisions", {}),
            chunks=parts["chunk_scores"].get(test_set, {}),
            perplexity=parts["perplexities"].get(test_set, {}),
            attention=_read(dataset / "attention" / name / f"{test_set}.json"),
            source_words=[len(line.split()) for line in _lines(dataset / "corpus" / f"{test_set}.{source_language}")],
        )
    return found


def of_scores(scores: dict[str, Any]) -> dict[str, Any]:
    """The fields of a test set that a score file has. scores: its part for this test set."""
    if not scores:
        return {}
    return {
        "references": scores["references"],
        "signatures": {name: metric["signature"] for name, metric in scores["metrics"].items()},
        "statistics": _transposed(scores["statistics"]),
    }


def _read(path: Path) -> dict[str, Any]:
    """A JSON file without the fields that a run has itself; nothing where a system has no such file."""
    content: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return {name: value for name, value in content.items() if name not in ("format", "dataset", "system", "seed")}


def _lines(path: Path) -> list[str]:
    return list(read_lines(path)) if path.exists() else []


def add(results: Path) -> None:
    """Add the runs in the folder of a finished study to the file of its name, in place of earlier ones."""
    study = results.name
    before = read_runs(study) if _path(study).exists() else []
    by_name = {(run.dataset, run.system, run.seed): run for run in [*before, *runs_of_study(results)]}
    write_runs(study, by_name.values())


if __name__ == "__main__":
    chosen = load_study(Path(sys.argv[1]))
    changes_since(chosen).refuse()
    add(RESULTS / chosen.study)
