"""`phrasemt check`: report all mistakes in study files, or print one line about each study and its warnings."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phrasemt.commands._arguments import add_json
from phrasemt.commands.corpora import files_of_study
from phrasemt.corpus.compare_splits import doubts, sample_of
from phrasemt.errors import StudyError, in_own_code
from phrasemt.files.lines import count_lines
from phrasemt.files.source_file import MIRROR
from phrasemt.runs.site import make_cache_of_snakemake, outdated_site
from phrasemt.study.architectures import file_of, own_settings
from phrasemt.study.datasets import RegistryText
from phrasemt.study.schema import Study
from phrasemt.workflow.check import read_study, warnings_of
from phrasemt.workflow.inputs import file_at_hand

log = logging.getLogger("phrasemt.check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = [Path("config.yaml")]
    parser.add_argument(
        "studies", nargs="*", type=Path, default=default, metavar="STUDY", help="study files (default: config.yaml)"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Print one line about each study, and log its warnings. Raises StudyError for a bad one, after the others."""
    make_cache_of_snakemake()
    if (outdated := outdated_site()) is not None:
        log.warning("phrasemt check: warning: %s", outdated)
    bad: list[StudyError] = []
    results: list[dict[str, Any]] = []
    for path in options.studies:
        try:
            study = read_study(path)
            if problems := [*_wrong_lengths(study), *_mistakes_in_own_families(study)]:
                raise StudyError(path, problems)
        except StudyError as error:
            bad.append(error)
            results.append({"file": str(path), "mistakes": error.problems})
            continue
        warnings = [*warnings_of(study), *_to_bring(study), *_doubts(study)]
        results.append({"file": str(path), "mistakes": [], "warnings": warnings, "study": study.study})
        if options.json:
            continue
        for warning in warnings:
            log.warning("phrasemt check: warning: %s: %s", path, warning)
        print(
            f"{path}: study {study.study}; data sets: {', '.join(study.datasets)}; "
            f"systems: {', '.join(study.systems)}; seeds: {', '.join(map(str, study.seeds))}"
        )
    if options.json:
        print(json.dumps(results, indent=1, ensure_ascii=False))
        sys.exit(StudyError.exit_code if bad else 0)
    for problem in bad[:-1]:
        log.error("phrasemt check: error: %s", problem)
    if bad:
        raise bad[-1]


def _wrong_lengths(study: Study) -> Iterator[str]:
    """Yield your own texts whose sides have unequal numbers of lines, and samples that leave nothing of their text."""
    count = functools.cache(count_lines)
    for name, dataset in study.datasets.items():
        for place, text in dataset.texts:
            files = [] if isinstance(text, RegistryText) else list(text.files.values())
            yield from (f"datasets.{name}.{place}: {file}: the file is empty" for file in files if not count(file))
            if len({count(file) for file in files}) > 1:
                found = ", ".join(f"{file} {count(file):,}" for file in files)
                yield f"datasets.{name}.{place}: unequal numbers of lines: {found}; next: align them"
        own = [text for text in dataset.cut.texts if not isinstance(text, RegistryText)] if dataset.cut else []
        if (cut := dataset.cut) and len(own) == len(cut.texts):
            pairs, taken = sum(count(text.source) for text in own), cut.dev + cut.test
            if taken >= pairs > 0:
                yield (
                    f"datasets.{name}: dev and test take {taken:,} of {pairs:,} pairs, and train gets none; next: "
                    "choose smaller numbers"
                )


def _mistakes_in_own_families(study: Study) -> Iterator[str]:
    """Yield why models of your own cannot be made, or cannot score a pair."""
    for name, system in study.models.items():
        if own_settings(system.model.family):
            from phrasemt.models.cost import cost_of  # which brings torch, as the family does

            try:
                cost_of(system.model, source_vocabulary=99, target_vocabulary=99)
            except Exception as error:  # code of anybody can fail in any way
                where = in_own_code(error) or str(file_of(system.model.family))
                yield f"systems.{name}.model: {where}: {type(error).__name__}: {error}"


def _doubts(study: Study) -> Iterator[str]:
    """Yield what shows that your own texts of a data set do not belong together."""
    for name, dataset in study.datasets.items():
        samples = {
            place: sample_of(text.source, text.target)
            for place, text in sorted(dataset.texts, key=lambda placed: "train" in placed[0])  # dev or test first
            if not isinstance(text, RegistryText)
        }
        if samples:
            yield from (f"datasets.{name}.{place}: {doubt}" for place, doubt in doubts(samples, dataset.languages))


def _to_bring(study: Study) -> Iterator[str]:
    """Yield what a person has to get, of the registered files that no program may fetch and that are not here."""
    missing: dict[str, list[str]] = defaultdict(list)
    for (corpus, name), file in files_of_study(study).items():
        if file.by_hand and not file_at_hand(corpus, name):
            missing[file.by_hand].append(f"{corpus}/{name}")
    for how, files in missing.items():
        yield f"not here: {', '.join(files)}: {how}, and name the folder of {files[0]} in {MIRROR}"
