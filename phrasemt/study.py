"""Reading a study file, and telling a user everything that is wrong with it at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from phrasemt.config import Study
from phrasemt.errors import StudyError


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that refuses a key given twice; PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is given twice, first in line {seen[key]}",
                    problem_mark=key_node.start_mark,
                )
            seen[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)


def load_study(path: Path | str) -> Study:
    """Read and check a study file.

    Raises StudyError with every mistake of the file: its path in the study, what was found, what is allowed, and the
    nearest name.
    """
    try:
        raw = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except FileNotFoundError:
        raise StudyError(path, ["no such file; `ls studies` shows those that come with phrasemt"]) from None
    except UnicodeDecodeError as error:
        raise StudyError(path, [f"not UTF-8: {error}"]) from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise StudyError(path, [f"not YAML: {line}{error.problem}"]) from None
    if not isinstance(raw, dict):
        raise StudyError(path, ["empty, or not a mapping of keys to values"])
    try:
        return Study.model_validate(raw)
    except ValidationError as error:
        raise StudyError(path, list(dict.fromkeys(_problems(error)))) from None


def study_schema() -> str:
    """The JSON schema of a study file, for editors and for `workflow/schemas/study.schema.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _problems(error: ValidationError) -> Iterator[str]:
    for item in error.errors():
        parts = [str(part) for part in item["loc"] if not _is_union_tag(part)]
        where = ".".join(parts) or "study"
        found = json.dumps(item["input"], default=str)
        found = found if len(found) <= 60 else found[:57] + "..."
        context = item.get("ctx", {})
        match item["type"]:
            case "extra_forbidden":
                allowed = _keys_beside(item["loc"])
                yield f"{where}: unknown key{_nearest(parts[-1], allowed)}; allowed: {', '.join(allowed)}"
            case "missing":
                yield f"{where}: missing"
            case "literal_error":
                allowed = re.findall(r"'([^']*)'", context["expected"])
                yield f"{where}: found {found}, allowed: {', '.join(allowed)}{_nearest(str(item['input']), allowed)}"
            case "union_tag_invalid":
                allowed = re.findall(r"'([^']*)'", context["expected_tags"])
                nearest = _nearest(str(context["tag"]), allowed)
                yield f"{where}.family: found {context['tag']!r}, allowed: {', '.join(allowed)}{nearest}"
            case "union_tag_not_found":
                yield f"{where}.family: missing"
            case "value_error":
                for message in str(context["error"]).split("\n"):
                    yield message if where == "study" else f"{where}: {message}"
            case _:
                message = item["msg"][0].lower() + item["msg"][1:]
                yield f"{where}: found {found}, {message}"


# Tags of pydantic's unions stand in its locations but not in the user's file.
_UNION_TAGS = {"transformer", "phrase_representation", "registry", "files", "[key]"}


def _is_union_tag(part: int | str) -> bool:
    return part in _UNION_TAGS


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed where an unknown one was found, read off the section that the location leads to."""
    section: Any = Study
    for part in location[:-1]:
        section = _descend(section, part)
    return [key for candidate in _sections(section) for key in candidate.model_fields]


def _sections(annotation: Any) -> list[Any]:
    """The section classes in an annotation: itself, or the members of a union, without their Annotated wrappers."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [section for argument in getattr(annotation, "__args__", ()) for section in _sections(argument)]


def _descend(annotation: Any, part: int | str) -> Any:
    sections = _sections(annotation)
    if part in _UNION_TAGS:
        tagged = {"registry": "RegistryText", "files": "UserText"}
        for section in sections:
            family = section.model_fields.get("family")
            if section.__name__ == tagged.get(str(part)) or (family is not None and family.default == part):
                return section
    if len(sections) == 1 and part in sections[0].model_fields:
        return sections[0].model_fields[part].annotation
    return annotation  # a key of a dict or an index of a list: the annotation's only section is that of its items


def _nearest(name: str, allowed: list[str]) -> str:
    near = difflib.get_close_matches(name, allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
