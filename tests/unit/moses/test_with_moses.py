"""What the real Moses makes of what the stages give it, against slow programs that follow the definitions.

These tests need a Moses (`make moses`, PHRASEMT_MOSES) and are skipped without it.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import sacremoses
from stage_settings import arguments_of

from phrasemt.moses.decoding import UNTUNED_WEIGHTS, moses_ini, translate_with_moses, tune_moses, weights_of_ini
from phrasemt.moses.installation import MOSES, run
from phrasemt.moses.training import REORDERING, align_words, extract_phrase_table, train_lm  # fmt: skip
from phrasemt.stages.moses import AlignWords, ExtractPhraseTable, TrainLm, TranslateWithMoses, TuneMoses
from phrasemt.study.rows import MosesModel, Tuning
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import escape, unescape

SPECIAL = "&|<>'\"[]"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where there is no Moses with these programs."""
    folder = Path(os.environ.get(MOSES) or "nowhere")
    missing = [name for name in programs if not os.access(folder / name, os.X_OK)]
    return pytest.mark.skipif(bool(missing), reason=f"{MOSES} names no Moses with {', '.join(missing)}")


ESCAPES = ("scripts/tokenizer/escape-special-chars.perl", "scripts/tokenizer/deescape-special-chars.perl")


@needs(*ESCAPES)
def test_escapes_are_those_of_moses_and_of_sacremoses(tmp_path: Path) -> None:
    """Every special character, alone, in words, in pairs, and escapes that the text itself holds."""
    lines = [*SPECIAL, *(f"a{one}b" for one in SPECIAL), *map("".join, itertools.product(SPECIAL, repeat=2))]
    lines += [escape(line) for line in SPECIAL] + ["&amp;lt;", "&bar;", "&#91", "AT&T", "a &amp b"]
    text, escaped, back = tmp_path / "text", tmp_path / "escaped", tmp_path / "back"
    text.write_text("".join(f"{line}\n" for line in lines))
    run(ESCAPES[0], stdin=text, stdout=escaped, work=tmp_path)
    run(ESCAPES[1], stdin=escaped, stdout=back, work=tmp_path)
    of_moses = escaped.read_text().split("\n")[:-1]
    assert [escape(line) for line in lines] == of_moses
    assert [sacremoses.MosesTokenizer().escape_xml(line) for line in lines] == of_moses
    assert [unescape(line) for line in of_moses] == lines
    # Moses' script replaces one escape after another, &amp; last, as `unescape` does at once.
    assert back.read_text().split("\n")[:-1] == lines


def _parallel(seed: int, count: int) -> tuple[list[list[str]], list[list[str]], list[set[tuple[int, int]]]]:
    """Pairs by a dictionary of 40 words, with two neighbours swapped in some, and their links."""
    draw = random.Random(seed)
    sources, targets, links = [], [], []
    for _ in range(count):
        source = [draw.randrange(40) for _ in range(draw.randint(2, 8))]
        order = list(range(len(source)))
        if draw.random() < 0.3:
            place = draw.randrange(len(order) - 1)
            order[place], order[place + 1] = order[place + 1], order[place]
        sources.append([f"s{word}" for word in source])
        targets.append([f"t{source[position]}" for position in order])
        links.append({(position, place) for place, position in enumerate(order)})
    return sources, targets, links


def _write(path: Path, sentences: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join(f"{' '.join(sentence)}\n" for sentence in sentences))
    return path


def _align(
    folder: Path, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[set[tuple[int, int]]]:
    align_words(
        settings=AlignWords(max_words=80), cores=1,
        source=_write(folder / "source", sources), target=_write(folder / "target", targets),
        kept_source=folder / "kept.source", kept_target=folder / "kept.target", alignment=folder / "alignment",
    )  # fmt: skip
    return [
        {(int(i), int(j)) for i, j in (link.split("-") for link in line.split())}
        for line in (folder / "alignment").read_text().split("\n")[:-1]
    ]


@needs("bin/fast_align", "bin/atools")
def test_words_are_aligned(tmp_path: Path) -> None:
    """Nearly all links of a text without ambiguity are found."""
    sources, targets, links = _parallel(3, 400)
    found = _align(tmp_path, sources, targets)
    right = sum(len(one & other) for one, other in zip(found, links, strict=True))
    assert right / sum(map(len, links)) > 0.97
    assert right / sum(map(len, found)) > 0.97


EXTRACT = ("bin/extract", "bin/score", "bin/consolidate", "bin/lexical-reordering-score")


@needs("scripts/training/train-model.perl")
def test_features_and_untuned_weights_are_those_of_train_model(tmp_path: Path) -> None:
    (tmp_path / "lm").touch()
    run(
        "scripts/training/train-model.perl", "-root-dir", tmp_path, "-corpus", tmp_path / "text", "-f", "source", "-e",
        "target", "-alignment", "any", "-first-step", 9, "-last-step", 9, "-reordering", REORDERING,
        "-lm", f"0:4:{tmp_path}/lm:8", work=tmp_path,
    )  # fmt: skip
    theirs = (tmp_path / "model/moses.ini").read_text()
    tables = (tmp_path / "model/phrase-table.gz", tmp_path / f"model/reordering-table.wbe-{REORDERING}.gz")
    ours = moses_ini(tmp_path / "lm", *tables, UNTUNED_WEIGHTS)

    def features(ini: str) -> list[str]:
        return [line for line in ini.split("[feature]")[1].split("[weight]")[0].split("\n") if line and line[0] != "#"]

    assert features(ours) == features(theirs)
    (tmp_path / "ours.ini").write_text(ours)
    assert weights_of_ini(tmp_path / "ours.ini") == weights_of_ini(tmp_path / "model/moses.ini")


DECODER = (
    *("bin/lmplz", "bin/build_binary", "bin/fast_align", "bin/atools", *EXTRACT, "bin/moses", "bin/extractor"),
    *("bin/mert", "bin/pro", "bin/kbmira", "bin/evaluator", "scripts/training/mert-moses.pl"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A phrase-based model of a corpus without ambiguity, and dev, by the names of the stages' inputs."""
    folder = tmp_path_factory.mktemp("trained")
    sources, targets, _ = _parallel(6, 500)
    _align(folder, sources[40:], targets[40:])
    train_lm(settings=TrainLm(), cores=1, text=folder / "target", language_model=folder / "lm")
    extract_phrase_table(
        settings=ExtractPhraseTable(), cores=1,
        source=folder / "kept.source", target=folder / "kept.target", alignment=folder / "alignment",
        phrase_table=folder / "pt.gz", reordering_table=folder / "rt.gz",
    )  # fmt: skip
    return {
        "language_model": folder / "lm",
        "phrase_table": folder / "pt.gz",
        "reordering_table": folder / "rt.gz",
        "source": _write(folder / "dev.source", sources[:40]),
        "reference": _write(folder / "dev.target", targets[:40]),
    }


_MODEL = MosesModel(family="moses")


def _translate(trained: dict[str, Path], source: Path, folder: Path, weights: list[Path], cores: int = 1) -> list[str]:
    settings = TranslateWithMoses(model=_MODEL, target_tokenizer=Tokenizer.for_language("de"))
    translate_with_moses(
        settings=settings, cores=cores, weights=weights, tokens=folder / "out.tok", text=folder / "out.txt",
        **{**{name: path for name, path in trained.items() if name != "reference"}, "source": source},
    )  # fmt: skip
    return (folder / "out.tok").read_text().split("\n")[:-1]


@needs(*DECODER)
def test_translations_of_any_text(trained: dict[str, Path], tmp_path: Path) -> None:
    """Known words, signs of Moses' formats, a blank line, and 200 words."""
    special = escape("a | ||| [b] <c> </s> 'd' \"e\" & &amp; [X][X] <unk>")
    lines = ["s1 s2 s3", special, "", " ".join(["s1"] * 200)]
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in lines))
    one = _translate(trained, source, tmp_path, [])
    assert one[0].lower() == "t1 t2 t3"
    assert sorted(one[1].lower().split()) == sorted(special.lower().split())  # unknown words are copied
    assert (one[2], len(one[3].split())) == ("", 200)
    assert _translate(trained, source, tmp_path, [], cores=2) == one


def _tuning(folder: Path, runs: int, tuner: str, seed: int) -> tuple[TuneMoses, dict[str, Path]]:
    tuning = Tuning.model_validate({"tuner": tuner, "runs": runs})
    settings = TuneMoses(tuning=tuning, seed=seed)
    return settings, {"weights": folder / "weights.json", "state": folder / "state"}


@needs(*DECODER)
@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["mira", "mert"])
def test_a_killed_tuning_ends_with_the_same_weights(trained: dict[str, Path], tmp_path: Path, tuner: str) -> None:
    (tmp_path / "whole").mkdir()
    settings, places = _tuning(tmp_path / "whole", 3, tuner, 1)
    tune_moses(settings=settings, cores=1, **trained, **places)
    whole = json.loads(places["weights"].read_text())
    assert 0 < whole["bleu"] <= 100
    (tmp_path / "killed").mkdir()
    settings, places = _tuning(tmp_path / "killed", 3, tuner, 1)
    command = [sys.executable, "-m", "phrasemt", *arguments_of("tune_moses", settings, **trained, **places)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as victim:
        while not list(places["state"].glob("*/finished_step.txt")):
            assert victim.poll() is None
            time.sleep(0.02)
        victim.send_signal(signal.SIGTERM)
    assert not places["weights"].exists()
    tune_moses(settings=settings, cores=1, **trained, **places)
    assert json.loads(places["weights"].read_text()) == whole
