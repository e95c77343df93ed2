"""The base class of all settings, and the types of names, languages, seeds and probabilities."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# Names become folder names and Snakemake wildcards, so they hold no separators and no special characters of a shell.
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_+-]*$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """Base of every section of a study and of the settings of every stage: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def canonical_json(self) -> str:
        """The settings as JSON with sorted keys: equal text for equal settings. Digests are made of this text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def differs(self, key: str) -> bool:
        """Whether a value differs from its default."""
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
