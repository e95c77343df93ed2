"""Settings and commands of stages for tests that have no study, and a registry with one corpus."""

from __future__ import annotations

import json
import tempfile

from phrasemt.registry import corpora
from phrasemt.stages.corpus import ExtractText, FetchCorpus

_FOLDER = tempfile.TemporaryDirectory()


def settings_file(settings):
    """The path of a file with the settings of a stage. settings: of its class, or values."""
    text = json.dumps(settings) if isinstance(settings, dict) else settings.canonical_json()
    with tempfile.NamedTemporaryFile("w", dir=_FOLDER.name, suffix=".settings", delete=False) as file:
        file.write(text)
    return file.name


def of_model(model):
    """The fields that all stages with a model have (`ModelStage`)."""
    return {"model": model, "reads": model.model_inputs}


def fetching(corpus, file):
    """For a file of a registered corpus."""
    return FetchCorpus.from_study(None, {"corpus": corpus, "file": file})


def extracting(corpus, part, language):
    """For one side of a part of a registered corpus."""
    return ExtractText.from_study(None, {"corpus": corpus, "part": part, "language": language})


def register(monkeypatch, files, parts):
    """Lets the registry hold the corpus `tiny` with these files and parts, and no other."""
    about = {"id": "tiny", "description": "d", "terms": "t", "citation": "c"}
    corpus = corpora.Corpus.model_validate({**about, "files": files, "parts": parts})
    monkeypatch.setattr(corpora, "load_registry", lambda: {"tiny": corpus})


def arguments_of(stage, settings, **files):
    """The arguments of the command of a stage. settings: of its class, or values. files: none, one or several each."""
    arguments = [stage, "--settings", settings_file(settings)]
    for name, paths in files.items():
        if paths:
            arguments += [f"--{name.replace('_', '-')}", *map(str, paths if isinstance(paths, list) else [paths])]
    return arguments
