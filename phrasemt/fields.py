"""The base of every section of a study, and the types of names, seeds and probabilities."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# Names become folder names and Snakemake wildcards, so no separators and nothing a shell or a pattern could read.
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_+-]*$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """Base of every section: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def canonical_json(self) -> str:
        """The same text for equal settings, whatever their order in the file: the stuff of digests and rerun keys."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def differs(self, key: str) -> bool:
        """Whether a value is not at its default."""
        return bool(getattr(self, key) != type(self).model_fields[key].default)


def sections(annotation: Any) -> list[type[Settings]]:
    """The section classes of an annotation: itself, or the members of a union, without their wrappers."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if typing.get_origin(annotation) in (dict, list):
        return []
    return [section for argument in typing.get_args(annotation) for section in sections(argument)]


def refuse(problems: Iterable[str]) -> None:
    """Raises one ValueError with all problems of a section, a line for each; nothing when there are none."""
    if text := "\n".join(problems):
        raise ValueError(text)
