"""Whether the results of a study were made with the settings that it has now.

The sidecars of the results, and of all artefacts that they were made of, say with which settings and from which files
each was made. They are compared with what the study gives the same stages now, without Snakemake and without reading
any artefact. A text of the user is digested if it is newer than what was made of it. `phrasemt plan` also finds changed
code and edited artefacts.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar, sidecar_path
from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.files.system import digest_file
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study
from phrasemt.workflow.flow import Flow
from phrasemt.workflow.inputs import FILES

_MOST_NAMED = 3  # changes in a message


@dataclass
class Changes:
    """settings: what has changed, each with the first artefact that was made otherwise. jobs: that would run again.

    edited: the user's texts that are other files now.
    """

    study: str
    settings: dict[str, str] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    jobs: int = 0

    @property
    def line(self) -> str | None:
        return f"{self._what}; `phrasemt plan STUDY` says what runs again" if self.jobs else None

    @property
    def _what(self) -> str:
        if self.edited:
            more = f" and {len(self.edited) - 1} more" if len(self.edited) > 1 else ""
            return f"{self.edited[0]}{more} was edited since these results were made"
        if not self.settings:
            return "some of these results are of files that were made again since"
        return f"{_counted(len(self.settings), 'setting has', 'settings have')} changed since these results were made"

    def refuse(self) -> None:
        """Raise MismatchError if the results were made with other settings."""
        if not self.jobs:
            return
        named = [f"{what} ({where})" for what, where in self.settings.items()]
        if len(named) > _MOST_NAMED:
            named[_MOST_NAMED:] = [f"and {len(named) - _MOST_NAMED} more"]
        raise MismatchError(
            f"{self._what}, and {_counted(self.jobs, 'job', 'jobs')} would run again",
            where=f"study {self.study}",
            found="; ".join(named) or None,
            next_step="run the study (`phrasemt plan STUDY` says what runs), or take the change back",
        )


def _is_edited(path: str, digest: str, job: _Job, thorough: bool) -> bool:
    """Whether a file that no stage wrote is there and is not the one that the job read."""
    with contextlib.suppress(FileNotFoundError):
        text = Path(path).stat()
        if thorough or text.st_mtime > sidecar_path(job.path).stat().st_mtime:
            return _digest(path, text.st_ino, text.st_ctime_ns) != digest
    return False


@functools.cache
def _digest(path: str, inode: int, changed: int) -> str:
    """The sha256 of a text, computed once for each change: several jobs read it, and `status --watch` looks often."""
    return digest_file(path)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def changes_since(study: Study, *, thorough: bool = False) -> Changes:
    """What has changed since the results of a study were made: its table and report, and the scores and weights.

    thorough: as in `changes_among`.
    """
    paths = Paths(study.study)
    results = [paths.table, paths.report]
    for name in study.datasets:
        own = Paths.of(study, name)
        for system in study.systems:
            for seed in study.seeds_of(system):
                names = {"system": system, "seed": seed}
                results += [kind.at(**names) for kind in (own.system_scores, own.weights, own.perplexity_scores)]
    return changes_among(study, {path: sidecar_path(path) for path in results}, thorough=thorough)


def changes_among(study: Study, sidecars: Mapping[str, Path], *, thorough: bool = False) -> Changes:
    """What has changed since these results, and all that they were made of, were made.

    sidecars: of the results, by their paths. thorough: digest all texts of the user, also those that are not newer than
    what was made of them.
    """
    found = dict[str, _Job]()  # by the text of the sidecar, which the outputs of a job have in common
    job_of = dict[str, _Job]()  # of each file
    waiting = dict(sidecars)
    while waiting:
        path, place = waiting.popitem()
        if (text := _text(place)) is None:
            continue
        if text not in found:
            found[text] = _Job(path, Sidecar.read(place))
            new = (read for read, _ in found[text].read if read not in job_of)
            waiting |= {read: sidecar_path(read) for read in new}
        job_of[path] = found[text]
    changes, readers = Changes(study.study), defaultdict[int, list[_Job]](list)
    stale, by_key = list[_Job](), dict[str, tuple[str, str]]()
    for job in found.values():
        known = [(path, digest, job_of[path]) for path, digest in job.read if path in job_of]
        differing = list(_changes_of(study, job))
        edited = [path for path, digest in job.read if path not in job_of and _is_edited(path, digest, job, thorough)]
        changes.edited += [path for path in edited if path not in changes.edited]
        by_key |= {without_place(what): (what, job.path) for what in differing}  # what was made earlier is found later
        if differing or edited or any(digest not in maker.digests_of(path) for path, digest, maker in known):
            stale.append(job)
        for _, _, maker in known:
            readers[id(maker)].append(job)
    changes.settings = dict(by_key.values())
    seen = {id(job) for job in stale}
    while stale:
        changes.jobs += 1
        new_jobs = {id(job): job for job in readers[id(stale.pop())] if id(job) not in seen}
        seen |= new_jobs.keys()
        stale += new_jobs.values()
    return changes


@dataclass(frozen=True)
class _Job:
    """A job that was done. path: of one of its outputs."""

    path: str
    sidecar: Sidecar

    @property
    def read(self) -> list[tuple[str, str]]:
        return [(file.path, file.sha256) for file in self.sidecar.files_read]

    def digests_of(self, path: str) -> set[str]:
        """The sha256 of an output. Folders may have been moved, so only the name counts."""
        outputs = self.sidecar.outputs.values()
        return {file.sha256 for file in outputs if Path(file.path).name == Path(path).name}


def without_place(what: str) -> str:
    """A difference without the place of the key: stages have one setting of the study at different places."""
    place, colon, values = what.partition(": ")
    return place.rpartition(".")[2] + values if colon else what


def _text(sidecar: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sidecar.read_text(encoding="utf-8")
    return None


def _changes_of(study: Study, job: _Job) -> Iterator[str]:
    """How the job of the study differs from the one that was done."""
    sidecar, path = job.sidecar, Path(job.path)
    role = next((role for role, file in sidecar.outputs.items() if Path(file.path).name == path.name), "")
    try:
        names = STAGES[sidecar.stage].outputs[role].names(path)
    except (KeyError, ValueError):
        yield f"{sidecar.stage}: not a job of the study"
        return
    if names.get("study", study.study) != study.study:  # another study, which `init_from` names
        return
    known = Flow(study).wildcards
    if gone := [name for name in names if not re.fullmatch(known.get(name, ".*"), names[name])]:
        yield f"{gone[0]} {names[gone[0]]}: no longer in the study"
        return
    try:
        settings = STAGES[sidecar.stage].from_study(study, names).model_dump(mode="json")
        files = FILES.get(sidecar.stage, {}) if "study" in names else {}
        now = {name: files_of(study, SimpleNamespace(**names)) for name, files_of in files.items()}
    except (PhrasemtError, KeyError, AttributeError, AssertionError, ValueError):
        yield f"{sidecar.stage}: not a job of the study"
        return
    yield from differences(sidecar.settings, settings)
    yield from differences({name: [file.path for file in sidecar.inputs.get(name, [])] for name in now}, now)


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """The values that differ, with their place: model.dropout: 0.1 -> 0.2."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                yield f"{place}{key}: {short(old.get(key, '-'))} -> {short(new.get(key, '-'))}"
            else:
                yield from differences(old[key], new[key], f"{place}{key}.")
    elif isinstance(old, list) and isinstance(new, list):
        removed, added = [one for one in old if one not in new], [one for one in new if one not in old]
        if changes := [*(f"-{short(one)}" for one in removed), *(f"+{short(one)}" for one in added)]:
            yield f"{place[:-1]}: {' '.join(changes)}"
    elif old != new:
        yield f"{place[:-1]}: {short(old)} -> {short(new)}"


def short(value: Any) -> str:
    """A value for a message, of at most 60 characters."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = "/".join(value)  # a test set with its data set, a system with its title
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
