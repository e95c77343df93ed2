"""Parsers and chunkers, and statistics of phrases and chunks.

The card of an annotator (a parser or a chunker) has its model files with checksums, and its fingerprint: a digest of
everything that decides the results of an annotator. It names the folder of these results in the store of annotations,
so paths, scores and origin are not part of it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationInfo, computed_field, model_validator

from phrasemt.artefacts.artefact import JsonFile
from phrasemt.fields import Settings
from phrasemt.files.lines import final_name
from phrasemt.files.system import check_file, digest_file

# Part of every fingerprint. Raise it when an edit of this package changes the annotations by the same model files: the
# tokens that a model sees, the decisions that count as close, the text of trees and tags.
ANNOTATION_VERSION = 1
# Largest number of tokens of an annotated sentence; longer ones get a failure. A longer line is a list or has lost a
# line break, and the limit bounds time and memory of the parser. Part of every fingerprint.
LONGEST = 1000

Kind = Literal["constituency", "chunks"]
Origin = Literal["trained", "published", "trees"]


class ModelFile(Settings):
    """A model file. path: absolute; in the card file, relative to the folder of the card for files below it."""

    path: Path
    sha256: str


class Card(JsonFile):
    """A parser or chunker.

    files: by role; options: other facts that change results; scores: known measures of its quality.
    """

    kind: Kind
    origin: Origin
    language: str
    stanza: str
    files: dict[str, ModelFile]
    options: dict[str, Any]
    scores: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _has_its_fingerprint(cls, values: Any, make: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        found = values.pop("fingerprint", None) if isinstance(values, dict) else None
        card = make(values)
        if info.context and found != card.fingerprint:  # of a file
            raise ValueError(f"fingerprint {found} instead of {card.fingerprint}")
        return card

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
            files={
                role: ModelFile(path=final_name(path.absolute()), sha256=digest_file(path))
                for role, path in files.items()
            },
            options={"version": ANNOTATION_VERSION, "longest": LONGEST},
            scores=dict(scores or {}),
        )

    @computed_field  # type: ignore[prop-decorator]
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
        """What the card says of the annotator, without the places of its files."""
        return {"format": self.format, **self.model_dump(mode="json", exclude={"files"})}

    def _with_paths(self, change: Callable[[Path], Path]) -> Self:
        files = {role: file.model_copy(update={"path": change(file.path)}) for role, file in self.files.items()}
        return self.model_copy(update={"files": files})

    def write(self, path: Path) -> None:
        folder = path.parent.absolute()
        card = self._with_paths(lambda file: file.relative_to(folder) if file.is_relative_to(folder) else file)
        super(Card, card).write(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a card. Raises DamagedFileError if the file is not a card, has another format, or was altered."""
        return super().read(path)._with_paths(path.parent.absolute().joinpath)

    def verify(self) -> None:
        """Compare the model files with the card. Raises DamagedFileError for a missing or altered file."""
        for role, file in self.files.items():
            what = f"the model file ({role}) is not the one that the card describes"
            next_step = "restore the file, or delete the annotator's card to describe the new one"
            check_file(file.path, file.sha256, what, next_step=next_step)


class TaggerScores(JsonFile):
    """The accuracies of a tagger, 0 to 1."""

    dev_accuracy: float
    test_accuracy: float


class PhraseStatistics(JsonFile, format=2):
    """Statistics of the phrases of a segmentation.

    segmentation: its name. tokens: encoder positions, `</s>` included. lengths: number of phrases
    of each length in encoder positions. fallbacks: sentences that had no parse and were cut into n-grams, by reason.
    comparable: phrases of parsed sentences, without those of `</s>` alone; constituents: those whose tokens, without
    `</s>`, are the span of a node of the parse. Both are None without parses.
    """

    segmentation: str
    sentences: int
    phrases: int
    tokens: int
    lengths: dict[int, int]
    fallbacks: dict[str, int]
    constituents: int | None = None
    comparable: int | None = None

    @property
    def mean_length(self) -> float:
        return self.tokens / max(self.phrases, 1)

    @property
    def share_of_constituents(self) -> float | None:
        """Fraction of constituents among the phrases of parsed sentences, 0 to 1; None if nothing was compared."""
        return self.constituents / self.comparable if self.constituents is not None and self.comparable else None


class ChunkStatistics(JsonFile, format=3):
    """Statistics of the chunks of a split, `</s>` excluded.

    labels: number of chunks by label. fallbacks: sentences without tags, by reason.
    """

    origin: str
    sentences: int
    words: int
    chunks: int
    labels: dict[str, int]
    fallbacks: dict[str, int]
