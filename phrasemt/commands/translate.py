"""`phrasemt translate`: translate raw text with a trained system of a study or with an exported model."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from tqdm import tqdm

from phrasemt.commands._arguments import Output, add_cores, add_system, in_range, system_files
from phrasemt.decoding.translator import Translation, Translator
from phrasemt.errors import PhrasemtError, did_you_mean
from phrasemt.files.lines import blocks_of_lines, count_lines, decode_lines, write_atomic
from phrasemt.files.yaml import parse_yaml
from phrasemt.machine.gpus import lease
from phrasemt.study.schema import MOST_HYPOTHESES, Decoding
from phrasemt.symbols import LONGEST_SENTENCE

log = logging.getLogger("phrasemt.translate")

# Lines that are sorted by length and translated together, if the text has them. More lines than a usual test set, so
# that its batches are those of the study and its scores are the same to the last bit.
_LINES = 4096
_NAMED = 5  # lines that a message names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Translate raw text, one sentence per line: one line out for each line in, in order. Lines without "
        "text stay empty. A line is cut after 1,024 subwords, with a warning. Several systems translate together "
        "(ensemble): the probability of a word is the mean of their probabilities."
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="text to translate (default: standard input)"
    )
    add_system(parser, several=True)
    parser.add_argument("--output", type=Output, metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--json", action="store_true", help="write one JSON object per line")
    parser.add_argument(
        "--n-best",
        type=in_range(int, 1, MOST_HYPOTHESES),
        metavar="N",
        help="write N translations per line, as `line ||| translation ||| score`",
    )
    parser.add_argument(
        "--decoding", type=_setting, action="append", default=[], metavar="KEY=VALUE",
        help="replace a setting of the search, e.g. beam=12; may be repeated",
    )  # fmt: skip
    add_cores(parser)


def run(options: argparse.Namespace) -> None:
    """Translate. Raises PhrasemtError for a system that is not there, and for text that is not UTF-8."""
    logging.getLogger("phrasemt").setLevel(logging.WARNING)  # what stages say about each part of the text
    logging.getLogger("phrasemt.batching").setLevel(logging.ERROR)  # `_warn_of_cut` names the lines
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(_open(options.file))
        systems = system_files(options)
        decoding = _decoding(systems[0].settings.decoding, options)
        add: Callable[[bytes], object] = _to_standard_output
        if options.output is not None:
            add = stack.enter_context(write_atomic(options.output)).write
        stack.enter_context(lease(1))
        translator = Translator(*systems, decoding=decoding, cores=options.cores)
        bar = stack.enter_context(_progress(text))
        first_line = 1
        for block in blocks_of_lines(text.fileno(), text.name, lines=_LINES):
            lines = list(decode_lines(block, text.name, first=first_line))
            translations = translator.translate(lines, on_progress=bar.update)
            add(_written(translations, lines, first_line, options).encode("utf-8"))
            _warn_of_cut(translations, first_line)
            first_line += len(block)


def _setting(text: str) -> tuple[str, Any]:
    """Key and value of --decoding."""
    key, equals, value = text.partition("=")
    if not equals or key not in Decoding.model_fields:
        near, keys = did_you_mean(key, Decoding.model_fields), ", ".join(Decoding.model_fields)
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE with a key of {keys}, found {text[:40]!r}{near}")
    try:
        return key, parse_yaml(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{key}: cannot be read as YAML: {error}") from None


def _open(path: Path | None) -> Any:
    """The text, as a binary stream with a name."""
    if path is None or str(path) == "-":
        if sys.stdin is None:
            raise PhrasemtError("standard input is closed", where="FILE", next_step="give a text file")
        return contextlib.nullcontext(sys.stdin.buffer)
    return path.open("rb", buffering=0)


def _decoding(trained: Decoding, options: argparse.Namespace) -> Decoding:
    """The settings of the search with the values of the command line."""
    given = {"n_best": options.n_best or 1, **dict(options.decoding)}
    try:
        return Decoding.model_validate(trained.model_dump() | given)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise PhrasemtError(
            f"{'.'.join(map(str, mistake['loc'])) or 'settings'}: {mistake['msg']}", where="--decoding, --n-best"
        ) from None


def _progress(text: Any) -> tqdm[Any]:
    """A bar on a terminal; none while somebody types the text."""
    path = Path(str(text.name))
    total = count_lines(path) if path.is_file() else None
    return tqdm(total=total, unit="line", disable=True if text.isatty() else None, leave=False)


def _to_standard_output(output: bytes) -> None:
    """Write without a buffer, so that an error is raised here and not when Python ends."""
    while output:
        output = output[os.write(sys.stdout.fileno(), output) :]


def _written(translations: Sequence[Translation], lines: Sequence[str], first: int, options: argparse.Namespace) -> str:
    """The translations of lines, the first of which has this number, in the form that was asked for."""
    written = []
    for number, (line, translation) in enumerate(zip(lines, translations, strict=True), start=first):
        best = translation.candidates[0]
        if options.json:
            value = {"line": number, "source": line, "translation": best.text, "score": best.score}
            value |= {"cut": translation.cut, "n_best": [asdict(candidate) for candidate in translation.candidates]}
            written.append(json.dumps(value, ensure_ascii=False))
        elif options.n_best:
            written += [
                f"{number} ||| {candidate.text} ||| {candidate.score:.6f}" for candidate in translation.candidates
            ]
        else:
            written.append(best.text)
    return "".join(f"{line}\n" for line in written)


def _warn_of_cut(translations: Sequence[Translation], first: int) -> None:
    if cut := [number for number, translation in enumerate(translations, start=first) if translation.cut]:
        named = ", ".join(map(str, cut[:_NAMED])) + (", ..." if len(cut) > _NAMED else "")
        log.warning("translate: warning: cut after %d subwords: %d lines (%s)", LONGEST_SENTENCE, len(cut), named)
