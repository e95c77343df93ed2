"""The card of an annotator, a parser or chunker: its model files with their checksums, and what makes it unique.

The stage `describe_annotator` writes a card for model files that were not trained here; training writes its own. The
fingerprint is a digest of what decides an annotator's results. It names the part of the parse store that holds them,
so paths, scores and origin do not go into it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, with_config

from phrasemt.errors import DamagedFileError, DataError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import final_name, write_text
from phrasemt.stages.syntax import DescribeAnnotator

FORMAT = 1
# Part of every fingerprint. To be raised when a change of our code changes what the same model files make of a
# sentence: which tokens they see, which decisions count as close, how trees and tags are written down.
ANNOTATION_VERSION = 1
# Tokens of the longest sentence that is annotated; what is longer is recorded as a failure. No sentence is as long: it
# is a list or a lost line break, and the parser's time and memory are kept in bounds. Part of every fingerprint.
LONGEST = 1000

Kind = Literal["constituency", "chunks"]
Origin = Literal["trained", "files", "published"]
ROLES: dict[Kind, tuple[str, ...]] = {
    "constituency": ("constituency", "tagger", "vectors", "forward_charlm", "backward_charlm"),
    "chunks": ("chunker", "vectors"),
}
_OPTIONAL = {"tagger", "forward_charlm", "backward_charlm"}


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file. In the card its path is relative to the card's folder if the file is in it or below, else absolute.

    In memory `path` is absolute.
    """

    path: Path
    sha256: str


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class Card:
    """An annotator. files: by role; options: what else changes results; scores: how good it is, as far as known."""

    kind: Kind
    origin: Origin
    language: str
    stanza: str
    files: dict[str, ModelFile]
    options: dict[str, Any]
    scores: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_files(
        cls,
        *,
        kind: Kind,
        origin: Origin,
        language: str,
        files: Mapping[str, Path],
        scores: Mapping[str, Any] | None = None,
    ) -> Card:
        """The card of model files, under the installed Stanza. Unfinished files are called by their final names."""
        return cls(
            kind=kind,
            origin=origin,
            language=language,
            stanza=importlib.metadata.version("stanza"),
            files={role: ModelFile(final_name(path.absolute()), digest_file(path)) for role, path in files.items()},
            options={"version": ANNOTATION_VERSION, "longest": LONGEST},
            scores=dict(scores or {}),
        )

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for annotators that give equal results."""
        deciding = {
            "kind": self.kind,
            "stanza": self.stanza,
            "files": {role: file.sha256 for role, file in self.files.items()},
            "options": self.options,
        }
        text = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def description(self) -> dict[str, Any]:
        """The card without its model files: the same wherever they lie."""
        fields = {name: getattr(self, name) for name in ("kind", "origin", "language", "stanza", "options", "scores")}
        return {"format": FORMAT, **fields, "fingerprint": self.fingerprint}

    def write(self, path: Path) -> None:
        """Write the card, atomically."""
        folder = path.parent.absolute()
        files = {
            role: {
                "path": (file.path.relative_to(folder) if file.path.is_relative_to(folder) else file.path).as_posix(),
                "sha256": file.sha256,
            }
            for role, file in self.files.items()
        }
        write_text(path, json.dumps({**self.description, "files": files}, indent=1, sort_keys=True) + "\n")

    @classmethod
    def read(cls, path: Path) -> Card:
        """Raises DamagedFileError when the file is no card, of another format, or was altered."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content.pop("format", None)
            if version != FORMAT:
                raise ValueError(f"format version {version} instead of {FORMAT}")
            fingerprint = content.pop("fingerprint", None)
            card = TypeAdapter(cls).validate_python(content)
            folder = path.parent.absolute()
            files = {role: replace(file, path=folder / file.path) for role, file in card.files.items()}
            card = replace(card, files=files)
            if fingerprint != card.fingerprint:
                raise ValueError(f"fingerprint {fingerprint} instead of {card.fingerprint}")
        except (ValueError, AttributeError, TypeError) as error:
            raise DamagedFileError(
                "not the card of a parser or chunker",
                where=path,
                found=error,
                next_step="delete it and run again",
            ) from None
        return card

    def verify(self) -> None:
        """Raises DamagedFileError when a model file is missing or not the one that the card describes."""
        for role, file in self.files.items():
            found = digest_file(file.path) if file.path.is_file() else "no such file"
            if found != file.sha256:
                raise DamagedFileError(
                    f"the model file ({role}) is not the one that the annotator was made of",
                    where=file.path,
                    expected=f"sha256 {file.sha256}",
                    found=found,
                    next_step="restore the file, or delete the annotator's card to describe the new one",
                )


def describe_annotator(
    *,
    settings: DescribeAnnotator,
    cores: int,
    constituency: list[Path],
    chunker: list[Path],
    tagger: list[Path],
    vectors: list[Path],
    forward_charlm: list[Path],
    backward_charlm: list[Path],
    annotator: Path,
) -> None:
    """Write the card of model files. A list is empty where a file of that role is not given.

    Raises DataError when a file that the kind of annotator needs is missing, or is there twice.
    """
    given = {
        "constituency": constituency,
        "chunker": chunker,
        "tagger": tagger,
        "vectors": vectors,
        "forward_charlm": forward_charlm,
        "backward_charlm": backward_charlm,
    }
    roles = ROLES[settings.kind]
    for role, paths in given.items():
        least, most = int(role in roles and role not in _OPTIONAL), int(role in roles)
        if not least <= len(paths) <= most:
            raise DataError(
                f"the model files do not make an annotator of the kind {settings.kind}",
                where=f"role {role}",
                expected="one file" if least else "at most one file" if most else "no file",
                found=", ".join(map(str, paths)) or "none",
                next_step="correct the files in the study",
            )
    Card.of_files(
        kind=settings.kind,
        origin=settings.origin,
        language=settings.language,
        files={role: paths[0] for role, paths in given.items() if paths},
    ).write(annotator)
