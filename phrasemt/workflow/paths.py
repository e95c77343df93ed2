"""Paths of a study, for rules and Python code: the patterns of phrasemt/artefacts with names filled in.

resources/<corpus>/...                           corpora as fetched, and their texts
results/<study>/<dataset>.<source>-<target>/     everything about one data set
results/<study>/annotators/<annotator>/          trained parsers and chunkers, with their scores
results/<study>/table.*, report.html
logs/<study>/<stage>/<job>.log, benchmarks/<study>/<stage>/<job>.tsv
"""

from __future__ import annotations

from pathlib import Path

from phrasemt.artefacts import by_attribute
from phrasemt.artefacts.artefact import Artefact, Pattern
from phrasemt.artefacts.training import Weights
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study, System

RESULTS, LOGS, BENCHMARKS = Path("results"), Path("logs"), Path("benchmarks")
EXPORTED_MANIFEST, EXPORTED_WEIGHTS = "model.json", "weights.safetensors"  # of a folder of `phrasemt export`


class Paths:
    """The patterns of one study: `paths.training_record` is that of the kind `TrainingRecord`.

    names: of the data set and its languages; those that are not given are wildcards still.
    """

    def __init__(self, study: str, **names: str) -> None:
        self.study = study
        self._names = {"study": study, **names}
        self.results = Pattern(RESULTS / study)
        self.logs = Pattern(LOGS / study)
        self.benchmarks = Pattern(BENCHMARKS / study)
        self.dataset = Pattern(f"{self.results}/{{dataset}}.{{source}}-{{target}}").within(**names)
        self.model = Pattern(f"{self.dataset}/models/{{system}}/{{seed}}")

    def of_kind(self, kind: type[Artefact]) -> Pattern:
        return kind.pattern.within(**self._names)

    def __getattr__(self, kind: str) -> Pattern:
        if kind not in by_attribute():
            raise AttributeError(f"no kind of file has the name {kind}")
        return self.of_kind(by_attribute()[kind])

    @classmethod
    def of(cls, study: Study, dataset: str) -> Paths:
        """The paths of one data set of a study; `language` and the like are wildcards still."""
        source, target = study.datasets[dataset].languages
        return cls(study.study, dataset=dataset, source=source, target=target)

    def log(self, stage: str) -> Pattern:
        return Pattern(f"{self.logs}/{_job(stage)}.log")

    def benchmark(self, stage: str) -> Pattern:
        """Snakemake's table of the time and memory that a stage used."""
        return Pattern(f"{self.benchmarks}/{_job(stage)}.tsv")


def initial_weights(system: System, seed: object) -> list[Path]:
    """The file that a system's training with this seed starts from; no file for random weights."""
    place = system.init_from
    if place is None:
        return []
    weights = Path(Weights.pattern).name
    if place.suffix == Path(weights).suffix:
        return [place]
    return [place / EXPORTED_WEIGHTS if (place / EXPORTED_MANIFEST).is_file() else place / str(seed) / weights]


def log_of(benchmark: Path) -> Path:
    """The log of the job that a benchmark is about. With a storage, both are below the folder of its copies."""
    folder = next(folder for folder in benchmark.parents if folder.name == BENCHMARKS.name)
    return folder.parent / LOGS / benchmark.relative_to(folder).with_suffix(".log")


def _job(stage: str) -> str:
    return f"{stage}/{STAGES[stage].job_name}".rstrip("/")
