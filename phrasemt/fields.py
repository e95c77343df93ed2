"""The base class of all settings, and the types of names, languages and numbers."""

from __future__ import annotations

import json
import math
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


@dataclass(frozen=True)
class Number:
    """In a type annotation, behind all other constraints: a finite number with a largest value and the reason for it.

    Text and booleans are refused; pydantic would convert "3" to 3 and true to 1.
    """

    at_most: float = math.inf
    because: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | ({} if math.isinf(self.at_most) else {"maximum": self.at_most})

    def _check(self, value: Any, convert: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError("not_a_number", "expected a number")
        number = convert(value)
        if number > self.at_most:
            values = {"largest": f"{self.at_most:,}", "why": self.because}
            raise PydanticCustomError("too_large", "allowed: at most {largest}, because {why}", values)
        return number


def _text(pattern: str, words: str, most: int | None = None) -> StringConstraints:
    """Text of this pattern, and at most so many characters; messages say it in words."""
    PATTERNS[pattern] = words
    return StringConstraints(pattern=pattern, max_length=most)


PATTERNS: dict[str, str] = {}  # patterns in words
# Names become folder names and Snakemake wildcards, so they hold no separators and no special characters of a shell.
# The name of a folder joins a name and two languages; file systems allow 255 bytes.
Name = Annotated[
    str,
    _text(
        r"^[a-zA-Z0-9][a-zA-Z0-9_+-]*$",
        "a name of letters from a to z, digits, _, + and -, with a letter or digit first",
        most=100,
    ),
]
# One line for every program, also for those that end a line at U+0085 or U+2028, and nothing that a terminal obeys.
_CONTROL = r"\x00-\x1f\x7f-\x9f"
Title = Annotated[
    str,
    _text(
        rf"^[^\s{_CONTROL}]([^{_CONTROL}\u2028\u2029]*[^\s{_CONTROL}])?$",
        "one line of text without tabulators, and without spaces at its ends",
    ),
]
# What Snakemake reads as names of its own in the path of any input; it has no way to escape them.
_READ_BY_SNAKEMAKE = re.compile(r"\{\s*[\w.]+\s*(,.*)?\}|<[a-z][a-z0-9_]*>")


def usable_path(path: Path) -> Path:
    """A path as a stage can be given it.

    Raises ValueError for one in which Snakemake would change a part, and for one that is too long for a file system.
    """
    if len(str(path).encode()) > 4_000 or any(len(part.encode()) > 255 for part in path.parts):
        raise ValueError("no file can have so long a name; a part has at most 255 bytes, a path 4,000")
    if found := _READ_BY_SNAKEMAKE.search(str(path)):
        raise ValueError(f"Snakemake would put something else in place of {found[0]!r} in {path}; rename the file")
    return Path.cwd() / path if str(path).startswith("-") else path  # a command would take such a name for an option


UserPath = Annotated[Path, AfterValidator(usable_path)]
Language = Annotated[str, _text(r"^[a-z]{2,3}$", "a language code such as en or deu")]
Seed = Annotated[int, Field(ge=0, lt=2**31), Number()]
Probability = Annotated[float, Field(ge=0, lt=1), Number()]
Width = Annotated[int, Field(gt=0), Number(at_most=65_536, because="a square matrix of this width takes 16 GiB")]
Depth = Annotated[int, Field(gt=0), Number(at_most=1_000, because="all layers are in memory at once")]
Updates = Annotated[
    int, Field(gt=0), Number(at_most=100_000_000, because="at ten updates a second these take four months")
]
Pairs = Annotated[int, Field(gt=0), Number(at_most=1_000_000_000, because="no parallel corpus has more pairs")]
LONGEST = "models read at most 1,024 subwords of a sentence"
Positions = Annotated[int, Field(gt=0), Number(at_most=1_024, because=LONGEST)]


class Settings(BaseModel):
    """Base of every section of a study and of the settings of every stage: immutable, no unknown keys, finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def canonical_json(self, *, without: Mapping[str, set[str]] | None = None) -> str:
        """The settings as JSON with sorted keys: equal text for equal settings. Digests are made of this text.

        without: keys to leave out, by section.
        """
        values = self.model_dump(mode="json", exclude=dict(without or {}))
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def differs(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


def sections(annotation: Any) -> list[type[Settings]]:
    """The settings classes in a type annotation: the class itself, or the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if typing.get_origin(annotation) in (dict, list):
        return []
    return [section for argument in typing.get_args(annotation) for section in sections(argument)]


def refuse(problems: Iterable[str]) -> None:
    """Raise one ValueError with one line per problem, if there are problems."""
    if text := "\n".join(problems):
        raise ValueError(text)
