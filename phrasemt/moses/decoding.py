"""moses.ini, the stage `tune_moses` and the stage `translate_with_moses`.

A translation maximises the weighted sum of its features (Koehn, Och and Marcu 2003). The features and untuned weights
are those that Moses' train-model.perl writes by default; a test compares both files.

Tuning: each run of mert-moses.pl decodes dev, adds the n-best lists to those of earlier runs, and searches better
weights on them, by MERT (Och 2003) or by batch MIRA (Cherry and Foster 2012). Of all weights that decoded dev, the
untuned ones included, those with the best BLEU on dev win (Moses' own scorer, on the tokens that Moses reads).
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from phrasemt.artefacts.training import TunedWeights
from phrasemt.errors import PhrasemtError, check_equal
from phrasemt.files.lines import read_lines, write_lines, write_text
from phrasemt.files.system import digest_bytes, digest_file, try_lock, work_folder
from phrasemt.moses.installation import moses_folder, program, run
from phrasemt.moses.training import LM_ORDER, REORDERING
from phrasemt.stages.moses import TranslateWithMoses, TuneMoses
from phrasemt.symbols import escape, unescape
from phrasemt.text.tokenize import line_detokenizer

_TUNE_LOG, _TRANSLATE_LOG = (logging.getLogger(f"phrasemt.{stage}") for stage in ("tune_moses", "translate_with_moses"))

# Moses' defaults: hypotheses for each number of translated words, and the longest jump between two phrases in words.
_STACK, _DISTORTION_LIMIT = "200", "6"
_N_BEST = 100  # translations of each sentence that the tuner reads
_BEST = re.compile(r"copying weights from best iteration \((\d+), bleu=([\d.eE+-]+)\)")
_FINISHED = "finished_step.txt"  # of mert-moses.pl: number of the last run that ended
_REORDERING_SCORES = 6
Weights = Mapping[str, list[float]]  # of each feature of moses.ini, by its name
# With which train-model.perl begins.
UNTUNED_WEIGHTS: Weights = {
    "UnknownWordPenalty0": [1.0],
    "WordPenalty0": [-1.0],
    "PhrasePenalty0": [0.2],
    "TranslationModel0": [0.2] * 4,
    "LexicalReordering0": [0.3] * _REORDERING_SCORES,
    "Distortion0": [0.3],
    "LM0": [0.5],
}


def moses_ini(language_model: Path, phrase_table: Path, reordering_table: Path, weights: Weights) -> str:
    """The text of moses.ini, with absolute paths."""
    lines = [
        "[input-factors]",
        "0",
        "[mapping]",
        "0 T 0",
        "[distortion-limit]",
        _DISTORTION_LIMIT,
        "[stack]",
        _STACK,
        "[feature]",
        "UnknownWordPenalty",
        "WordPenalty",
        "PhrasePenalty",
        f"PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={phrase_table.absolute()} input-factor=0 "
        "output-factor=0",
        f"LexicalReordering name=LexicalReordering0 num-features={_REORDERING_SCORES} "
        f"type=wbe-{REORDERING}-allff input-factor=0 output-factor=0 path={reordering_table.absolute()}",
        "Distortion",
        f"KENLM name=LM0 factor=0 path={language_model.absolute()} order={LM_ORDER}",
        "[weight]",
        *(f"{name}= {' '.join(map(str, values))}" for name, values in weights.items()),
    ]
    return "\n".join(lines) + "\n"


def weights_of_ini(path: Path) -> dict[str, list[float]]:
    """The section [weight] of a moses.ini. Raises PhrasemtError if it has none."""
    weights: dict[str, list[float]] = {}
    section = ""
    for line in map(str.strip, read_lines(path)):
        if line.startswith("["):
            section = line
        elif section == "[weight]" and "=" in line and not line.startswith("#"):
            name, values = line.split("=", 1)
            weights[name.strip()] = [float(value) for value in values.split()]
    if not weights:
        raise PhrasemtError("no weights of features", where=path, expected="a section [weight]")
    return weights


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

    source, reference: dev. weights: the weights by feature, their run, and its BLEU on dev (0 to 100). state: a folder
    that stays between runs, empty at the end. Raises PhrasemtError if another process tunes here.
    """
    tables = (language_model, phrase_table, reordering_table)
    ini = moses_ini(*tables, UNTUNED_WEIGHTS)
    work = state.absolute() / _digest(settings, ini, *tables, source, reference)
    with _alone(state) as lock:
        for folder in state.iterdir():  # what tunings with other settings or other tables left
            if folder.is_dir() and folder.name != work.name:
                shutil.rmtree(folder)
        goes_on = (work / _FINISHED).is_file()
        if not goes_on:
            # Files of a first run that did not end (a half-filtered table) would be taken for finished ones.
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            write_text(work / "untuned.ini", ini)
            shutil.copyfile(source, work / "source")
            shutil.copyfile(reference, work / "reference")
        else:
            _TUNE_LOG.info("tune_moses: goes on after run %s", (work / _FINISHED).read_text(encoding="utf-8").strip())
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
        _TUNE_LOG.info("tune_moses: run %s of %s is the best, BLEU on dev %.2f", result.run, result.runs, result.bleu)
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


def translate_with_moses(
    *,
    settings: TranslateWithMoses,
    cores: int,
    weights: list[Path],
    language_model: Path,
    phrase_table: Path,
    reordering_table: Path,
    source: Path,
    tokens: Path,
    text: Path,
) -> None:
    """Translate each line of a split; the translation of a blank line is blank (T6).

    weights: the tuned ones; without a file, the untuned ones. tokens: with the first word in upper case if the system
    has a truecaser. text: detokenised. Raises PhrasemtError if the decoder leaves out a sentence.
    """
    values = TunedWeights.read(weights[0]).weights if weights else UNTUNED_WEIGHTS
    ini = moses_ini(language_model, phrase_table, reordering_table, values)
    lines = [line.strip() for line in read_lines(source)]
    with work_folder(tokens) as work:
        write_text(work / "moses.ini", ini)
        found = iter(_decode([line for line in lines if line], work, cores, cased=settings.model.case == "truecase"))
        best = [next(found) if line else "" for line in lines]
    write_lines(tokens, best)
    write_lines(text, map(line_detokenizer(settings.target_tokenizer), best))
    _TRANSLATE_LOG.info(
        "translate_with_moses: %d sentences, %d words", len(best), sum(len(line.split()) for line in best)
    )


def _decode(sentences: list[str], work: Path, cores: int, *, cased: bool) -> list[str]:
    """The translation of each sentence, as escaped tokens. cased: begin it in upper case."""
    if not sentences:
        return []
    source, best, filtered = work / "source", work / "best", work / "filtered"
    write_lines(source, sentences)
    run("scripts/training/filter-model-given-input.pl", filtered, work / "moses.ini", source, work=work)
    run(
        "bin/moses", "-threads", cores, "-config", filtered / "moses.ini", "-input-file", source, stdout=best, work=work
    )
    if cased:
        # The first word of each sentence, and after quotation marks.
        run("scripts/recaser/detruecase.perl", stdin=best, stdout=work / "cased", work=work)
        best = work / "cased"
    # Unknown words are copied from the source, and its tokens may be written without escapes.
    found = [escape(unescape(line.strip())) for line in read_lines(best)]
    what, next_step = "the decoder left out sentences", "see the log of this stage"
    check_equal(len(sentences), len(found), what, where=source.parent, next_step=next_step)
    return found
