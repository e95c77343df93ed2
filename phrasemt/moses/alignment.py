"""The stage `align_words`: word alignments of the training pairs in both directions, symmetrised.

fast_align is a reparametrisation of IBM model 2 (Dyer et al. 2013). Moses' own default is GIZA++ (IBM model 4).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from phrasemt.errors import DataError, check_equal
from phrasemt.files.lines import count_lines, read_parallel, write_atomic
from phrasemt.files.system import work_folder
from phrasemt.moses.installation import run
from phrasemt.stages.moses import AlignWords

log = logging.getLogger("phrasemt.align_words")

LARGEST_RATIO = 9  # of the lengths of a pair, as in Moses' clean-corpus-n.perl


def align_words(
    *,
    settings: AlignWords,
    cores: int,
    source: Path,
    target: Path,
    kept_source: Path,
    kept_target: Path,
    alignment: Path,
) -> None:
    """Align the pairs with 1 to `max_words` words on each side, whose lengths differ at most by a factor of 9.

    kept_source, kept_target: these pairs. alignment: for each of them its links as `i-j`, source and target positions
    from 0. Raises DataError if no pair is kept.
    """
    kept = 0
    with work_folder(alignment) as work:
        both = work / "both"
        with contextlib.ExitStack() as stack:
            source_out, target_out, both_out = (
                stack.enter_context(write_atomic(path)) for path in (kept_source, kept_target, both)
            )
            for source_line, target_line in _usable(source, target, settings.max_words):
                source_out.write(f"{source_line}\n".encode())
                target_out.write(f"{target_line}\n".encode())
                both_out.write(f"{source_line} ||| {target_line}\n".encode())
                kept += 1
        read = count_lines(source)
        if not kept:
            raise DataError(
                "no training pair can be aligned", where=f"{source}, {target}",
                expected=f"pairs of 1 to {settings.max_words} words on each side", found=f"{read} other pairs",
                next_step="check the tokens of the data set, or raise max_words",
            )  # fmt: skip
        log.info("align_words: %s of %s pairs", f"{kept:,}", f"{read:,}")
        directions = [("forward", ()), ("reverse", ("-r",))]
        for name, more in directions:
            # -d: links near the diagonal; -o: how near is estimated; -v: a Dirichlet prior of translations
            run("bin/fast_align", "-i", both, "-d", "-o", "-v", *more, stdout=work / name, work=work)
        run(
            "bin/atools", "-i", work / "forward", "-j", work / "reverse", "-c", "grow-diag-final-and",
            stdout=work / "symmetrised", work=work,
        )  # fmt: skip
        what, next_step = "the aligner left out pairs", "see the log of this stage"
        check_equal(kept, count_lines(work / "symmetrised"), what, where=alignment, next_step=next_step)
        (work / "symmetrised").replace(alignment)


def _usable(source: Path, target: Path, max_words: int) -> Iterator[tuple[str, str]]:
    for source_line, target_line in read_parallel(source, target):
        shorter, longer = sorted((len(source_line.split()), len(target_line.split())))
        if shorter >= 1 and longer <= max_words and longer <= LARGEST_RATIO * shorter:
            yield source_line, target_line
