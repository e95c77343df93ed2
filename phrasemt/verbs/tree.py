"""`phrasemt tree`: draw the parse of a source sentence, its phrases by each segmentation, and its target's chunks."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasemt.verbs import _pair
from phrasemt.verbs._hops import hops_to, views
from phrasemt.workflow.flow import source_parses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _pair.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Print the annotations of a pair that exist. Raises PhrasemtError when the pair does not exist."""
    pair = _pair.chosen_pair(options)
    phrases = pair.paths.phrase_columns.at(split=pair.split)
    wanted = [
        *source_parses(pair.study, pair.dataset, pair.split),
        *(phrases.at(segmenter=segmenter) for segmenter in pair.study.segmentations),
        pair.paths.chunk_columns.at(split=pair.split),
    ]
    shown = set(map(Path, wanted))
    blocks = []
    for _, role, path, text in views(pair, hops_to(shown)):
        if path in shown:
            heading = (
                f"phrases: {path.parent.name}\n  " if role == "phrases" else "chunks\n  " if role == "chunks" else ""
            )
            blocks.append(heading + text)
    tokens = pair.paths.tokens.at(split=pair.split, language=pair.study.datasets[pair.dataset].source_language)
    print("\n\n".join(blocks) or _pair.nth(Path(tokens), pair.line))
