"""Stanza's published models, from a server on this machine in Stanza's layout."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny

from phrasemt.errors import DataError, DownloadError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.registry import stanza_models as published
from phrasemt.registry.stanza_models import files_of_package, load_published, published_file
from phrasemt.stages.syntax import DescribeAnnotator, FetchStanzaFile, TrainParser
from phrasemt.syntax.given_annotators import describe_annotator, fetch_stanza_file
from phrasemt.syntax.stanza import training
from phrasemt.syntax.stanza.annotators import ParserAnnotator, load_annotator
from phrasemt.syntax.trees import parse_tree, words


@contextlib.contextmanager
def served(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    models: dict[str, bytes],
    files: list[dict[str, Any]],
    package: dict[str, str],
) -> Iterator[None]:
    """Serves models by their paths; the list is made to describe these files, and a package `small` of them."""
    for path, content in models.items():
        model = folder / "stanza-en" / "resolve" / "v1" / "models" / path
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_bytes(content)
    entry = {"repository": "stanza-en", "revision": "v1", "files": files, "packages": {"small": package}}
    language = published.PublishedLanguage.model_validate(entry)
    monkeypatch.setattr(published, "load_published", lambda: {"en": language})
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *arguments: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("PHRASEMT_STANZA_URL", f"http://127.0.0.1:{running.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield
        running.shutdown()
        thread.join()


def fetch(path: Path, name: str) -> bytes:
    fetch_stanza_file(settings=FetchStanzaFile(source=published_file("en", name)), cores=1, file=path)
    return path.read_bytes()


def character_model(path: Path, *, forward: bool) -> None:
    """A language model of characters that has learned nothing."""
    import torch
    from stanza.models.common.char_model import CharacterLanguageModel
    from stanza.models.common.vocab import CharVocab

    torch.manual_seed(1)
    sizes = {"char_emb_dim": 4, "char_hidden_dim": 6, "char_num_layers": 1, "char_dropout": 0.0, "char_rec_dropout": 0}
    vocabulary = {"char": CharVocab([list("\n .abcdefghijklmnopqrstuvwxyz")])}
    CharacterLanguageModel(sizes, vocabulary, is_forward_lm=forward).save(str(path))


def test_a_parser_with_character_models_from_its_download_to_a_tree(
    tiny_annotators: tiny.TinyAnnotators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charlms = {"forward_charlm": tmp_path / "forward.pt", "backward_charlm": tmp_path / "backward.pt"}
    for role, path in charlms.items():
        character_model(path, forward=role.startswith("forward"))
    # Our own training knows no character models, so the test adds them.
    flags = training.flags
    added = {f"charlm_{role.removesuffix('_charlm')}_file": path for role, path in charlms.items()}
    monkeypatch.setattr(training, "flags", lambda *given, **options: flags(*given, **options, **added))
    monkeypatch.setattr(
        training, "ParserAnnotator", lambda files, device: ParserAnnotator({**files, **charlms}, device=device)
    )
    made = tiny_annotators.folder
    few_trees = {split: [tmp_path / f"{split}.trees"] for split in tiny_annotators.trees}
    for split, (path,) in tiny_annotators.trees.items():
        write_lines(few_trees[split][0], itertools.islice(read_lines(path), 12))
    training.train_parser(
        settings=TrainParser(language="en", sentences=None, hidden=8, epochs=1, seed=1),
        cores=1,
        **few_trees,
        vectors=made / "vectors.pt",
        tagger=made / "tagger.pt",
        tagger_scores=made / "tagger.json",
        constituency=tmp_path / "constituency.pt",
        annotator=tmp_path / "parser.json",
    )
    sources = {
        "constituency": tmp_path / "constituency.pt",
        **{role: made / f"{role}.pt" for role in ("tagger", "vectors")},
        **charlms,
    }
    models = {f"{role}/small.pt": path.read_bytes() for role, path in sources.items()}
    files = [
        {"name": f"{role}.pt", "path": f"{role}/small.pt", "md5": hashlib.md5(models[f"{role}/small.pt"]).hexdigest()}
        for role in sources
    ]
    for path in (tmp_path / "constituency.pt", *charlms.values()):
        path.unlink()  # the model remembers where its character models were
    fetched: dict[str, Path] = {}
    with served(
        tmp_path / "served", monkeypatch, models=models, files=files, package={role: f"{role}.pt" for role in sources}
    ):
        for role, name in files_of_package("en", "small").items():
            fetched[role] = tmp_path / name
            assert fetch(tmp_path / name, name) == models[f"{role}/small.pt"]
        next((tmp_path / "served").rglob("tagger/small.pt")).write_bytes(b"another model")
        with pytest.raises(DownloadError, match=r"wrong checksum \(expected md5.*in PHRASEMT_STANZA_URL"):
            fetch(tmp_path / "other.pt", "tagger.pt")
    card = tmp_path / "card.json"
    given: dict[str, Any] = {role: [path] for role, path in fetched.items()}
    describe_annotator(settings=DescribeAnnotator(language="en"), cores=1, **given, annotator=card)
    (annotation,) = load_annotator(card).annotate([["The", "dog", "."]])
    assert words(parse_tree(annotation.text or "")) == ["0", "1", "2"]
    del fetched["forward_charlm"]
    tiny.describe(card, "constituency", fetched)
    with pytest.raises(DataError, match=r"Stanza cannot use the model files .*size mismatch"):
        load_annotator(card)


def test_packages_have_all_files_of_their_roles() -> None:
    roles = ["constituency", "tagger", "vectors", "forward_charlm", "backward_charlm"]
    packages = {(language, name) for language, entry in load_published().items() for name in entry.packages}
    assert {("en", "ptb3-revised_charlm"), ("de", "spmrl_charlm"), ("zh", "ctb-51_charlm")} <= packages
    for language, name in packages:
        assert list(files_of_package(language, name)) == roles


def test_unknown_packages_and_languages() -> None:
    with pytest.raises(DataError, match=r"language en: unknown package .* did you mean 'ptb3_charlm'\?\)\. Next: name"):
        files_of_package("en", "ptb3")
    with pytest.raises(DataError, match=r"parsers: unknown language \(expected one of en, de, zh, found 'fr'\)"):
        files_of_package("fr", "wsj")
    with pytest.raises(DataError, match=r"unknown model file .* found 'other.pt'"):
        published_file("en", "other.pt")
