"""Study files: reading, and a report of all mistakes at once."""

from __future__ import annotations

import json
import re
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Tag, ValidationError

from phrasemt.errors import StudyError, did_you_mean
from phrasemt.fields import PATTERNS, Settings, sections
from phrasemt.files.yaml import line_of_key, parse_yaml
from phrasemt.study.architectures import has_module, own_settings
from phrasemt.study.presets import RENAMED
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import code_of_language


def load_study(path: Path | str) -> Study:
    """Read and check a study file.

    Raises StudyError with all mistakes of the file: the key, the value, the allowed values, and the nearest name.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        raw = parse_yaml(text)
    except FileNotFoundError:
        raise StudyError(path, [f"no such file; {_next_step(Path(path))}"]) from None
    except OSError as error:
        raise StudyError(path, [f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise StudyError(path, [f"not UTF-8: {error}"]) from None
    except ValueError as error:
        raise StudyError(path, [f"cannot be read as YAML: {error}"]) from None
    return study_of(raw, path, text)


def _next_step(missing: Path) -> str:
    """What to do about a study file that is missing."""
    renamed = missing.with_name(missing.name.replace("phrasal2020", "nguyen2020"))
    if renamed != missing and renamed.is_file():
        return f"it is called {renamed} now"
    return "`ls studies` lists the studies that come with phrasemt"


def study_of(values: object, where: object, text: str = "") -> Study:
    """The study of the values of a file, which has this text, or of a configuration. Raises StudyError as above."""
    if not isinstance(values, dict):
        raise StudyError(where, ["empty, or not a mapping of keys to values"])
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        raise StudyError(where, _told_once(_problems(error), text)) from None


def _told_once(problems: Iterable[tuple[str, str]], text: str) -> list[str]:
    """Messages of problems, each a place and what is wrong there. What is wrong alike in several systems is told once.

    Most such mistakes are one mistake, below an anchor of YAML, so the message has the line of the file.
    """
    alike = defaultdict[tuple[str, ...], list[str]](list)
    for place, what in problems:
        section, _, below = place.partition(".")
        name, _, rest = below.partition(".")
        alike[(section, rest, what) if rest else (place, "", what)].append(name if rest else place)
    messages = []
    for (section, rest, what), names in alike.items():
        place = f"{section}.{names[0]}.{rest}" if rest else section
        line = line_of_key(text, place.split(".")) if len(set(names)) > 1 else None
        also = f" (line {line}, also of {', '.join(dict.fromkeys(names[1:]))})" if line else ""
        messages.append(f"{place}: {what}{also}" if place else what)
    return messages


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


# What pydantic's errors about types call a value of the right type; in other messages it "should be" something.
_EXPECTED = {
    "path_type": "a path",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping of keys to values"),
    "list_type": "a list",
    "string_type": "text",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} value",
    "too_long": "at most {max_length} values",
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
}


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


# What does here what keys of other programs do, in the section that has the first word.
_OF_OTHER_PROGRAMS = {
    **dict.fromkeys(("src", "source_file"), "source"),
    **dict.fromkeys(("tgt", "trg", "target_file"), "target"),
    **dict.fromkeys(("batch_size", "batch_tokens", "max_tokens"), "tokens_per_update"),
    **dict.fromkeys(("epochs", "max_epochs", "max_steps", "train_steps"), "max_updates"),
    **dict.fromkeys(("lr", "learning_rate"), "optimizer: {factor, warmup}"),
    **dict.fromkeys(("fp16", "bf16", "amp"), "precision: bfloat16"),
}
_GPUS = ("gpu", "gpus", "num_gpus", "devices", "world_size")


def _here(key: str, allowed: Sequence[str]) -> str:
    """A hint for a key that another program has; or nothing."""
    if key in _GPUS:
        return "; `processes` of a profile says how many GPUs a training has (docs/clusters.md)"
    ours = _OF_OTHER_PROGRAMS.get(key, "")
    return f"; here it is {ours!r}" if ours and ours.partition(":")[0] in allowed else ""


def _problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Yield the place of each mistake, and what is wrong there."""
    for item in error.errors():
        place = _place(item["loc"])
        where = ".".join(place.names) or "study"
        found = _shown(item["input"])
        context = item.get("ctx", {})
        match item["type"]:
            case "extra_forbidden":
                allowed = [key for section in place.around for key in section.model_fields]
                key = place.names[-1]
                hint = place.owner(key) or _here(key, allowed) or did_you_mean(key, allowed)
                yield where, f"unknown key{hint}; allowed: {', '.join(allowed)}"
            case "missing":
                yield where, "missing"
            case "literal_error":
                allowed = [value.strip("'") for value in re.split(r", | or ", context["expected"])]
                near = did_you_mean(str(item["input"]), allowed)
                if place.names[-1] == "preset" and (now := RENAMED.get(str(item["input"]))):
                    near = f"; it is called {now!r} now"
                yield where, f"found {found}, allowed: {', '.join(allowed)}{near}"
            case "union_tag_invalid":
                allowed = re.findall(r"'([^']*)'", context["expected_tags"])
                near = did_you_mean(str(context["tag"]), allowed)
                key = next((key for key in UNION_KEYS if key in context["discriminator"]), "name")
                found = _shown(item["input"].get(key))
                if key == "family" and has_module(context["tag"]):
                    class_ = f"a class Settings(Architecture) with family: Literal[{found}]"
                    near = f"; phrasemt/models/{context['tag']}.py needs {class_} (docs/adding-a-system.md)"
                yield f"{where}.{key}", f"found {found}, allowed: {', '.join(allowed)}{near}"
            case "union_tag_not_found":
                yield f"{where}.family", "missing"
            case "value_error":
                for message in str(context["error"]).split("\n"):
                    yield "" if where == "study" else where, message
            case "string_pattern_mismatch":
                code = code_of_language(str(item["input"]))
                near = f'; did you mean "{code}"?' if code and place.names[-1].endswith("language") else ""
                yield where, f"found {found}, expected {PATTERNS[context['pattern']]}{near}"
            case kind if kind in _EXPECTED:
                meaning = f": {place.description}" if place.description else ""
                yield where, f"found {found}, expected {_EXPECTED[kind].format(**context)}{meaning}"
            case _:
                message = item["msg"].replace("Input should be ", "expected ")
                yield where, f"found {found}, {message[0].lower()}{message[1:]}"


@dataclass
class _Place:
    """Where a mistake is. names: the keys that lead there in the file. around: the sections that may contain it.

    description: of the setting. outer: of each section on the way, its place and its classes.
    """

    names: list[str] = field(default_factory=list)
    around: list[type[Settings]] = field(default_factory=list)
    description: str | None = None
    outer: list[tuple[str, list[type[Settings]]]] = field(default_factory=list)

    def owner(self, key: str) -> str:
        """A hint for a key that stands in a section although it belongs to one around it, or in it; or nothing."""
        here = ".".join(self.names[:-1])
        inner = [
            (f"{here}.{name}{rest}".lstrip("."), found)
            for section in self.around
            for name, setting in section.model_fields.items()
            for rest, found in [_below(setting.annotation)]
        ]
        for place, classes in (*reversed(self.outer), *inner):
            if place != here and any(key in section.model_fields for section in classes):
                return f"; it belongs to {place or 'the study itself'}"
        return ""


def _below(annotation: Any) -> tuple[str, list[type[Settings]]]:
    """The classes of a section, or those of a mapping of names to sections, with what stands for such a name."""
    if typing.get_origin(annotation) is dict:
        return ".<name>", sections(typing.get_args(annotation)[-1])
    return "", sections(annotation)


def _place(location: tuple[int | str, ...]) -> _Place:
    """The place of a mistake.

    pydantic's locations also hold the tags of unions, which are not keys of the file. The types tell such a tag from a
    system or a test set with the same name.
    """
    place = _Place()
    annotation: Any = Study
    for part in location:
        if typing.get_origin(annotation) is Annotated:
            annotation = typing.get_args(annotation)[0]
        place.around = around = sections(annotation)
        if around:
            place.outer.append((".".join(place.names), around))
        if typing.get_origin(annotation) in (dict, list):
            annotation = typing.get_args(annotation)[-1]
        elif (tagged := _tagged(annotation, part)) is not None:
            annotation = tagged
            continue
        elif around and part in around[0].model_fields:
            setting = around[0].model_fields[str(part)]
            annotation, place.description = setting.annotation, setting.description
        elif part == "[key]":
            continue
        place.names.append(str(part))
    return place


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
