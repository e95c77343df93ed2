"""The stage `generate_demo`: the files of a split of the demonstration corpus, from the package `democorpus`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from democorpus.pairs import conll, demo_pairs
from phrasemt.artefacts.corpus import ContrastivePair, Contrasts
from phrasemt.corpus.contrastive_pairs import AGREEMENT
from phrasemt.files.lines import write_atomic

if TYPE_CHECKING:
    from phrasemt.stages.corpus import GenerateDemo


def generate_demo(
    *,
    settings: GenerateDemo,
    cores: int,
    source: Path,
    target: Path,
    trees: Path,
    source_chunks: Path,
    target_chunks: Path,
    contrasts: Path,
) -> None:
    """Write one split: texts, trees, chunks and the table of contrastive pairs.

    Memory does not grow with the split. The stage uses one core and writes thousands of pairs per second.
    """
    with contextlib.ExitStack() as files:
        paths = (source, target, trees, source_chunks, target_chunks, contrasts)
        streams = [files.enter_context(write_atomic(path)) for path in paths]
        streams[-1].write(f"{Contrasts.header}\n".encode())
        for row, pair in enumerate(demo_pairs(split=settings.split, pairs=settings.pairs, seed=settings.seed)):
            contrast = ""
            if pair.contrast is not None:
                wrong, distance = pair.contrast
                contrastive = ContrastivePair(pair.source, pair.target, wrong, AGREEMENT, distance)
                contrast = f"{Contrasts.line(row, contrastive)}\n"
            texts = [
                pair.source + "\n",
                pair.target + "\n",
                pair.tree + "\n",
                conll(pair.source_tokens, pair.source_chunks),
                conll(pair.target_tokens, pair.target_chunks),
                contrast,
            ]
            for stream, text in zip(streams, texts, strict=True):
                stream.write(text.encode("utf-8"))
