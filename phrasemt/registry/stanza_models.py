"""The registry of Stanza's published parsers: files and checksums of each package (data in stanza_models.yaml)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

from phrasemt.fields import Language, Name, Settings
from phrasemt.files.source_file import FileName, SourceFile
from phrasemt.files.yaml import parse_yaml
from phrasemt.registry.corpora import look_up

PUBLISHED_FILE = Path(__file__).with_suffix(".yaml")
URL = "https://huggingface.co/stanfordnlp"

Role = Literal["constituency", "tagger", "vectors", "forward_charlm", "backward_charlm"]


class PublishedLanguage(Settings):
    """The packages of a language: file names by role, by package.

    files: fields of `SourceFile`, with a path relative to the folder of the language in place of a URL.
    """

    repository: str
    revision: str
    files: tuple[dict[str, Any], ...]
    packages: dict[Name, dict[Role, FileName]]


@functools.cache
def load_published() -> dict[str, PublishedLanguage]:
    entries: dict[str, object] = parse_yaml(PUBLISHED_FILE.read_text(encoding="utf-8"))
    return {language: PublishedLanguage.model_validate(entry) for language, entry in entries.items()}


def files_of_package(language: Language, package: Name) -> dict[Role, str]:
    """The file names of a package by role. Raises DataError for an unknown language or package."""
    return _look_up("package of Stanza", package, _language(language).packages, where=f"language {language}")


def published_file(language: Language, name: str) -> SourceFile:
    """The description of a file. Raises DataError for an unknown language or file."""
    of_language = _language(language)
    files = {entry["name"]: entry for entry in of_language.files}
    entry = dict(_look_up("model file", name, files, where=f"language {language}"))
    folder = f"{URL}/{of_language.repository}/resolve/{of_language.revision}/models"
    return SourceFile.model_validate({"url": f"{folder}/{entry.pop('path')}", **entry})


def _language(language: Language) -> PublishedLanguage:
    return _look_up("language", language, load_published(), where="Stanza's published parsers")


_look_up = functools.partial(
    look_up, next_step="name one of these, give your own model files, or let the workflow train a parser"
)
