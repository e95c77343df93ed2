"""The card of an annotator (a parser or a chunker): its model files with checksums, and its fingerprint.

The fingerprint is a digest of everything that decides the results of an annotator. It names the folder of these results
in the store of annotations, so paths, scores and origin are not part of it.
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

from phrasemt.artefacts.artefact import Artefact, of_study
from phrasemt.errors import DamagedFileError
from phrasemt.files.lines import final_name, write_text
from phrasemt.files.system import check_file, digest_file

FORMAT = 1
# Part of every fingerprint. Raise it when an edit of this package changes the annotations by the same model files: the
# tokens that a model sees, the decisions that count as close, the text of trees and tags.
ANNOTATION_VERSION = 1
# Largest number of tokens of an annotated sentence; longer ones get a failure. A longer line is a list or has lost a
# line break, and the limit bounds time and memory of the parser. Part of every fingerprint.
LONGEST = 1000

Kind = Literal["constituency", "chunks"]
Origin = Literal["trained", "files", "published", "trees"]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file. path: absolute; in the card file, relative to the folder of the card for files below it."""

    path: Path
    sha256: str


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class Card(Artefact, pattern=of_study("annotators/{annotator}/annotator.json")):
    """A parser or chunker.

    files: by role; options: other facts that change results; scores: known measures of its quality.
    """

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
        """The card of model files for the installed Stanza. Temporary paths of outputs are replaced by final paths."""
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
        """32 hexadecimal digits. Annotators with equal fingerprints give equal results."""
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
        fields = {name: getattr(self, name) for name in ("kind", "origin", "language", "stanza", "options", "scores")}
        return {"format": FORMAT, **fields, "fingerprint": self.fingerprint}

    def write(self, path: Path) -> None:
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
        """Read a card. Raises DamagedFileError if the file is not a card, has another format, or was altered."""
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
                "not the card of a parser or chunker", where=path, found=error, next_step="delete it and run again"
            ) from None
        return card

    def verify(self) -> None:
        """Compare the model files with the card. Raises DamagedFileError for a missing or altered file."""
        for role, file in self.files.items():
            what = f"the model file ({role}) is not the one that the card describes"
            next_step = "restore the file, or delete the annotator's card to describe the new one"
            check_file(file.path, file.sha256, what, next_step=next_step)
