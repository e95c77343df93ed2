"""The stage `tune_moses`: weights of the features by Moses' mert-moses.pl on dev.

Each run decodes dev, adds the n-best lists to those of the runs before, and searches better weights on them: by MERT
(Och 2003) or by batch MIRA (Cherry and Foster 2012). Of the weights that dev was decoded with, the untuned ones
included, those with the best BLEU on dev (by Moses' own scorer, on the tokens that Moses reads) are kept.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.moses import TunedWeights
from phrasemt.errors import PhrasemtError
from phrasemt.files.digests import digest_bytes, digest_file
from phrasemt.files.lines import write_text
from phrasemt.files.system import try_lock
from phrasemt.moses.configuration import moses_ini, untuned_weights, weights_of_ini
from phrasemt.moses.installation import moses_folder, program, run
from phrasemt.stages.moses import TuneMoses

_N_BEST = 100  # translations of each sentence that the tuner reads

log = logging.getLogger("phrasemt.tune_moses")

_BEST = re.compile(r"copying weights from best iteration \((\d+), bleu=([\d.eE+-]+)\)")
_FINISHED = "finished_step.txt"  # of mert-moses.pl: number of the last run that ended


def tune_moses(
    *,
    settings: TuneMoses,
    cores: int,
    language_model: Path,
    phrase_table: Path,
    reordering_table: Path,
    source: Path,
    reference: Path,
    weights: Path,
    state: Path,
) -> None:
    """Tune the weights on dev; a tuning that was killed goes on after its last finished run.

    source, reference: dev. weights: JSON with the weights by feature, the run
    whose weights they are, and its BLEU on dev (0 to 100). state: a folder that stays between runs, empty at the end.
    Raises PhrasemtError if another process tunes here.
    """
    tables = (language_model, phrase_table, reordering_table)
    ini = moses_ini(settings.model, settings.decoding, *tables, untuned_weights())
    work = state.absolute() / _digest(settings, ini, *tables, source, reference)
    with _alone(state) as lock:
        _clear(state, keep=work)
        goes_on = (work / _FINISHED).is_file()
        if not goes_on:
            # Files of a first run that did not end (a half-filtered table) would be taken for finished ones.
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            write_text(work / "untuned.ini", ini)
            shutil.copyfile(source, work / "source")
            shutil.copyfile(reference, work / "reference")
        else:
            log.info("tune_moses: goes on after run %s", (work / _FINISHED).read_text(encoding="utf-8").strip())
        arguments = _arguments(settings, cores, work, goes_on=goes_on)
        best = _BEST.findall(run("scripts/training/mert-moses.pl", *arguments, work=work, kept_open=[lock]))
        if not best:
            raise PhrasemtError("mert-moses.pl of Moses ended without weights", where=work)
        run_number, bleu = best[-1]
        result = TunedWeights(
            bleu=round(100 * float(bleu), 4),
            run=int(run_number),
            # The script counts one more when it ends because the largest number is reached.
            runs=min(int((work / _FINISHED).read_text(encoding="utf-8")), settings.tuning.runs),
            weights=weights_of_ini(work / "moses.ini"),
        )
        result.write(weights)
        log.info("tune_moses: run %s of %s is the best, BLEU on dev %.2f", result.run, result.runs, result.bleu)
        shutil.rmtree(work)


def _digest(settings: TuneMoses, ini: str, *files: Path) -> str:
    """What decides the n-best lists and the weights after each run. More runs only go further."""
    tuning = settings.tuning
    made_of = [ini, tuning.tuner, str(settings.seed), *map(digest_file, files)]
    return digest_bytes("\n".join(made_of).encode())[:16]


def _arguments(settings: TuneMoses, cores: int, work: Path, *, goes_on: bool) -> list[object]:
    seed = f"-r {settings.seed}"
    tuner = {"mert": [f"--mertmertargs={seed}"], "mira": ["--batch-mira", f"--batch-mira-args={seed}"]}[
        settings.tuning.tuner
    ]
    folder = moses_folder()
    return [
        work / "source", work / "reference", program("bin/moses"),
        work / "untuned.ini", "--mertdir", folder / "bin", "--rootdir", folder / "scripts", "--working-dir", work,
        f"--decoder-flags=-threads {cores}", "--nbest", _N_BEST, "--return-best-dev",
        f"--maximum-iterations={settings.tuning.runs}", *tuner, *(["--continue"] if goes_on else []),
    ]  # fmt: skip


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[int]:
    """A lock on the state folder, as a file descriptor.

    Moses' processes inherit it. When only phrasemt is killed, they may go on, and would write into the same files.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as stream:
        if not try_lock(stream):
            raise PhrasemtError(
                "another process tunes here, perhaps the decoder of a killed run", where=state,
                next_step="wait for its end, or end `moses` and `mert-moses.pl`, then run again",
            )  # fmt: skip
        yield stream.fileno()


def _clear(state: Path, *, keep: Path) -> None:
    """Remove what tunings with other settings or other tables left."""
    for folder in state.iterdir():
        if folder.is_dir() and folder.name != keep.name:
            shutil.rmtree(folder)
