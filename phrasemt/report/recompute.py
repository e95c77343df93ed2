"""The numbers of a capsule computed again: by the stages that made them, from the files in the capsule.

The declarations of the stages say what is computed again, and the study of the capsule gives the settings: the tables,
and whatever a stage of `RECOMPUTED` makes of what they are made of. A capsule cannot take a file from this.

Scores come from translations and references; where references are left out, from the statistics of the sentences.
Comparisons come from the scores, tables from all of them. What a model computed (perplexity, contrastive pairs, chunks,
scores on dev) is compared with its checksum only.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phrasemt.artefacts import kinds
from phrasemt.artefacts.scores import BleuScore, SystemScores
from phrasemt.artefacts.sidecar import SUFFIX, Sidecar, library_versions
from phrasemt.errors import PhrasemtError
from phrasemt.files.digests import digest_file
from phrasemt.report.capsule import RECOMPUTED, REFERENCE, CapsuleManifest, table_paths
from phrasemt.scoring.statistics import as_array, corpus_scores
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study

# Machines add numbers in different orders.
_TOLERANCE = 1e-9
# The stage that writes a kind of file, of those that are computed again.
_WRITERS = {kind: stage for stage in RECOMPUTED for file in STAGES[stage].stage_files("output") for kind in file.kinds}


@dataclass(frozen=True)
class Finding:
    """What became of a file of a capsule. numbers: how many were compared. differences: where, recorded, found."""

    path: str
    how: Literal["checksum", "recomputed", "statistics", "as recorded"]
    numbers: int
    differences: tuple[str, ...] = ()


def check_capsule(folder: Path, manifest: CapsuleManifest) -> list[Finding]:
    """Compare all checksums of an unpacked capsule, and compute its numbers again.

    The working folder is that of the capsule meanwhile, because tables hold the paths of their scores. Whatever a file
    holds, the worst that it causes is a difference.
    """
    with contextlib.chdir(folder):
        return [*_findings(manifest)]


def _findings(manifest: CapsuleManifest) -> Iterator[Finding]:
    places = {file.path: Path(file.member) for file in manifest.files if file.member is not None}
    recorded = {file.path: file.sha256 for file in manifest.files}
    for path, place in places.items():
        if (found := digest_file(place)) != recorded[path]:
            yield Finding(path, "checksum", 0, (f"sha256: recorded {recorded[path][:12]}, found {found[:12]}",))
    sidecars: dict[str, Sidecar] = {}
    for path, place in places.items():
        if path.endswith(SUFFIX) or f"{path}{SUFFIX}" not in places:
            continue
        try:
            sidecars[path] = Sidecar.beside(place)
        except PhrasemtError as error:
            yield Finding(path, "checksum", 0, (str(error),))
            continue
        yield from _origin(path, sidecars[path], recorded)
    runs: dict[str, tuple[Sidecar, list[str]]] = {}  # outputs of one run of a stage, by the text of its sidecar
    stages = dict.fromkeys(map(str, table_paths(manifest.study_read.study)), "make_table")  # of each file, its stage
    waiting = list(stages)
    for path in waiting:
        sidecar = sidecars.get(path)
        if sidecar is None or sidecar.stage != stages[path] or path not in sidecar.files_written:
            found = "not in the capsule with a sidecar" if sidecar is None else f"a sidecar of {sidecar.stage}"
            yield Finding(path, "recomputed", 0, (f"expected an output of {stages[path]}, found {found}",))
            continue
        runs.setdefault(sidecar.text, (sidecar, []))[1].append(path)
        for file in STAGES[sidecar.stage].stage_files("input"):
            for stage in (_WRITERS[kind] for kind in file.kinds if kind in _WRITERS):
                new = [one.path for one in sidecar.inputs.get(file.name, []) if one.path not in stages]
                stages |= dict.fromkeys(new, stage)
                waiting += new
    yield from (
        Finding(path, "as recorded", 0) for path in sidecars if path not in stages and places[path].suffix == ".json"
    )
    for stage in RECOMPUTED:
        for sidecar, paths in runs.values():
            if sidecar.stage == stage:
                yield from _of_run(sidecar, paths, places, manifest.study_read)


def other_versions(folder: Path, manifest: CapsuleManifest) -> list[str]:
    """The libraries whose versions are not those that made the capsule's scores, for readers of differences."""
    found = set()
    for file in manifest.files:
        if file.member is None or file.member.endswith(SUFFIX) or not (folder / f"{file.member}{SUFFIX}").is_file():
            continue
        try:
            sidecar = Sidecar.beside(folder / file.member)
        except PhrasemtError:
            continue  # `check_capsule` names it
        if sidecar.stage in RECOMPUTED:
            here = library_versions(STAGES[sidecar.stage].libraries)
            versions = sidecar.versions.items()
            found |= {
                f"{name} {version}, here {here.get(name)}" for name, version in versions if here.get(name) != version
            }
    return sorted(found)


def _origin(path: str, sidecar: Sidecar, recorded: Mapping[str, str]) -> Iterator[Finding]:
    """A file that is not the one that its sidecar describes, or that was made of other inputs."""
    for file in (*sidecar.outputs.values(), *sidecar.files_read):
        if (digest := recorded.get(file.path, file.sha256)) != file.sha256:
            what = f"its sidecar names {file.path} of sha256 {file.sha256[:12]}, found {digest[:12]}"
            yield Finding(path, "checksum", 0, (what,))


def _of_run(sidecar: Sidecar, paths: list[str], places: Mapping[str, Path], study: Study) -> list[Finding]:
    """The outputs of one run of a stage against what the files in the capsule tell."""
    absent = {role for role, files in sidecar.inputs.items() for file in files if file.path not in places}
    try:
        if absent and all(role.startswith(REFERENCE) for role in absent):
            return [_by_statistics(path, places[path]) for path in paths]
        return _by_stage(sidecar, paths, places, study)
    except Exception as error:  # files from anywhere can break a stage in any way
        what = (str(error) or type(error).__name__).split("\n")[0]
        return [Finding(path, "recomputed", 0, (f"{sidecar.stage} refuses: {what}",)) for path in paths]


def _by_stage(sidecar: Sidecar, paths: list[str], places: Mapping[str, Path], study: Study) -> list[Finding]:
    """The outputs against those that the stage makes of its inputs, with the settings of the study."""
    stage = STAGES[sidecar.stage]
    (first, *_) = stage.stage_files("output")
    settings = stage.from_study(study, kinds()[first.kinds[0]].pattern.names(Path(sidecar.outputs[first.name].path)))
    function = getattr(importlib.import_module(stage.module), stage.stage_name())
    arguments: dict[str, Any] = {}
    for file in stage.stage_files("input"):
        files = [places[one.path] for one in sidecar.inputs.get(file.name, [])]
        arguments[file.name] = files if file.many else files[0]
    with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
        outputs = {role: Path(name) / Path(made.path).name for role, made in sidecar.outputs.items()}
        function(settings=settings, cores=1, **arguments, **outputs)
        return [
            _compared(made.path, places[made.path], outputs[role])
            for role, made in sidecar.outputs.items()
            if made.path in paths
        ]


def _compared(path: str, recorded: Path, computed: Path) -> Finding:
    if recorded.suffix == ".json":
        pairs = list(_leaves(*(json.loads(file.read_text(encoding="utf-8")) for file in (recorded, computed))))
        numbers = sum(isinstance(one, int | float) for _, one, _ in pairs)
    else:
        lines, again = (file.read_text(encoding="utf-8").split("\n") for file in (recorded, computed))
        longest = max(len(lines), len(again))
        lines, again = (side + [""] * (longest - len(side)) for side in (lines, again))
        pairs = [(f"line {number}", one, two) for number, (one, two) in enumerate(zip(lines, again, strict=True), 1)]
        numbers = 0
    return Finding(path, "recomputed", numbers, tuple(_difference(*pair) for pair in pairs if not _equal(*pair[1:])))


def _by_statistics(path: str, place: Path) -> Finding:
    """The scores of a file whose references are left out, from the statistics of the sentences."""
    pairs: list[tuple[str, Any, Any]] = []
    for test_set, scores in SystemScores.read(place).test_sets.items():
        for name, metric in scores.metrics.items():
            sums = as_array(scores.statistics[name]).sum(0)
            pairs.append((f"{test_set}.{name}", metric.score, float(corpus_scores(metric, sums))))
            if isinstance(metric, BleuScore):
                counted = [*metric.counts, *metric.totals, metric.sys_len, metric.ref_len]
                pairs.append((f"{test_set}.{name}, counts and lengths", counted, sums.tolist()))
    numbers = sum(isinstance(one, float) for _, one, _ in pairs)
    return Finding(path, "statistics", numbers, tuple(_difference(*pair) for pair in pairs if not _equal(*pair[1:])))


def _leaves(one: Any, two: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The values of two JSON trees that stand in the same place; None where one tree has none."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in one | two:
            yield from _leaves(one.get(key), two.get(key), f"{place}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, pair in enumerate(zip(one, two, strict=True)):
            yield from _leaves(*pair, f"{place}.{number}")
    else:
        yield place, one, two


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, int) and isinstance(two, int):  # of any size
        return one == two
    if isinstance(one, int | float) and isinstance(two, int | float):
        return math.isclose(float(one), float(two), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == two)


def _difference(place: str, recorded: Any, computed: Any) -> str:
    return f"{place}: recorded {json.dumps(recorded)[:80]}, computed {json.dumps(computed)[:80]}"
