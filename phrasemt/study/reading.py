"""Study files: reading, and a report of all mistakes at once."""

from __future__ import annotations

import difflib
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Tag, ValidationError

from phrasemt.errors import StudyError
from phrasemt.fields import Settings, sections
from phrasemt.files.yaml import parse_yaml
from phrasemt.study.architectures import own_settings
from phrasemt.study.schema import Study


def load_study(path: Path | str) -> Study:
    """Read and check a study file.

    Raises StudyError with all mistakes of the file: the key, the value, the allowed values, and the nearest name.
    """
    try:
        raw = parse_yaml(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(path, ["no such file; `ls studies` lists the studies that come with phrasemt"]) from None
    except OSError as error:
        raise StudyError(path, [f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise StudyError(path, [f"not UTF-8: {error}"]) from None
    except ValueError as error:
        raise StudyError(path, [f"cannot be read as YAML: {error}"]) from None
    if not isinstance(raw, dict):
        raise StudyError(path, ["empty, or not a mapping of keys to values"])
    try:
        return Study.model_validate(raw)
    except ValidationError as error:
        raise StudyError(path, list(dict.fromkeys(_problems(error)))) from None


def study_schema() -> str:
    """The JSON schema of study files, for editors and for `workflow/schemas/study.schema.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}
    # In a system with a preset the model, or its family, may be missing.
    system = schema["$defs"]["System"]
    model = system["properties"]["model"]
    system["properties"]["model"] = {"type": "object", "description": model["description"]}
    system["required"].remove("model")
    # A monolingual data set has one language.
    dataset = schema["$defs"]["Dataset"]
    sides = ["source_language", "target_language"]
    dataset["required"] = [key for key in dataset["required"] if key not in sides]
    dataset["if"], dataset["else"] = {"required": ["language"]}, {"required": sides}
    system["if"] = {"required": ["preset"]}
    system["else"] = {"required": ["model"], "properties": {"model": model}}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


# The keys that select a class of a union: the family of a model, the name of an optimiser.
UNION_KEYS = ("family", "name")


def _problems(error: ValidationError) -> Iterator[str]:
    for item in error.errors():
        parts, around = _place(item["loc"])
        where = ".".join(parts) or "study"
        found = json.dumps(item["input"], default=str)
        found = found if len(found) <= 60 else found[:57] + "..."
        context = item.get("ctx", {})
        match item["type"]:
            case "extra_forbidden":
                allowed = [key for section in around for key in section.model_fields]
                yield f"{where}: unknown key{_nearest(parts[-1], allowed)}; allowed: {', '.join(allowed)}"
            case "missing":
                yield f"{where}: missing"
            case "literal_error":
                allowed = [value.strip("'") for value in re.split(r", | or ", context["expected"])]
                yield f"{where}: found {found}, allowed: {', '.join(allowed)}{_nearest(str(item['input']), allowed)}"
            case "union_tag_invalid":
                allowed = re.findall(r"'([^']*)'", context["expected_tags"])
                nearest = _nearest(str(context["tag"]), allowed)
                key = next((key for key in UNION_KEYS if key in context["discriminator"]), "name")
                yield f"{where}.{key}: found {context['tag']!r}, allowed: {', '.join(allowed)}{nearest}"
            case "union_tag_not_found":
                yield f"{where}.family: missing"
            case "value_error":
                for message in str(context["error"]).split("\n"):
                    yield message if where == "study" else f"{where}: {message}"
            case _:
                message = item["msg"][0].lower() + item["msg"][1:]
                yield f"{where}: found {found}, {message}"


def _place(location: tuple[int | str, ...]) -> tuple[list[str], list[type[Settings]]]:
    """The keys that lead to a mistake in the file, and the section classes that may contain it.

    pydantic's locations also hold the tags of unions, which are not keys of the file. The types tell such a tag from a
    system or a test set with the same name.
    """
    names: list[str] = []
    annotation: Any = Study
    around: list[type[Settings]] = []
    for part in location:
        if typing.get_origin(annotation) is Annotated:
            annotation = typing.get_args(annotation)[0]
        around = sections(annotation)
        if typing.get_origin(annotation) in (dict, list):
            annotation = typing.get_args(annotation)[-1]
        elif (tagged := _tagged(annotation, part)) is not None:
            annotation = tagged
            continue
        elif around and part in around[0].model_fields:
            annotation = around[0].model_fields[str(part)].annotation
        elif part == "[key]":
            continue
        names.append(str(part))
    return names, around


def _tagged(annotation: Any, tag: object) -> Any:
    """The member of a union with this tag: one that has it as `Tag`, or a model of this family; else None."""
    members = typing.get_args(annotation)
    for member in members:
        if Tag(str(tag)) in getattr(member, "__metadata__", ()):
            return typing.get_args(member)[0]
        family = getattr(member, "model_fields", {}).get("family")
        if len(members) > 1 and family is not None and tag in typing.get_args(family.annotation):
            return member
    return own_settings(tag) if len(members) > 1 else None


def _nearest(name: str, allowed: list[str]) -> str:
    near = difflib.get_close_matches(name, allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
