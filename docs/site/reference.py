"""The pages of the reference, written from the schema of studies, declarations, docstrings and registries.

Each function of `PAGES` returns the lines of one page. `make site` writes them; none of them is in git.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from phrasemt.artefacts.artefact import Pattern
from phrasemt.stages import STAGES
from phrasemt.study.presets import PRESETS
from phrasemt.study.schema import Study

Content = Mapping[str, Any]
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": "&gt;", "maximum": "≤", "exclusiveMaximum": "&lt;"}


def _described(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return inspect.cleandoc(inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


# Keys of a study (json-schema-for-humans nests a page in itself; a study needs a table for each kind of section)


def study() -> Iterator[str]:
    """Every key of a study."""
    schema = Study.model_json_schema()
    yield """# Keys of a study

Written from the classes of `phrasemt/study/`. A key without a default is required. A description names the unit where
there is one. `docs/reruns.md` says what a change runs again."""
    for name, places in _places(schema).items():
        section = schema if name == "Study" else schema["$defs"][name]
        yield f"\n## {name}\n"
        yield _cell(section.get("description", "").split("\n\n")[0])
        yield "\n" + (", ".join(f"`{place}`" for place in places) or "The top level of the file") + ".\n"
        yield "| key | type | default | allowed | meaning |\n|---|---|---|---|---|"
        for key, value in section["properties"].items():
            default = "" if key in section.get("required", ()) else "its defaults"
            if default and "default" in value:
                default = _cell(f"`{json.dumps(value['default'], ensure_ascii=False)}`")
            allowed = ", ".join(_allowed(value))
            yield f"| `{key}` | {_type(value)} | {default} | {allowed} | {_cell(value.get('description', ''))} |"


def _parts(value: Content) -> list[Content]:
    """The alternatives of a value."""
    return list(value.get("anyOf") or value.get("oneOf") or [value])


def _name(reference: Content) -> str:
    return str(reference["$ref"]).rsplit("/", 1)[-1]


def _of_names(value: Content) -> Content:
    """The values of a section whose keys are names; nothing for another value."""
    further = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
    return next((one for one in further if isinstance(one, dict)), {})


def _type(value: Content) -> str:
    names = []
    for part in _parts(value):
        if "$ref" in part:
            names.append(f"[{_name(part)}](#{_name(part).lower()})")
        elif part.get("type") == "array":
            names.append(f"list of {_type(part.get('items', {}))}")
        elif named := _of_names(part):
            names.append(f"by name: {_type(named)}")
        else:
            names.append(_type(part) if part is not value and len(_parts(part)) > 1 else part.get("type", "string"))
    return " or ".join(dict.fromkeys(names))


def _allowed(value: Content) -> Iterator[str]:
    for part in _parts(value):
        yield from (f"`{one}`" for one in [*part.get("enum", ()), *([part["const"]] if "const" in part else [])])
        if bounds := [f"{sign} {part[name]:,}" for name, sign in _BOUNDS.items() if name in part]:
            yield " and ".join(bounds)


def _places(schema: Content) -> dict[str, list[str]]:
    """The places of each section in a study, sections in the order in which a reader meets them."""
    found: dict[str, list[str]] = {"Study": []}
    waiting: list[tuple[Content, str]] = [(schema, "")]
    while waiting:
        section, place = waiting.pop(0)
        for key, value in section["properties"].items():
            for name, below in _sections(value, f"{place}.{key}" if place else key):
                if below not in found.setdefault(name, []):
                    found[name].append(below)
                    waiting.append((schema["$defs"][name], below))
    return found


def _sections(value: Content, place: str) -> Iterator[tuple[str, str]]:
    for part in _parts(value):
        if "$ref" in part:
            yield _name(part), place
        elif part.get("type") == "array":
            yield from _sections(part.get("items", {}), f"{place}[]")
        elif named := _of_names(part):
            yield from _sections(named, f"{place}.<name>")
        elif part is not value:
            yield from _sections(part, place)


def presets() -> Iterator[str]:
    """The systems of the papers that a study calls by name."""
    yield """# Presets

The systems of the papers, by name, from `phrasemt/study/presets.py`. `preset: NAME` in a system of a
study stands for these values; values of the study replace them, and keys that are not here have the defaults of the
[study](study.md). `docs/parameters.md` has their numbers of parameters."""
    for name, values in PRESETS.items():
        yield f"\n## {name}\n"
        yield f"```yaml\n{yaml.safe_dump(dict(values), sort_keys=False).rstrip()}\n```"


def stages() -> Iterator[str]:
    """The stages with the files that they read and write."""
    yield """# Stages

Written from the declarations of the stages and the kinds of files in `phrasemt/artefacts/paths.py`. Inputs are named as
in the rule of the stage. Paths of outputs are below `results/<study>/<dataset>.<source>-<target>/`, unless they begin
with `resources/` or `results/`. A star marks a list of files, which may be empty.

| stage | what it does | reads | writes |
|---|---|---|---|"""
    for name, stage in STAGES.items():
        outputs = "<br>".join(dict.fromkeys(f"`{_place(kind)}`" for kind in stage.outputs.values()))
        inputs = ", ".join(f"{file}{'*' if many else ''}" for file, many in stage.inputs.items())
        yield f"| `{name}` | {_cell(_described(stage))} | {inputs} | {outputs} |"


def _place(kind: Pattern) -> str:
    place = kind.replace("results/{study}/{dataset}.{source}-{target}/", "")
    return place.replace("{", "<").replace("}", ">")


PAGES: dict[str, Callable[[], Iterator[str]]] = {"study": study, "presets": presets, "stages": stages}
