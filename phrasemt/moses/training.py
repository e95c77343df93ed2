"""What a phrase-based system learns from the training pairs: true case, language model, word alignments, tables.

The stages `train_truecaser` and `normalize_case` write the tokens that Moses reads. A truecaser writes the first word
of a sentence as the training text writes it most often elsewhere. Tokens have Moses' escapes already
(phrasemt/symbols.py), so no character with a meaning in Moses' formats (`|`, `<`, `[`, `]`) reaches its programs.

`train_lm` runs KenLM with modified Kneser-Ney smoothing (Heafield et al. 2013). `align_words` runs fast_align, a
reparametrisation of IBM model 2 (Dyer et al. 2013), in both directions; Moses' own default is GIZA++ (IBM model 4).
`extract_phrase_table` extracts phrase pairs that are consistent with the alignment and scores them (Koehn, Och and
Marcu 2003; reordering: Koehn et al. 2005), by the steps 4 to 7 of Moses' train-model.perl.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

from phrasemt.errors import DataError, PhrasemtError, check_equal
from phrasemt.files.lines import count_lines, final_name, read_lines, read_parallel, write_atomic, write_lines
from phrasemt.files.system import work_folder
from phrasemt.moses.installation import run
from phrasemt.stages.moses import AlignWords, ExtractPhraseTable, NormalizeCase, TrainLm, TrainTruecaser
from phrasemt.symbols import escape, unescape

_ALIGN_LOG, _EXTRACT_LOG = (logging.getLogger(f"phrasemt.{stage}") for stage in ("align_words", "extract_phrase_table"))

LM_ORDER = 4  # of the language model of the target side
REORDERING = "msd-bidirectional-fe"  # lexicalised reordering: orientations, directions and conditions
# Of KenLM and of the sort program of the system; both use the disk beyond it. No result depends on it.
_MEMORY = "1G"
_LARGEST_RATIO = 9  # of the lengths of a pair, as in Moses' clean-corpus-n.perl
_LONGEST_PHRASE = 7  # words
_ALIGNMENT = "symmetrised"  # train-model.perl reads model/aligned.<this>


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


def train_lm(*, settings: TrainLm, cores: int, text: Path, language_model: Path) -> None:
    """Estimate a model of order 4 from all lines of a text; write it in KenLM's binary form (trie).

    Counts of counts of very small texts give no discounts; KenLM then takes its fallback (0.5, 1 and 1.5).
    """
    with work_folder(language_model) as work:
        arpa, binary = work / "arpa", work / "binary"
        run(
            "bin/lmplz", "-o", LM_ORDER, "-S", _MEMORY, "-T", work, "--discount_fallback",
            stdin=text, stdout=arpa, work=work,
        )  # fmt: skip
        run("bin/build_binary", "-T", work, "trie", arpa, binary, work=work)
        binary.replace(language_model)


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
        _ALIGN_LOG.info("align_words: %s of %s pairs", f"{kept:,}", f"{read:,}")
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
        if shorter >= 1 and longer <= max_words and longer <= _LARGEST_RATIO * shorter:
            yield source_line, target_line


def extract_phrase_table(
    *,
    settings: ExtractPhraseTable,
    cores: int,
    source: Path,
    target: Path,
    alignment: Path,
    phrase_table: Path,
    reordering_table: Path,
) -> None:
    """Extract and score all phrase pairs of up to seven words.

    phrase_table, reordering_table: gzip, in Moses' text formats.
    """
    with work_folder(phrase_table) as work:
        model = work / "model"
        model.mkdir()
        for name, path in (
            ("text.source", source),
            ("text.target", target),
            (f"model/aligned.{_ALIGNMENT}", alignment),
        ):
            (work / name).symlink_to(path.absolute())
        run(
            "scripts/training/train-model.perl", "-root-dir", work, "-corpus", work / "text", "-f", "source",
            "-e", "target", "-alignment", _ALIGNMENT, "-first-step", 4, "-last-step", 7,
            "-reordering", REORDERING, "-max-phrase-length", _LONGEST_PHRASE, "-temp-dir", work,
            "-cores", cores, "-sort-parallel", cores, "-sort-buffer-size", _MEMORY,
            work=work,
        )  # fmt: skip
        tables = (
            (model / "phrase-table.gz", phrase_table),
            (model / f"reordering-table.wbe-{REORDERING}.gz", reordering_table),
        )
        # A failed part of a pipeline in a script leaves a table that is cut off. Extraction writes each phrase pair
        # once, in order, to both tables, so a table of which a part is missing has fewer lines than the other.
        counts = [_count_entries(made) for made, _ in tables]
        if not counts[0] or counts[0] != counts[1]:
            raise PhrasemtError(
                "Moses wrote incomplete tables", where=final_name(phrase_table),
                expected="as many phrase pairs in the phrase table as in the reordering table",
                found=f"{counts[0]} and {counts[1]}", next_step="see the log of this stage, free space, and run again",
            )  # fmt: skip
        for made, path in tables:
            made.replace(path)
        _EXTRACT_LOG.info("extract_phrase_table: %s phrase pairs", f"{counts[0]:,}")


def _count_entries(table: Path) -> int:
    """The lines of a compressed table; 0 if it is missing, cut off or damaged."""
    try:
        with gzip.open(table, "rb") as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except (OSError, EOFError, zlib.error):
        return 0
