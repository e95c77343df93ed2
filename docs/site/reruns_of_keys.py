"""Which stages each key of a study runs again, found by changing the key in a study that uses every section.

A stage runs again when its settings come out different, or when it has other inputs or outputs; what reads its outputs
follows. A change of settings is looked for first, in this process. Only for keys that change none, Snakemake plans.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from phrasemt.errors import PhrasemtError
from phrasemt.fields import Settings
from phrasemt.files.yaml import parse_yaml
from phrasemt.runs.plan import plan_of
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.flow import Flow

Place = tuple[str | int, ...]  # keys from the top of the study
Key = tuple[str, str]  # the class of a section, and a key of it
JobName = tuple[str, tuple[tuple[str, str], ...]]  # rule and wildcards

_RULEGRAPH = Path("docs/rulegraph.yaml")
# Sections that the study of the picture of the rules has no use for. Files are any that are there.
_FILE = "README.md"
_MORE: dict[str, Any] = {
    "datasets": {
        "read_by_others": {
            "source_language": "en",
            "target_language": "de",
            "splits": {
                "train": [{"source": "docs/moses.md", "target": "docs/syntax.md"}],
                "dev": {"sample": 9},
                "test": {"t": [{"source": "docs/testing.md", "target": "docs/equations.md"}]},
            },
            "source_parser": "of_files",
            "target_chunks": {"origin": "chunker", "chunker": "own"},
        }
    },
    "systems": {
        "relative": {"model": {"family": "transformer", "attention": "relative"}},
        "ngrams": {"model": {"family": "transformer", "attention": "ngrams"}},
        "dl4mt": {"model": {"family": "dl4mt"}, "training": {"optimizer": {"name": "adadelta"}}},
        "sampled": {"weights_of": ["relative"], "decoding": {"sampling": {"top_k": 5}}},
        "untuned": {"model": {"family": "moses"}, "tuning": None},
    },
    "parsers": {"of_files": {"language": "en", "files": {"constituency": _FILE, "tagger": _FILE, "vectors": _FILE}}},
    "chunkers": {"own": {"language": "de", "files": {"chunker": _FILE, "vectors": _FILE}}},
}

_PLACES = 3  # of a section in that study, at which a change is tried


def _everything() -> dict[str, Any]:
    study: dict[str, Any] = parse_yaml(_RULEGRAPH.read_text())
    for section, more in _MORE.items():
        study[section] |= more
    study["systems"]["other"]["translations"]["read_by_others.t"] = "pyproject.toml"
    return study


def sections_of(value: Any, place: Place = ()) -> Iterator[tuple[Place, Settings]]:
    """All sections of a study with their places."""
    if isinstance(value, Settings):
        yield place, value
        for key in type(value).model_fields:
            yield from sections_of(getattr(value, key), (*place, key))
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from sections_of(one, (*place, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from sections_of(one, (*place, number))


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


def _others(schema: Mapping[str, Any], now: Any) -> Iterator[Any]:
    """Values that the schema of a key may allow beside its present one, the likeliest ones first."""
    for part in [schema, *schema.get("anyOf", ())]:
        yield from (value for value in part.get("enum", ()) if value != now)
        match part.get("type"):
            case "boolean":
                yield not now
            case "integer":
                yield from (value for value in (2 * (now or 0), (now or 0) + 1, (now or 0) - 1, 1, 2) if value != now)
            case "number":
                yield from (value for value in (0.5 * (now or 0), (now or 0) + 0.25, 0.25, 1.5) if value != now)
            case "string":
                yield from (value for value in ("CONTRIBUTING.md", "another", "fr") if value != now)
            case "array":
                yield from ([], [1], [10, 20], ["CONTRIBUTING.md"], [1, 2], list(now or [])[:-1])
    if now is not None:
        yield None


class Changes:
    """Compares changed studies with the one that uses every section."""

    def __init__(self) -> None:
        self._raw = _everything()
        self._study = Study.model_validate(self._raw)
        self._jobs = self._planned(self._raw)
        self._before = dict(self._settings(self._study, self._jobs))
        self._places: dict[str, list[Place]] = {}
        for place, section in sections_of(self._study):
            self._places.setdefault(type(section).__name__, []).append(place)

    def of_key(self, key: Key, schema: Mapping[str, Any]) -> list[str] | None:
        """The stages that a change of the key runs again; None where no allowed change is found. schema: of the key."""
        section, name = key
        planned: list[str] | None = None
        for place in self._places.get(section, [])[:_PLACES]:
            changes = list(self._allowed_changes((*place, name), schema))
            for changed in changes:
                settings = dict(self._settings(Study.model_validate(changed), self._jobs))
                if stages := {job[0] for job in settings if settings[job] != self._before[job]}:
                    return sorted(stages)
            for changed in changes:
                with contextlib.suppress(PhrasemtError):  # refused by a check that looks beyond the study
                    planned = sorted(self._with_other_files(changed))
                    break
            if planned:
                break
        return planned

    def _allowed_changes(self, place: Place, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        now: Any = self._study
        for step in place:
            now = getattr(now, str(step)) if isinstance(now, Settings) else now[step]
        now = now.model_dump(mode="json") if isinstance(now, Settings) else now
        for value in _others(schema, now):
            changed = _with(self._raw, place, value)
            try:
                if Study.model_validate(changed) != self._study:
                    yield changed
            except (ValidationError, TypeError):
                continue

    @staticmethod
    def _settings(study: Study, jobs: Iterable[JobName]) -> Iterator[tuple[JobName, str]]:
        flow = Flow(study)
        for job in jobs:
            rule, wildcards = job
            try:
                yield job, flow.settings(rule, dict(wildcards)).canonical_json()
            except (
                AssertionError,
                AttributeError,
                KeyError,
                StopIteration,
                ValueError,
            ):  # the changed study has no such job
                yield job, ""

    def _with_other_files(self, changed: dict[str, Any]) -> set[str]:
        now = self._planned(changed)
        return {job[0] for job, files in now.items() if self._jobs.get(job) != files}

    @staticmethod
    def _planned(study: dict[str, Any]) -> dict[JobName, tuple[list[str], list[str]]]:
        """The jobs that Snakemake plans, with their inputs and outputs."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "study.yaml"
            path.write_text(json.dumps(study))
            load_study(path)
            dag = plan_of(path).workflow.dag
        return {
            (job.rule.name, tuple(sorted(job.wildcards.items()))): (
                list(map(str, job.input)),
                list(map(str, job.output)),
            )
            for job in dag.jobs
            if job.rule.name != "all"
        }
