"""`phrasemt scale STUDY SIZE --output FILE`: write a study at a smaller size, or its rehearsal; complete in itself."""

from __future__ import annotations

import argparse
import logging
import sys

from phrasemt.commands._arguments import Output, add_study
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.study.reading import load_study
from phrasemt.study.scaling import REHEARSAL, SIZES, rehearsal, scaled

log = logging.getLogger("phrasemt.scale")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)
    parser.add_argument(
        "size",
        choices=[*SIZES, REHEARSAL],
        help="micro: generated corpus, minutes; small: about an hour a system; rehearsal: the models, batches and "
        "corpora of the study with little of each; then `phrasemt plan STUDY --gpus N --gpu-model measured` prices it",
    )
    parser.add_argument("--output", type=Output, metavar="FILE", help="the new study (default: standard output)")


def run(options: argparse.Namespace) -> None:
    """Write the study at the size. Raises StudyError for mistakes in it, and PhrasemtError for an existing file."""
    study = load_study(options.study)
    raw = parse_yaml(options.study.read_text(encoding="utf-8"))
    values = rehearsal(raw, study) if options.size == REHEARSAL else scaled(raw, study, options.size)
    text = f"# {options.study.name} at the size {options.size}, written by `phrasemt scale`.\n\n{format_yaml(values)}"
    if options.output is None:
        sys.stdout.write(text)
        return
    if options.output.exists():
        raise PhrasemtError(
            "the file exists", where=options.output, next_step="name another file with --output, or remove this one"
        )
    write_text(options.output, text)
    log.info("phrasemt scale: %s; next: make study STUDY=%s", options.output, options.output)
