"""A finished study without a training: invented translations, scored and compared by the real stages.

The files lie where the workflow puts them, with sidecars, so that tables and reports see what they see in earnest.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
from pathlib import Path
from typing import Any

from invented_files import WORDS, InventedFiles, detokenised, mistakes

from phrasemt.artefacts.sidecar import sidecar_path
from phrasemt.files.digests import digest_file
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study
from phrasemt.workflow.run_stage import run_stage


def study_of(
    *,
    seeds: tuple[int, ...] = (1, 2),
    systems: tuple[str, ...] = ("base", "max", "mean"),
    datasets: tuple[str, ...] = ("demo", "captions"),
) -> Study:
    titles = {"base": "Transformer", "max": "+ phrases (max) & <b>", "mean": "+ phrases | mean"}
    models: dict[str, dict[str, object]] = {
        "base": {"family": "transformer"},
        "max": {"family": "phrase_representation", "glance": "max"},
        "mean": {"family": "phrase_representation", "glance": "mean"},
        "bi": {"family": "biscale"},
        "lm": {"family": "language_model"},
        "lm2": {"family": "language_model", "attention": "ngrams"},
    }
    rows = {"once": {"model": models["mean"], "seeds": list(seeds[:1])}}
    texts = [{"corpus": "multi30k", "part": "train"}]
    gold = [{"generated": "demo", "split": "train"}]
    known: dict[str, dict[str, object]] = {
        "demo": {
            "source_language": "en",
            "target_language": "de",
            "generator": {"train": 9, "dev": 9, "test": 9},
            "source_parser": "english",
            "target_chunks": {"origin": "gold"},
        },
        "captions": {
            "source_language": "de",
            "target_language": "en",
            "splits": {"train": texts, "dev": texts, "test": {"flickr_2016": texts, "coco": texts}},
        },
    }
    return Study.model_validate(
        {
            "study": "invented",
            "title": "Phrases on <invented> data",
            "seeds": list(seeds),
            "comparison": {"samples": 100},
            "analyses": {"lengths": [8, 12, 30]},
            "datasets": {name: known[name] for name in datasets},
            "parsers": {"english": {"language": "en", "train": {"train": gold, "test": gold}}},
            "systems": {
                name: {"title": titles.get(name), **rows.get(name, {"model": models.get(name, models["max"])})}
                for name in systems
            },
        }
    )


def rewrite(path: Path, text: str) -> None:
    """Replace the content of an artefact as its stage would: the sidecar, if there is one, names the new content."""
    old = digest_file(path)
    path.write_text(text)
    if (sidecar := sidecar_path(path)).is_file():
        sidecar.write_text(sidecar.read_text().replace(old, digest_file(path)))


class InventedStudy(InventedFiles):
    """The files of a study below the current folder. `build` makes all of them; the parts can be made again."""

    def build(self) -> None:
        for dataset, test_set in self.test_sets:
            self.invent_reference(dataset, test_set)
            for system, seed in self.translated:
                self.translate(dataset, test_set, system, seed)
        for dataset in self.study.datasets:
            self.clean(dataset)
            self.compare_splits(dataset)
            for system, seed in self.translated:
                self.score(dataset, system, seed)
            for system in self.challengers:
                self.compare(dataset, system)
            for system in self.study.translating:
                self.score_by_length(dataset, system)
            for system, seed in self.runs_of(self.study.language_models):
                self.score_perplexity(dataset, system, seed)
            for system, seed in self.runs_of(self.study.chunking):
                self.score_chunks(dataset, system, seed)
        for dataset, (system, seed) in itertools.product(self.study.datasets, self.runs_of(list(self.study.models))):
            self.train(dataset, system, seed)
            self.average(dataset, system, seed)
            if self.study.datasets[dataset].generator and system in self.study.translating:
                self.score_contrasts(dataset, system, seed)
        self.annotate()

    @property
    def test_sets(self) -> list[tuple[str, str]]:
        return [(name, test_set) for name, dataset in self.study.datasets.items() for test_set in dataset.test_sets]

    @property
    def translated(self) -> list[tuple[str, int]]:
        return self.runs_of(self.study.translating)

    def runs_of(self, systems: list[str]) -> list[tuple[str, int]]:
        return [(system, seed) for system in systems for seed in self.study.seeds_of(system)]

    @property
    def challengers(self) -> list[str]:
        return [system for system in self.study.translating if system in self.study.baselines]

    def run(self, stage: str, wildcards: dict[str, str], **paths: Path | list[Path]) -> None:
        settings = STAGES[stage].from_study(self.study, wildcards).canonical_json()
        run_stage(stage, argparse.Namespace(settings=settings, cores=1, **paths))

    def translate(self, dataset: str, test_set: str, system: str, seed: int) -> None:
        folder = self.folder(dataset)
        target = self.study.datasets[dataset].target_language
        draw = random.Random(f"{dataset} {test_set} {system} {seed}")
        tokens = [
            " ".join(draw.choice(WORDS) if draw.random() < mistakes(system) else word for word in line.split(" "))
            for line in (folder / "tokens" / f"{test_set}.{target}").read_text().split("\n")[:-1]
        ]
        path = self.translation_path(dataset, test_set, system, seed)
        wildcards = {"dataset": dataset, "split": test_set, "system": system, "seed": str(seed)}
        outputs = {
            "tokens": (path, "".join(f"{line}\n" for line in tokens)),
            "text": (path.with_suffix(".txt"), "".join(f"{detokenised(line)}\n" for line in tokens)),
        }
        self._made_by(STAGES["translate_examples"].from_study(self.study, wildcards), outputs)

    def score(self, dataset: str, system: str, seed: int, **changes: list[Path]) -> None:
        folder, target = self.folder(dataset), self.study.datasets[dataset].target_language
        test_sets = self.study.datasets[dataset].test_sets
        tokens = [self.translation_path(dataset, test_set, system, seed) for test_set in test_sets]
        inputs = {
            "tokens": tokens,
            "text": [path.with_suffix(".txt") for path in tokens],
            "reference_tokens": [folder / "tokens" / f"{test_set}.{target}" for test_set in test_sets],
            "reference": [folder / "corpus" / f"{test_set}.{target}" for test_set in test_sets],
        }
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        self.run("score_system", wildcards, **{**inputs, **changes}, scores=self.score_path(dataset, system, seed))

    def compare(self, dataset: str, system: str, **metrics: list[Path]) -> None:
        self.run(
            "compare_systems",
            {"dataset": dataset, "system": system},
            baseline=self._scores_of(dataset, self.study.baseline_of(system)),
            system=self._scores_of(dataset, system),
            repeated=[path for name in self.study.repeated for path in self._scores_of(dataset, name)],
            comparison=self.comparison_path(dataset, system),
            **{f"{side}_metrics": [] for side in ("baseline", "system", "repeated")} | metrics,
        )

    def _scores_of(self, dataset: str, system: str) -> list[Path]:
        return [self.score_path(dataset, system, seed) for seed in self.study.seeds_of(system)]

    def score_by_length(self, dataset: str, system: str) -> None:
        """The invented sources have the lengths of the references."""
        folder, target = self.folder(dataset), self.study.datasets[dataset].target_language
        self.run(
            "score_by_length",
            {"dataset": dataset, "system": system},
            scores=self._scores_of(dataset, system),
            source_tokens=[
                folder / "tokens" / f"{test_set}.{target}" for test_set in self.study.datasets[dataset].test_sets
            ],
            lengths=self.length_path(dataset, system),
        )

    @property
    def table_inputs(self) -> dict[str, list[Path]]:
        study = self.study
        trainings, language_models, chunking = (
            [(dataset, *run) for dataset in study.datasets for run in self.runs_of(names)]
            for names in (list(study.models), study.language_models, study.chunking)
        )
        return {
            "scores": [self.score_path(name, *run) for name, run in itertools.product(study.datasets, self.translated)],
            "metrics": [],
            "comparisons": [self.comparison_path(*run) for run in itertools.product(study.datasets, self.challengers)],
            "perplexities": [self.perplexity_path(*run) for run in language_models],
            "chunks": [self.chunk_score_path(*run) for run in chunking],
            "contrasts": [self.contrasts_path("demo", *run) for run in self.translated if run[0] in list(study.models)],
            "averages": [self.average_path(*run) for run in trainings],
            "splits": [self.splits_path(name) for name in study.datasets],
        }

    def make_table(self, **changes: list[Path]) -> None:
        self.run(
            "make_table",
            {},
            files=_files({**self.table_inputs, **changes}),
            table=self.results / "table.json",
            markdown=self.results / "table.md",
            latex=self.results / "table.tex",
            csv=self.results / "table.csv",
        )

    @property
    def report_inputs(self) -> dict[str, list[Path]]:
        datasets = self.study.datasets
        runs = itertools.product(datasets, self.runs_of(list(self.study.models)))
        return {
            "records": [self.record_path(dataset, *run) for dataset, run in runs],
            "dropped": [
                self.folder(name) / "corpus" / f"{split}.dropped.tsv" for name in datasets for split in ("train", "dev")
            ],
            "splits": [self.splits_path(name) for name in datasets],
            "round_trips": [
                self.folder(name) / "tokens" / f"{test_set}.{datasets[name].target_language}.round_trip.json"
                for name, test_set in self.test_sets
            ],
            "phrases": [self.folder("demo") / "phrases" / segmenter / "train.json" for segmenter in ("ngram", "parse")],
            "chunks": [self.folder("demo") / "chunks" / "dev.json"],
            "annotators": [self.results / "annotators" / "english" / "annotator.json"],
            "lengths": [self.length_path(*run) for run in itertools.product(datasets, self.study.translating)],
            "analyses": [],
            "attention": [self.folder("demo") / "attention" / "max" / "1" / "test.arrow"]
            if "max" in self.study.systems
            else [],
            "contrasts": self.table_inputs["contrasts"],
            **self.shown_sentences,
        }

    @property
    def shown_sentences(self) -> dict[str, list[Path]]:
        """The inputs of the report's explorer. The units of `demo` are tokens, and those of `captions` too."""
        datasets, first = self.study.datasets, self.study.seeds[0]
        translating = self.study.translating
        source, target = (
            [self.tokens_path(name, test_set, datasets[name].language_of(side)) for name, test_set in self.test_sets]
            for side in ("source", "target")
        )
        return {
            "source": source,
            "references": target,
            "translations": [
                self.translation_path(*place, system, first) for place in self.test_sets for system in translating
            ],
            "compared": [self.score_path(name, *run) for name, run in itertools.product(datasets, self.translated)],
            "parses": [self.folder("demo") / "parses" / "english" / "test.0.arrow"],
            "phrase_columns": [self.folder("demo") / "phrases" / "ngram" / "test.arrow"],
            "chunk_columns": [self.folder("demo") / "chunks" / "test.arrow"],
        }

    def write_report(self, **changes: list[Path]) -> None:
        files = _files({**self.report_inputs, **changes})
        self.run(
            "write_report", {}, table=self.results / "table.json", files=files, report=self.results / "report.html"
        )


def _files(inputs: dict[str, list[Path]]) -> list[Path]:
    return [path for paths in inputs.values() for path in paths]


def build(folder: Path, **choices: Any) -> InventedStudy:
    """A whole invented study below a folder."""
    invented = InventedStudy(study_of(**choices))
    with contextlib.chdir(folder):
        invented.build()
    return invented
