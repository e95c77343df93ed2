"""Parsers that are not trained here: `fetch_stanza_file` and `describe_annotator` (published models), `collect_trees`.

A published model file is listed in phrasemt/registry/stanza_models.yaml. The environment variable PHRASEMT_STANZA_URL
names a mirror with Stanza's layout, `<URL>/stanza-<language>/resolve/<revision>/models/<processor>/<package>.pt`, for
machines without network. It changes no result.

Your trees come from any parser. A sentence finds its tree by its tokens, so files may contain the trees of many texts
in any order. The leaves of a tree are the tokens of the sentence, with or without the escapes of Moses and of the Penn
Treebank.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from phrasemt.artefacts.syntax import Card
from phrasemt.errors import DataError
from phrasemt.files.download import DownloadRequest, download
from phrasemt.registry.stanza_models import URL
from phrasemt.stages.syntax import CollectTrees, DescribeAnnotator, FetchStanzaFile
from phrasemt.symbols import unescape
from phrasemt.syntax.annotations import (
    BUCKETS,
    KEY_BYTES,
    Annotation,
    Annotations,
    Keys,
    key_array,
    sentence_key,
    write_sorted_annotations,
)
from phrasemt.syntax.trees import read_treebank, tree_text, words

log = logging.getLogger("phrasemt.collect_trees")

URL_VARIABLE = "PHRASEMT_STANZA_URL"
_KEY_DIGITS = 2 * KEY_BYTES


def fetch_stanza_file(*, settings: FetchStanzaFile, cores: int, file: Path) -> None:
    """Download a model file and compare it with its checksum.

    Raises DownloadError if the file cannot be fetched or differs from the published file.
    """
    base = os.environ.get(URL_VARIABLE, URL).rstrip("/")
    source = settings.source.model_copy(update={"url": settings.source.url.replace(URL, base, 1)})
    other_ways = f"name a mirror with the same layout in {URL_VARIABLE}"
    download(DownloadRequest(source, "fetch_stanza_file", other_ways), file)


def describe_annotator(
    *,
    settings: DescribeAnnotator,
    cores: int,
    constituency: list[Path],
    tagger: list[Path],
    vectors: list[Path],
    forward_charlm: list[Path],
    backward_charlm: list[Path],
    annotator: Path,
) -> None:
    """Write the card of model files. Each list holds the file of a role, or is empty."""
    given = {
        "constituency": constituency,
        "tagger": tagger,
        "vectors": vectors,
        "forward_charlm": forward_charlm,
        "backward_charlm": backward_charlm,
    }
    files = {role: paths[0] for role, paths in given.items() if paths}
    Card.of_files(kind="constituency", origin="published", language=settings.language, files=files).write(annotator)


def collect_trees(*, settings: CollectTrees, cores: int, files: list[Path], trees: Path, annotator: Path) -> None:
    """Write the trees of bracketed files by the keys of their sentences, and the card of the parser.

    The first of several trees of a sentence counts. Memory: the trees of one of 64 buckets.
    Raises DataError for a malformed tree, and for files without trees.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        # Files without names, so that a killed run leaves nothing.
        spills = [stack.enter_context(tempfile.TemporaryFile(dir=trees.parent)) for _ in range(BUCKETS)]
        for path in files:
            for tree in read_treebank(path):
                count += 1
                key = sentence_key([unescape(word) for word in words(tree)])
                spills[key[0] >> 2].write(f"{key.hex()}{tree_text(tree)}\n".encode())
        if not count:
            raise DataError("no trees", where=", ".join(map(str, files)), next_step="check the files in the study")
        description = {"kind": "constituency", "origin": "trees", "fingerprint": ""}
        write_sorted_annotations(trees, map(_read_spill, spills), description)
    card = Card.of_files(kind="constituency", origin="trees", language=settings.language, files={"trees": trees})
    card.write(annotator)
    log.info("collect_trees: %s trees", f"{count:,}")


def _read_spill(spill: IO[bytes]) -> tuple[Keys, list[Annotation]]:
    spill.seek(0)
    annotations: dict[bytes, Annotation] = {}
    for line in spill.read().decode().split("\n")[:-1]:
        annotations.setdefault(bytes.fromhex(line[:_KEY_DIGITS]), Annotation(line[_KEY_DIGITS:], None))
    spill.close()  # frees its disk space
    keys = sorted(annotations)
    return key_array(keys), [annotations[key] for key in keys]


class TreeAnnotator:
    """Looks up given trees, in place of a parser."""

    def __init__(self, trees: Path) -> None:
        self._trees = Annotations([trees])

    def annotate(self, sentences: Sequence[Sequence[str]]) -> list[Annotation]:
        """The tree of each sentence, or a failure."""
        annotations = self._trees.find([sentence_key(tokens) for tokens in sentences])
        return [annotation or Annotation(None, "no tree was given") for annotation in annotations]
