"""`phrasemt force`: forced decoding of given translations with a trained system or an exported model."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

from phrasemt.commands._arguments import Output, add_cores, add_system, system_files
from phrasemt.commands._scores import read_columns
from phrasemt.decoding.translator import Translator
from phrasemt.files.attention import ForcedSentence, write_forced
from phrasemt.machine.gpus import lease


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print log P(TARGET | SOURCE) of each line of raw text, natural logarithm with the end of the "
        "sentence. A line is cut after 1,024 subwords."
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="text, one sentence per line")
    parser.add_argument("target", type=Path, metavar="TARGET", help="translations of the same lines")
    add_system(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, with all tokens")
    parser.add_argument(
        "--attention",
        type=Output,
        metavar="FILE",
        help="write tokens and attention weights as Arrow (some 100 kB a line)",
    )
    add_cores(parser)


def run(options: argparse.Namespace) -> None:
    """Force the lines. Raises DataError for texts of different length, and without a line."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)
    sources, targets = read_columns(options.source, options.target)
    (system,) = system_files(options)
    with lease(1):
        translator = Translator(system, decoding=system.settings.decoding, cores=options.cores)
        sentences = list(translator.force(sources, targets, attention=options.attention is not None))
    if options.attention is not None:
        write_forced(options.attention, sentences)
    for sentence in sentences:
        print(json.dumps(_values(sentence), ensure_ascii=False) if options.json else f"{sentence.log_prob:.6f}")


def _values(sentence: ForcedSentence) -> dict[str, Any]:
    """The values of a sentence without attention and without what its model does not have."""
    values = {name: value for name, value in vars(sentence).items() if name != "attentions" and value != []}
    return {"line": values.pop("row") + 1, "log_prob": sentence.log_prob, **values}
