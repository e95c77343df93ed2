"""Your trees, of any parser: the stage `collect_trees`, and the annotator that looks them up.

A sentence finds its tree by its tokens, so files may contain the trees of many texts in any order. The leaves of a tree
are the tokens of the sentence, with or without the escapes of Moses and of the Penn Treebank.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from phrasemt.artefacts.card import Card
from phrasemt.errors import DataError
from phrasemt.stages.syntax import CollectTrees
from phrasemt.symbols import unescape
from phrasemt.syntax.annotations import Annotation, Annotations, write_sorted_annotations
from phrasemt.syntax.sentences import BUCKETS, KEY_BYTES, Keys, key_array, sentence_key
from phrasemt.syntax.trees import read_treebank, tree_text, words

log = logging.getLogger("phrasemt.collect_trees")

NO_TREE = "no tree was given"
_SHOWN = 100  # characters of a sentence in a message
_KEY_DIGITS = 2 * KEY_BYTES


def collect_trees(*, settings: CollectTrees, cores: int, files: list[Path], trees: Path, annotator: Path) -> None:
    """Write the trees of bracketed files by the keys of their sentences, and the card of the parser.

    The first of several trees of a sentence counts. A second entry of each tree has the key of its characters as one
    token: a sentence with the same characters and other tokens finds there what the tokens of the tree are.
    Memory: the trees of one of 64 buckets. Raises DataError for a malformed tree, and for files without trees.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        # Files without names, so that a killed run leaves nothing.
        spills = [stack.enter_context(tempfile.TemporaryFile(dir=trees.parent)) for _ in range(BUCKETS)]
        for path in files:
            for tree in read_treebank(path):
                count += 1
                tokens = [unescape(word) for word in words(tree)]
                try:
                    text = tree_text(tree)
                except ValueError as error:
                    raise DataError("a tree that cannot be stored", where=path, found=error) from None
                _spill(spills, tokens, f"0{text}")
                other = " ".join(tokens)
                _spill(spills, ["".join(tokens)], f"1the given tree has other tokens: {other[:_SHOWN]}")
        if not count:
            raise DataError("no trees", where=", ".join(map(str, files)), next_step="check the files in the study")
        description = {"kind": "constituency", "origin": "trees", "fingerprint": ""}
        write_sorted_annotations(trees, map(_read_spill, spills), description)
    Card.of_files(kind="constituency", origin="trees", language=settings.language, files={"trees": trees}).write(
        annotator
    )
    log.info("collect_trees: %s trees", f"{count:,}")


def _spill(spills: Sequence[IO[bytes]], tokens: Sequence[str], value: str) -> None:
    key = sentence_key(tokens)
    spills[key[0] >> 2].write(f"{key.hex()}{value}\n".encode())


def _read_spill(spill: IO[bytes]) -> tuple[Keys, list[Annotation]]:
    spill.seek(0)
    found: dict[str, str] = {}
    # Stable: of equal keys, trees come before other tokens, and the first tree before the others.
    for line in sorted(spill.read().decode().split("\n")[:-1], key=lambda line: line[: _KEY_DIGITS + 1]):
        found.setdefault(line[:_KEY_DIGITS], line[_KEY_DIGITS:])
    spill.close()  # frees its disk space
    annotations = [Annotation(v[1:], None) if v[0] == "0" else Annotation(None, v[1:]) for v in found.values()]
    return key_array([bytes.fromhex(key) for key in found]), annotations


class TreeAnnotator:
    """Looks up given trees, in place of a parser."""

    def __init__(self, trees: Path) -> None:
        self._trees = Annotations.open([trees])

    def annotate(self, sentences: Sequence[Sequence[str]]) -> list[Annotation]:
        """The tree of each sentence, or a failure, which names the tokens of a tree over the same characters."""
        found = self._trees.find([sentence_key(tokens) for tokens in sentences])
        missing = [number for number, one in enumerate(found) if one is None]
        others = self._trees.find([sentence_key(["".join(sentences[number])]) for number in missing])
        failures = {n: (other and other.failure) or NO_TREE for n, other in zip(missing, others, strict=True)}
        return [one or Annotation(None, failures[number]) for number, one in enumerate(found)]
