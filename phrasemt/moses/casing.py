"""The stages `train_truecaser` and `normalize_case`: the tokens that Moses learns from and reads.

A truecaser writes the first word of a sentence as the training text writes it most often elsewhere. Tokens hold Moses'
escapes already (phrasemt/symbols.py), so no sign that Moses' formats use reaches its programs: neither `|`, which would
end the decoder, nor `<`, `[` and `]`.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from phrasemt.errors import DataError, check_equal
from phrasemt.files.lines import count_lines, read_lines, write_lines
from phrasemt.files.system import work_folder
from phrasemt.moses.installation import run
from phrasemt.stages.moses import NormalizeCase, TrainTruecaser
from phrasemt.symbols import escape, unescape

log = logging.getLogger("phrasemt.normalize_case")


def train_truecaser(*, settings: TrainTruecaser, cores: int, tokens: Path, truecaser: Path) -> None:
    """Count the spellings of each word of a training text that stand inside of sentences."""
    with work_folder(truecaser) as work:
        made = work / "truecaser"
        run("scripts/recaser/train-truecaser.perl", "--model", made, "--corpus", tokens.absolute(), work=work)
        shutil.move(made, truecaser)


def normalize_case(*, settings: NormalizeCase, cores: int, tokens: Path, truecaser: list[Path], text: Path) -> None:
    """Write each line of escaped tokens in true case, with a truecaser, or else in lower case.

    Raises DataError for an empty text: Moses would learn, or tune, from nothing.
    """
    lines = count_lines(tokens)
    if not any(line.strip() for line in read_lines(tokens)):
        raise DataError(
            "a text without words", where=tokens, expected="sentences", found=f"{lines} blank lines",
            next_step="give another text for this split; Moses neither learns nor tunes on blank lines",
        )  # fmt: skip
    if not truecaser:
        write_lines(text, (escape(unescape(line).lower()) for line in read_lines(tokens)))
        return
    with work_folder(text) as work:
        cased = work / "cased"
        run("scripts/recaser/truecase.perl", "--model", truecaser[0].absolute(), stdin=tokens, stdout=cased, work=work)
        # The script adds a blank to each line.
        write_lines(text, (line.strip(" ") for line in read_lines(cased)))
    what = "truecase.perl of Moses changed the number of lines"
    check_equal(lines, count_lines(text), what, where=tokens, next_step="see the log of this stage")


def restore_case(tokens: Path, cased: Path, work: Path) -> None:
    """Write the first word of each sentence, and after quotation marks, in upper case, as Moses' detruecaser does."""
    run("scripts/recaser/detruecase.perl", stdin=tokens, stdout=cased, work=work)
