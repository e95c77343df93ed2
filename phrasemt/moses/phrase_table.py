"""The stage `extract_phrase_table`: phrase pairs that are consistent with the word alignment, and their scores.

Koehn, Och and Marcu 2003; the reordering model is Koehn et al. 2005. Steps 4 to 7 of Moses' train-model.perl.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from pathlib import Path

from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import final_name
from phrasemt.files.system import work_folder
from phrasemt.moses.configuration import REORDERING
from phrasemt.moses.installation import run
from phrasemt.stages.moses import ExtractPhraseTable

_LONGEST_PHRASE = 7  # words

log = logging.getLogger("phrasemt.extract_phrase_table")

# Of the sort program of the system, which uses the disk beyond it.
_MEMORY = "1G"
_ALIGNMENT = "symmetrised"  # train-model.perl reads model/aligned.<this>


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
        log.info("extract_phrase_table: %s phrase pairs", f"{counts[0]:,}")


def _count_entries(table: Path) -> int:
    """The lines of a compressed table; 0 if it is missing, cut off or damaged."""
    try:
        with gzip.open(table, "rb") as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except (OSError, EOFError, zlib.error):
        return 0
