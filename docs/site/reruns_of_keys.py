"""Which stages a change of each key of a study runs again, found by changing the key in the studies of studies/.

A job runs again when its settings come out different, or when it has other inputs or outputs; what reads its outputs
follows. So the stages that are named are those of jobs that no other changed job comes before. The settings of all jobs
take milliseconds. Snakemake plans only for keys that the rules read, because no other key chooses files; and where jobs
change their names.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from pydantic import ValidationError

from phrasemt.errors import PhrasemtError
from phrasemt.fields import Settings
from phrasemt.files.yaml import parse_yaml
from phrasemt.runs.journal import stages_of
from phrasemt.runs.plan import plan_of
from phrasemt.stages import STAGES
from phrasemt.study import schema
from phrasemt.study.schema import Study
from phrasemt.workflow import check, flow, paths
from phrasemt.workflow.flow import Flow
from phrasemt.workflow.model_folder import PLACES

Place = tuple[str | int, ...]  # keys from the top of the study
JobName = tuple[str, tuple[tuple[str, str], ...]]  # rule and wildcards

_STUDIES = Path(__file__).with_name("studies")
_IN_ORDER = ("systems", "texts", "languages")
# Code in which rules read a key: their own, or properties of a study that they ask for.
_OF_RULES = (flow.__file__, paths.__file__)
_BETWEEN = (str(Path(schema.__file__).parent), __file__)
_PLACES = 2  # of each kind, at which a change has an effect
_MOST_PLACES = 8  # of each kind, at which changes are tried
_MOST_VALUES = 12  # of a key, which are tried at each place until one has an effect
# Files of a kind that the repository does not have, for which empty ones stand. Those of exported models follow.
_INVENTED = Path("build/site/invented")
_SPLITS = ("train", "dev", "test")
_FILES = [
    "weights.safetensors",
    *(f"{folder}/demo/{split}.txt" for folder in ("phrases", "others") for split in _SPLITS),
]


@dataclass(frozen=True)
class _Job:
    """A job as a study has it. after: the jobs whose outputs it reads."""

    settings: str | None  # None: the study has no such job
    files: tuple[tuple[str, ...], tuple[str, ...]]  # inputs and outputs
    after: tuple[JobName, ...]


Jobs = Mapping[JobName, _Job]


class Changes:
    """Compares changed studies with those of studies/."""

    def __init__(self) -> None:
        for name in (*_FILES, *(f"model/{place}" for place in PLACES.values())):
            path = _INVENTED / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        with _keys_that_rules_read() as read:
            self._studies = [_ChangedStudy(parse_yaml((_STUDIES / f"{name}.yaml").read_text())) for name in _IN_ORDER]
        self._read_by_rules = frozenset(read)

    def of_key(self, section: str, key: str, of_key: Mapping[str, Any]) -> list[str] | None:
        """The stages that a change of a key of a section's class runs again; None where no change is allowed.

        of_key: its schema.
        """
        given = [value for study in self._studies for value in study.values(key)]
        names = [name for study in self._studies for name in study.names]
        values = [*given, *_others(of_key), *names]
        chooses_files = any(name == key and section in classes for classes, name in self._read_by_rules)
        found: dict[Place, set[str]] = {}
        for kind, places in self._places(section, key).items():
            effects: list[set[str]] = []
            for study, place in places[:_MOST_PLACES]:
                stages = study.after(place, values, chooses_files=chooses_files)
                if stages is not None:
                    effects.append(stages)
                    found.setdefault(kind, set()).update(stages)
                if len(list(filter(None, effects))) == _PLACES:
                    break
        if not found:  # no change of this key alone is allowed: the settings tell, but not which files it chooses
            for kind, places in self._places(section, key).items():
                after = [
                    study.settings_after(place, [*_others(of_key), *values]) for study, place in places[:_MOST_PLACES]
                ]
                again: set[str] = set().union(*after)
                if again or not chooses_files:
                    found[kind] = again
        return [stage for stage in STAGES if any(stage in stages for stages in found.values())] if found else None

    def _places(self, section: str, key: str) -> dict[Place, list[tuple[_ChangedStudy, Place]]]:
        """The places of a key in sections of a class, by kind of place; those with different values first."""
        found: dict[Place, list[tuple[str, _ChangedStudy, Place]]] = {}
        for study in self._studies:
            for place, kind, value in study.places(section, key):
                found.setdefault(kind, []).append((repr(value), study, place))
        ordered = {}
        for kind, places in found.items():
            of_texts = kind[0] in ("datasets", "parsers", "chunkers")
            places.sort(key=lambda one: one[1].is_about_texts != of_texts)  # stable
            first = list({value: (study, place) for value, study, place in reversed(places)}.values())
            rest = [(study, place) for _, study, place in places if (study, place) not in first]
            ordered[kind] = [*reversed(first), *rest]
        return ordered


class _ChangedStudy:
    """A study, its sections, and its jobs. is_about_texts: it has the sections of texts, annotators and languages."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.is_about_texts = values["study"] != "systems"
        self._values = values
        self._study = Study.model_validate(values)
        self._sections = list(_sections(self._study))
        self._jobs = _planned(values)
        self._wildcards = Flow(self._study).wildcards
        self.names = [*self._study.systems, *self._study.annotators, *self._study.datasets]

    def places(self, section: str, key: str) -> Iterator[tuple[Place, Place, Any]]:
        """The places of a key in sections of a class, with their kinds and values."""
        for place, kind, one in self._sections:
            if type(one).__name__ == section:
                yield (*place, key), (*kind, key), getattr(one, key)

    def values(self, key: str) -> Iterator[Any]:
        """The values that sections have for a key."""
        for _, _, section in self._sections:
            if key in type(section).model_fields:
                yield section.model_dump(mode="json")[key]

    def after(self, place: Place, values: Sequence[Any], *, chooses_files: bool) -> set[str] | None:
        """The stages that run again with other values at a place; None where none is allowed."""
        found: set[str] | None = None
        now = _at(self._study, place)
        for value in _distinct([now, *_near(now), *values])[1 : _MOST_VALUES + 1]:
            stages = self._after(place, value, chooses_files=chooses_files)
            if stages:
                return stages
            found = stages if found is None else found
        return found

    def _after(self, place: Place, value: Any, *, chooses_files: bool) -> set[str] | None:
        changed = _with(self._values, place, value)
        with contextlib.suppress(ValidationError, PhrasemtError, TypeError):
            study = Study.model_validate(changed)
            if study == self._study:
                return None
            named_otherwise = Flow(study).wildcards != self._wildcards
            jobs = _planned(changed) if chooses_files or named_otherwise else _with_settings_of(study, self._jobs)
            return _first_of(self._jobs, jobs)
        return None

    def settings_after(self, place: Place, values: Sequence[Any]) -> set[str]:
        """The stages with other settings when a study has another value, which does not fit the rest of it."""
        _, value, *_ = _distinct([_at(self._study, place), *values])
        return _first_of(self._jobs, _with_settings_of(_unchecked(self._study, place, value), self._jobs))


@contextlib.contextmanager
def _keys_that_rules_read() -> Iterator[set[tuple[tuple[str, ...], str]]]:
    """Collects the keys that the rules read meanwhile, with the classes of their sections."""
    found: set[tuple[tuple[str, ...], str]] = set()

    def read(section: Settings, name: str) -> Any:
        if name in type(section).model_fields:
            frame = sys._getframe(1)
            while frame.f_back and frame.f_code.co_filename.startswith(_BETWEEN):
                frame = frame.f_back
            if frame.f_code.co_filename in _OF_RULES:
                found.add((tuple(one.__name__ for one in type(section).__mro__), name))
        return object.__getattribute__(section, name)

    with mock.patch.object(Settings, "__getattribute__", read, create=True):
        yield found


def _at(study: Study, place: Place) -> Any:
    at: Any = study
    for step in place:
        at = getattr(at, str(step)) if isinstance(at, Settings) else at[step]
    at = at.model_dump(mode="json") if isinstance(at, Settings) else at
    return json.loads(json.dumps(at, default=str))  # as in a file: a path is text


def _unchecked(section: Any, place: Place, value: Any) -> Any:
    """A copy of a section with another value at a place, whether it is allowed or not."""
    if not place:
        return value
    step, below = place[0], place[1:]
    if isinstance(section, Settings):
        return section.model_copy(update={str(step): _unchecked(getattr(section, str(step)), below, value)})
    changed = _unchecked(section[step], below, value)
    if isinstance(section, Mapping):
        return {**section, step: changed}
    return [changed if number == step else one for number, one in enumerate(section)]


def _sections(value: Any, place: Place = (), kind: Place = ()) -> Iterator[tuple[Place, Place, Settings]]:
    """All sections of a study with their places, and with their kinds of place: without names and numbers."""
    if isinstance(value, Settings):
        yield place, kind, value
        for key in type(value).model_fields:
            yield from _sections(getattr(value, key), (*place, key), (*kind, key))
    elif isinstance(value, Mapping | list):
        for step, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _sections(one, (*place, step), kind)


def _with(study: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy of the study with another value at a place."""
    changed = copy.deepcopy(study)
    at: Any = changed
    for step in place[:-1]:
        if isinstance(step, str) and at.get(step) is None:
            at[step] = {}
        at = at[step]
    at[place[-1]] = value
    return changed


def _others(of_key: Mapping[str, Any]) -> Iterator[Any]:
    """Values that the schema of a key allows, whatever its present value is."""
    for part in [of_key, *of_key.get("anyOf", ()), *of_key.get("oneOf", ())]:
        yield from part.get("enum", ())
        match part.get("type"):
            case "boolean":
                yield from (True, False)
            case "integer":
                yield from (1, 2, 3)
            case "number":
                yield from (0.25, 1.5)
            case "string":
                yield from ("CONTRIBUTING.md", "another", "fr")
            case "null":
                yield None


def _distinct(values: Sequence[Any]) -> list[Any]:
    """The values, each once; 1 and true are two."""
    return list({json.dumps(value, default=str): value for value in values}.values())


def _near(now: Any) -> Iterator[Any]:
    """Values near the present one."""
    match now:
        case bool() | None:
            return
        case int():
            yield from (2 * now, now + 1)
        case float():
            yield from (0.5 * now, now + 0.25)
        case list():
            yield from ([*now, one] for one in ("docs/testing.md", 2, 4))
            yield now[:-1]
        case dict():
            yield dict.fromkeys(now, "docs/testing.md")


def _no_problems(study: Study) -> list[str]:
    del study
    return []


def _planned(values: dict[str, Any]) -> Jobs:
    """The jobs that Snakemake plans. Raises PhrasemtError for a study that a check refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(json.dumps(values))
        # Invented files have no contents that a check could read.
        with mock.patch.multiple(check, _missing_files=_no_problems, _subword_problems=_no_problems):
            dag = plan_of(path).workflow.dag
    names = {job: (job.rule.name, tuple(sorted(job.wildcards.items()))) for job in stages_of(dag)}
    jobs = {
        name: _Job(
            settings=None,
            files=(tuple(map(str, job.input)), tuple(map(str, job.output))),
            after=tuple(names[other] for other in dag.dependencies[job] if other in names),
        )
        for job, name in names.items()
    }
    return _with_settings_of(Study.model_validate(values), jobs)


def _with_settings_of(study: Study, jobs: Jobs) -> Jobs:
    """The same jobs with their settings in a study."""
    of_study = Flow(study)
    found = {}
    for name, job in jobs.items():
        settings = None
        with contextlib.suppress(AssertionError, AttributeError, KeyError, StopIteration, ValueError):
            settings = of_study.settings(name[0], dict(name[1])).canonical_json()
        found[name] = _Job(settings=settings, files=job.files, after=job.after)
    return found


def _first_of(before: Jobs, now: Jobs) -> set[str]:
    """The stages of jobs that differ, or are new, and that come after no other such job."""
    again: set[JobName] = {
        name
        for name, job in now.items()
        if (then := before.get(name)) is None or (job.settings, job.files) != (then.settings, then.files)
    }
    follow: set[JobName] = set()
    for name, job in now.items():  # each after those that it waits for
        if any(other in again or other in follow for other in job.after):
            follow.add(name)
    return {name[0] for name in again - follow}
