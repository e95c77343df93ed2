"""What the stages of phrase-based systems call Moses with, and what they do when it fails."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from recorded_moses import RecordedMoses
from stage_settings import arguments_of

from phrasemt.errors import DataError, PhrasemtError
from phrasemt.moses.decoding import translate_with_moses, tune_moses
from phrasemt.moses.installation import program_versions
from phrasemt.moses.training import align_words, extract_phrase_table, normalize_case, train_lm, train_truecaser
from phrasemt.stages.moses import (
    AlignWords,
    ExtractPhraseTable,
    NormalizeCase,
    TrainLm,
    TrainTruecaser,
    TranslateWithMoses,
    TuneMoses,
)
from phrasemt.study.rows import MosesModel, Tuning
from phrasemt.study.tokenization import Tokenizer

TABLES = ("language_model", "phrase_table", "reordering_table")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedMoses:
    """Programs that note how they are called."""
    moses = RecordedMoses(tmp_path / "moses")
    monkeypatch.setenv("PHRASEMT_MOSES", str(moses.folder))
    return moses


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Inputs by name; other names are outputs in the same folder."""
    contents = {"source": "a b\n\nc &#124; d\n", "target": "A B\n\nC D\n", "reference": "x\n\ny\n"}
    contents |= {name: name for name in TABLES}
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in contents}


def _tune(files: dict[str, Path], folder: Path, **tuning: Any) -> Path:
    settings = TuneMoses.model_validate({"tuning": Tuning(**tuning), "seed": 7})
    weights, state = folder / "weights.json", folder / "state"
    inputs = {name: files[name] for name in (*TABLES, "source", "reference")}
    tune_moses(settings=settings, cores=2, weights=weights, state=state, **inputs)
    return weights


def _translate(files: dict[str, Path], folder: Path, weights: list[Path], case: str = "truecase") -> list[str]:
    tokenizer = Tokenizer.for_language("de")
    model = MosesModel.model_validate({"family": "moses", "case": case})
    settings = TranslateWithMoses(model=model, target_tokenizer=tokenizer)
    tokens, text = folder / "out.tok", folder / "out.txt"
    inputs = {name: files[name] for name in (*TABLES, "source")}
    translate_with_moses(settings=settings, cores=1, weights=weights, tokens=tokens, text=text, **inputs)
    assert len(text.read_text().split("\n")) == len(tokens.read_text().split("\n"))
    return tokens.read_text().split("\n")[:-1]


def test_language_model(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    train_lm(settings=TrainLm(), cores=1, text=files["target"], language_model=tmp_path / "lm")
    lmplz, binary = recorded.calls
    assert lmplz["argv"] == ["-o", "4", "-S", "1G", "-T", f"{tmp_path}/lm.work", "--discount_fallback"]
    work = f"{tmp_path}/lm.work"
    assert binary["argv"] == ["-T", work, "trie", f"{work}/arpa", f"{work}/binary"]
    assert (tmp_path / "lm").read_text() == "binary"
    assert not (tmp_path / "lm.work").exists()
    assert {call["LC_ALL"] for call in recorded.calls} == {"C"}


def test_alignment_both_ways_of_pairs_that_have_words(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path
) -> None:
    long = " ".join(["w"] * 200)
    files["source"].write_text(f"a b\n\n{long}\na\nc d\n")
    files["target"].write_text(f"A B\nX\n{long}\n{' '.join('bcdefghijk')}\nC D\n")
    outputs = {name: tmp_path / name for name in ("kept_source", "kept_target", "alignment")}
    settings = AlignWords(max_words=80)
    align_words(settings=settings, cores=1, source=files["source"], target=files["target"], **outputs)
    # A blank side, 200 words, and 1 word beside 10 are left out; 1 beside 9 would stay.
    assert outputs["kept_source"].read_text() == "a b\nc d\n"
    assert outputs["kept_target"].read_text() == "A B\nC D\n"
    assert outputs["alignment"].read_text() == "0-0\n0-0\n"
    work = f"{tmp_path}/alignment.work"
    assert [(call["program"], call["argv"]) for call in recorded.calls] == [
        ("bin/fast_align", ["-i", f"{work}/both", "-d", "-o", "-v"]),
        ("bin/fast_align", ["-i", f"{work}/both", "-d", "-o", "-v", "-r"]),
        ("bin/atools", ["-i", f"{work}/forward", "-j", f"{work}/reverse", "-c", "grow-diag-final-and"]),
    ]


def test_no_pair_to_align(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    files["source"].write_text("\n\n\n")
    settings = AlignWords(max_words=80)
    with pytest.raises(DataError, match="no training pair can be aligned"):
        align_words(
            settings=settings, cores=1, source=files["source"], target=files["target"],
            kept_source=tmp_path / "a", kept_target=tmp_path / "b", alignment=tmp_path / "c",
        )  # fmt: skip
    assert not recorded.calls


def _extract(files: dict[str, Path], folder: Path) -> None:
    (folder / "alignment").write_text("0-0\n\n0-0\n")
    extract_phrase_table(
        settings=ExtractPhraseTable(), cores=3,
        source=files["source"], target=files["target"], alignment=folder / "alignment",
        phrase_table=folder / "pt.gz", reordering_table=folder / "rt.gz",
    )  # fmt: skip


def test_phrase_table(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    _extract(files, tmp_path)
    (call,) = recorded.calls
    work = f"{tmp_path}/pt.gz.work"
    assert call["argv"] == [
        "-root-dir", work, "-corpus", f"{work}/text", "-f", "source", "-e", "target", "-alignment", "symmetrised",
        "-first-step", "4", "-last-step", "7", "-reordering", "msd-bidirectional-fe", "-max-phrase-length", "7",
        "-temp-dir", work, "-cores", "3", "-sort-parallel", "3", "-sort-buffer-size", "1G",
    ]  # fmt: skip
    assert gzip.decompress((tmp_path / "pt.gz").read_bytes()).count(b"\n") == 3


@pytest.mark.parametrize(
    "plan",
    [
        # A part of the script's pipeline fails, and the script ends well.
        "import sys; sys.stderr.write('sort: write failed: /tmp/sortAb1: No space left on device\\n')",
        "import sys; sys.stderr.write('gzip: stdout: No space left on device\\n'); sys.exit(1)",
    ],
)
def test_a_disk_that_fills_while_the_table_is_sorted(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path, plan: str
) -> None:
    recorded.plan(plan)
    with pytest.raises(PhrasemtError, match="No space left"):
        _extract(files, tmp_path)
    assert not (tmp_path / "pt.gz").exists()
    assert not (tmp_path / "pt.gz.work").exists()


def test_tables_that_are_cut_off_are_refused(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    program = recorded.folder / "scripts/training/train-model.perl"
    program.write_text(program.read_text() + 'open(after("-root-dir") / "model/phrase-table.gz", "r+b").truncate(40)\n')
    with pytest.raises(PhrasemtError, match=r"incomplete tables.*found 0 and 3"):
        _extract(files, tmp_path)


@pytest.mark.parametrize(
    ("tuner", "flags", "runs"),
    [
        ("mira", ["--batch-mira", "--batch-mira-args=-r 7"], 5),
        ("mert", ["--mertmertargs=-r 7"], 5),
        ("mira", ["--batch-mira", "--batch-mira-args=-r 7"], 3),
    ],
)
def test_tuning(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path, tuner: str, flags: list[str], runs: int
) -> None:
    weights = json.loads(_tune(files, tmp_path, tuner=tuner, runs=runs).read_text())
    assert (weights["bleu"], weights["run"], weights["runs"]) == (41.25, 2, min(runs, 4))  # mert-moses.pl notes 4
    assert weights["weights"]["LM0"] == [0.25]
    assert weights["weights"]["LexicalReordering0"] == [0.3] * 6
    (call,) = recorded.calls
    (work,) = {Path(argument).parent for argument in call["argv"][:2]}
    folder = recorded.folder
    assert call["argv"] == [
        f"{work}/source", f"{work}/reference", f"{folder}/bin/moses", f"{work}/untuned.ini", "--mertdir",
        f"{folder}/bin", "--rootdir", f"{folder}/scripts", "--working-dir", f"{work}", "--decoder-flags=-threads 2",
        "--nbest", "100", "--return-best-dev", f"--maximum-iterations={runs}", *flags,
    ]  # fmt: skip
    assert work.parent == tmp_path / "state"
    assert not work.exists()  # a finished tuning leaves no n-best lists


@pytest.mark.parametrize("change", ["", "tuner", "text"])
def test_a_tuning_that_failed_goes_on_with_its_finished_runs(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path, change: str
) -> None:
    recorded.plan("import sys; (after('--working-dir') / 'finished_step.txt').write_text('3'); sys.exit(9)")
    with pytest.raises(PhrasemtError, match=r"mert-moses.pl of Moses failed \(found exit code 9"):
        _tune(files, tmp_path)
    recorded.plan("")
    if change == "text":
        files["source"].write_text("other\n")
    _tune(files, tmp_path, runs=9, tuner="mert" if change == "tuner" else "mira")  # more runs of the same tuning
    assert ["--continue" in call["argv"] for call in recorded.calls] == [False, not change]


def test_a_tuning_killed_in_its_first_run_begins_anew(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path
) -> None:
    recorded.plan("import sys; (after('--working-dir') / 'filtered').mkdir(); sys.exit(9)")
    with pytest.raises(PhrasemtError):
        _tune(files, tmp_path)
    recorded.plan("assert not (after('--working-dir') / 'filtered').exists()")
    _tune(files, tmp_path)


def test_the_decoder_of_a_killed_run_keeps_others_out(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path
) -> None:
    """Only phrasemt is killed; the program that it started goes on and still writes into the folder."""
    started = tmp_path / "started"
    recorded.plan(f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")
    settings = TuneMoses.model_validate({"tuning": Tuning(), "seed": 7})
    inputs = {name: files[name] for name in (*TABLES, "source", "reference")}
    places = inputs | {"weights": tmp_path / "weights.json", "state": tmp_path / "state"}
    command = [sys.executable, "-m", "phrasemt", *arguments_of("tune_moses", settings, **places)]
    victim = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while not started.exists():
            assert victim.poll() is None
            time.sleep(0.05)
        victim.kill()
        victim.wait()
        recorded.plan("")
        with pytest.raises(PhrasemtError, match="another process tunes here"):
            _tune(files, tmp_path)
    finally:
        victim.kill()
        for process in psutil.process_iter(["cmdline"]):
            if any(word.startswith(str(recorded.folder)) for word in process.info["cmdline"] or []):
                process.kill()


def test_translation(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    assert _translate(files, tmp_path, []) == ["A b", "", "C &#124; d"]  # a blank source has a blank translation
    filtering, decoding, _ = recorded.calls
    work = f"{tmp_path}/out.tok.work"
    assert filtering["argv"] == [f"{work}/filtered", f"{work}/moses.ini", f"{work}/source"]
    assert decoding["argv"] == [
        "-threads", "1", "-config", f"{work}/filtered/moses.ini", "-input-file", f"{work}/source",
    ]  # fmt: skip
    assert (tmp_path / "out.txt").read_text() == "A b\n\nC | d\n"
    assert _translate(files, tmp_path, [], case="lower") == ["a b", "", "c &#124; d"]
    assert recorded.calls[-1]["program"] == "bin/moses"
    files["source"].write_text("\n\n")
    assert _translate(files, tmp_path, []) == ["", ""]
    assert len(recorded.calls) == 5  # nothing to decode


def test_tuned_weights_reach_the_decoder(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    weights = _tune(files, tmp_path)
    recorded.plan("if '-config' in argv: (root / 'ini').write_text(after('-config').read_text())")
    _translate(files, tmp_path, [weights])
    ini = (recorded.folder / "ini").read_text()
    assert "LM0= 0.25\n" in ini
    assert all(Path(path).is_absolute() for path in re.findall(r"path=(\S+)", ini))


def test_a_decoder_that_leaves_out_a_sentence(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    recorded.plan("if '-input-file' in argv: after('-input-file').write_text('a b\\n')")
    with pytest.raises(PhrasemtError, match=r"left out sentences \(expected 2, found 1\)"):
        _translate(files, tmp_path, [], case="lower")


def test_texts_in_true_case_and_in_lower_case(recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path) -> None:
    train_truecaser(settings=TrainTruecaser(), cores=1, tokens=files["target"], truecaser=tmp_path / "truecaser")
    text = tmp_path / "text"
    normalize_case(
        settings=NormalizeCase(), cores=1, tokens=files["target"], truecaser=[tmp_path / "truecaser"], text=text
    )
    assert text.read_text() == "A B\n\nC D\n"
    assert recorded.calls[1]["argv"] == ["--model", f"{tmp_path}/truecaser"]
    files["target"].write_text("ÄRGER &quot; &#91;\n")
    normalize_case(settings=NormalizeCase(), cores=1, tokens=files["target"], truecaser=[], text=text)
    assert text.read_text() == "ärger &quot; &#91;\n"


def test_no_moses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PHRASEMT_MOSES", raising=False)
    with pytest.raises(PhrasemtError, match=r"PHRASEMT_MOSES: this stage needs Moses.*Next: build it \(`make moses`"):
        program_versions(["bin/lmplz"])
    monkeypatch.setenv("PHRASEMT_MOSES", str(tmp_path / "nowhere"))
    with pytest.raises(PhrasemtError, match="no such folder"):
        program_versions(["bin/lmplz"])


def test_the_last_message_of_a_program_that_fails(
    recorded: RecordedMoses, files: dict[str, Path], tmp_path: Path
) -> None:
    recorded.plan(
        "import sys; sys.stderr.write('Last input should have been poison.\\nbad discount\\n'); sys.exit(134)"
    )
    with pytest.raises(PhrasemtError, match=r"bin/lmplz of Moses failed .*exit code 134, 'bad discount'"):
        train_lm(settings=TrainLm(), cores=1, text=files["target"], language_model=tmp_path / "lm")
