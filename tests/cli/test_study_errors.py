"""What a user reads about a wrong study: each mistake with its place, what was found, what is allowed, what is near."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from warm_python import WarmPython

from phrasemt.cli import main
from phrasemt.study.architectures import file_of

RIGHT = """\
study: small
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {train: 10, dev: 10, test: 10}
systems:
  base:
    model: {family: transformer, width: 16, heads: 2}
"""


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    returncode: int


Check = Callable[..., Done]
Snakemake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Checks a study, or the file of a name, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def check(study: str | None = None, name: str = "study.yaml") -> Done:
        if study is not None:
            Path(name).write_text(study, encoding="utf-8")
        code = main(["check", name])
        return Done(*capsys.readouterr(), code)

    return check


@pytest.fixture
def snakemake(repository: Path, tmp_path: Path, warm: WarmPython) -> Snakemake:
    """Plans a study in a folder that has nothing of the workflow."""
    command = [warm.path, "-m", "snakemake", "-n", "--snakefile", repository / "workflow" / "Snakefile"]
    environment = os.environ | {"PYTHONPATH": str(repository)}

    def snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )

    return snakemake


TEXTS = "[{source: study.yaml, target: study.yaml}]"

TRANSCRIPTS = {
    "three typos, all three at once": (
        RIGHT.replace("test: 10}", "tests: 10, test: 10}").replace(
            "family: transformer", "family: phrase_representation, glance: maxx"
        )
        + "    training: {max_updates: many}\n",
        "  - datasets.demo.generator.tests: unknown key; did you mean 'test'?; allowed: train, dev, test, ...\n"
        "  - systems.base.model.glance: found \"maxx\", allowed: max, mean; did you mean 'max'?\n"
        '  - systems.base.training.max_updates: found "many", expected a number\n',
    ),
    "not YAML": (
        "study: [small\ndatasets:\n",
        "  - cannot be read as YAML: line 2, column 9, at ':': while parsing a flow sequence, did not find "
        "expected ',' or ']'\n",
    ),
    "countries in place of languages": (
        RIGHT.replace("source_language: en", "source_language: jp").replace(
            "target_language: de", "target_language: qxz"
        ),
        "  - datasets.demo.source_language: found 'jp', allowed: a code of ISO 639-1 or ISO 639-3, such as en or deu; "
        "did you mean 'ja'?\n"
        "  - datasets.demo.target_language: found 'qxz', allowed: a code of ISO 639-1 or ISO 639-3, such as en or "
        "deu\n"
        "  - datasets.demo: the generator makes nothing but source_language: en, target_language: de\n",
    ),
    "languages without spaces": (
        RIGHT.replace("source_language: en", "source_language: tha").replace(
            "target_language: de", "target_language: my"
        )
        + "    training: {max_updates: 9000}\n",
        "  - datasets.demo: tokenization.source: tha has no spaces between words, and no tokeniser of phrasemt finds "
        "its words; found null, allowed: character, and space for a text that is tokenised already\n"
        "  - datasets.demo: tokenization.target: my has no spaces between words, and no tokeniser of phrasemt finds "
        "its words; found null, allowed: character, and space for a text that is tokenised already\n",
    ),
    "systems and test sets named like families and kinds of text": (
        RIGHT.replace("  base:", "  transformer:")
        .replace("width: 16", "widht: 16")
        .replace(
            "generator: {train: 10, dev: 10, test: 10}",
            "splits: {train: [{source: a, target: b}], dev: [{source: a, target: b}], test: {files: [{corpus: c}]}}",
        ),
        "  - datasets.demo.splits.test.files.0.part: missing\n"
        "  - systems.transformer.model.widht: unknown key; did you mean 'width'?; allowed: family, width, heads, ...\n",
    ),
    "mistakes in a sample, and in a list, of dev": (
        RIGHT.replace(
            "generator: {train: 10, dev: 10, test: 10}",
            f"splits: {{train: {TEXTS}, dev: {{sample: 0, sed: 1}}, test: {{t: {TEXTS}}}}}",
        ).replace(
            "systems:",
            "  more: {source_language: en, target_language: de, splits: {train: [], dev: [{corpus: a}], "
            "test: {t: []}}}\n"
            "systems:",
        ),
        "  - datasets.demo.splits.dev.sample: found 0, expected greater than 0\n"
        "  - datasets.demo.splits.dev.sed: unknown key; allowed: sample\n"
        "  - datasets.more.splits.train: found [], expected at least 1 value: training texts\n"
        "  - datasets.more.splits.dev.0.part: missing\n"
        "  - datasets.more.splits.test.t: found [], expected at least 1 value: texts of each test set, by name\n",
    ),
    "keys in a section beside their own": (
        RIGHT.replace("width: 16", "preset: xu2020") + "    beam: 4\n",
        "  - systems.base.model.preset: unknown key; it belongs to systems.base; allowed: family, width, heads, ...\n"
        "  - systems.base.beam: unknown key; it belongs to systems.base.decoding; allowed: title, "
        "stands_for, preset, ...\n",
    ),
    "names that nothing can have, and keys at another place": (
        RIGHT.replace("study: small", "study: my study\ntitle: ''\nseed: 1\ntraining: {}")
        .replace("source_language: en", "source_language: English")
        .replace("family: transformer", "family: cost"),
        '  - study: found "my study", expected a name of letters from a to z, digits, _, + and -, with a letter or '
        "digit first\n"
        '  - title: found "", expected one line of text without tabulators, and without spaces at its ends\n'
        '  - datasets.demo.source_language: found "English", expected a language code such as en or deu; did you '
        'mean "en"?\n'
        '  - systems.base.model.family: found "cost", allowed: transformer, phrase_representation, language_model, '
        "dl4mt, biscale; phrasemt/models/cost.py needs a class Settings(Architecture) with family: "
        'Literal["cost"] (docs/adding-a-system.md)\n'
        "  - seed: unknown key; did you mean 'seeds'?; allowed: study, title, seeds, ...\n"
        "  - training: unknown key; it belongs to systems.<name>; allowed: study, title, seeds, ...\n",
    ),
    "keys of other programs, told once below an anchor": (
        RIGHT.replace(
            "generator: {train: 10, dev: 10, test: 10}", "partition: {text: {src: a, tgt: b}, dev: 1, test: 1}"
        )
        + "    training: &t {lr: 0.1, epochs: 3, gpus: 2}\n"
        "  other: {model: {family: transformer}, training: {<<: *t, max_updates: 9}}\n",
        "  - datasets.demo.partition.text.source: missing\n"
        "  - datasets.demo.partition.text.target: missing\n"
        "  - datasets.demo.partition.text.src: unknown key; here it is 'source'; allowed: source, target, references\n"
        "  - datasets.demo.partition.text.tgt: unknown key; here it is 'target'; allowed: source, target, references\n"
        "  - systems.base.training.lr: unknown key; here it is 'optimizer: {factor, warmup}'; allowed: "
        "tokens_per_update, sentences_per_update, max_updates, ... (line 10, also of other)\n"
        "  - systems.base.training.epochs: unknown key; here it is 'max_updates'; allowed: "
        "tokens_per_update, sentences_per_update, max_updates, ... "
        "(line 10, also of other)\n"
        "  - systems.base.training.gpus: unknown key; `processes` of a profile says how many GPUs a training has "
        "(docs/clusters.md); allowed: tokens_per_update, sentences_per_update, max_updates, ... "
        "(line 10, also of other)\n",
    ),
    "a family of one's own whose file is not here": (
        RIGHT.replace("family: transformer", "family: bag_of_words"),
        "  - systems.base.model: family: found 'bag_of_words', allowed: transformer, phrase_representation, "
        "language_model, dl4mt, biscale, or a family of your own, which would be the file "
        f"{file_of('bag_of_words')}\n",
    ),
    "values of another type": (
        RIGHT.replace(
            "generator: {train: 10, dev: 10, test: 10}",
            "splits: {train: [{corpus: c, part: p}], dev: [], test: [{corpus: c, part: p}]}",
        )
        + "  theirs: {translations: 3}\n",
        "  - datasets.demo.splits.dev: found [], expected at least 1 value: development texts, which select "
        "checkpoints, or a sample of the training texts\n"
        '  - datasets.demo.splits.test: found [{"corpus": "c", "part": "p"}], expected a mapping of keys to values: '
        "texts of each test set, by name\n"
        "  - systems.theirs.translations: found 3, expected a path: file of the translations of the test set, raw text "
        "in UTF-8, a line for each sentence, also as .gz; with several test sets a file for each one: "
        "{test_set: FILE}, or {data_set.test_set: FILE} with several data sets\n",
    ),
}


def _shortened(messages: str) -> str:
    """The messages with the first three of a long list of keys."""
    return re.sub(
        r"allowed: (\w+, \w+, \w+, )[\w, ]+, [\w, ]+?(?=$| \(line)", r"allowed: \1...", messages, flags=re.MULTILINE
    )


def _head(transcript: str) -> str:
    mistakes = transcript.count("\n")
    return f"study.yaml: {mistakes} mistake{'s' * (mistakes > 1)} in the study\n"


@pytest.mark.parametrize(("study", "transcript"), TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_transcript(check: Check, study: str, transcript: str) -> None:
    done = check(study)
    assert _shortened(done.stderr) == f"phrasemt check: error: {_head(transcript)}{transcript}"
    assert done.stdout == ""
    assert done.returncode == 2


def test_a_language_without_rules_or_script_is_allowed_with_a_warning(check: Check, tmp_path: Path) -> None:
    for name in ("text.en", "text.mni"):
        (tmp_path / name).write_text("a\n" * 3)
    files = "partition: {text: {source: text.en, target: text.mni}, dev: 1, test: 1}"
    study = RIGHT.replace("generator: {train: 10, dev: 10, test: 10}", files)
    for language, warning in (
        (
            "tr",
            "Moses has no rules for Turkish (tr); the rules for all languages split punctuation off, with the "
            "abbreviations of English; an apostrophe between letters stays",
        ),
        ("mni", "the script of Manipuri (mni) is not listed; cleaning keeps its lines in any script"),
    ):
        done = check(study.replace("_language: de", f"_language: {language}"))
        warnings = [line for line in done.stderr.splitlines() if "language" in line]
        assert warnings == [f"phrasemt check: warning: study.yaml: datasets.demo.target_language: {warning}"]
        assert done.stdout.startswith("study.yaml: study small; data sets: demo; ")
        assert done.returncode == 0


def test_a_corpus_part_that_does_not_exist_is_named_with_its_place(check: Check) -> None:
    train, dev, test = ("multi30k", "trian"), ("multi30k", "val"), ("multi31k", "val")
    train, dev, test = (f"[{{corpus: {corpus}, part: {part}}}]" for corpus, part in (train, dev, test))
    texts = f"splits: {{train: {train}, dev: {dev}, test: {{t: {test}}}}}"
    done = check(RIGHT.replace("generator: {train: 10, dev: 10, test: 10}", texts))
    first, second = done.stderr.splitlines()[1:]
    assert first.startswith(
        "  - datasets.demo.splits.train.0: corpus multi30k, part: unknown part"
    ) or first.startswith("  - datasets.demo.splits.train.0: corpus multi30k: unknown part")
    assert "did you mean 'train'?" in first
    assert second.startswith("  - datasets.demo.splits.test.t.0: ")
    assert "did you mean 'multi30k'?" in second
    assert done.returncode == 2


def test_a_right_study_is_described(check: Check) -> None:
    done = check(RIGHT)
    assert done.stdout == "study.yaml: study small; data sets: demo; systems: base; seeds: 1\n"
    assert (done.stderr, done.returncode) == ("", 0)


COMMANDS = (
    ["check", "study.yaml"],
    ["plan", "study.yaml"],
    ["describe", "study.yaml", "--system", "max"],
    ["show", "study.yaml"],
    ["status", "study.yaml"],
    ["trace", "test:1", "--study", "study.yaml"],
)
# Contents (None: no file), and what is said of them.
NOT_STUDIES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no such file; `ls studies` lists the studies that come with phrasemt"),
    "a folder": (None, "cannot be read: Is a directory"),
    "empty": (b"", "empty, or not a mapping of keys to values"),
    "binary": (bytes(range(256)), ""),
    "a list": (b"[study, datasets, systems]", "empty, or not a mapping of keys to values"),
    "a tag": (b"study: !!bool foo", ""),
    "a key that is a list": (b"? [a]\n: b\n", ""),
    "a system that is a list": (RIGHT.replace("  base:\n    model: {family", "  base: [1]\nx: {y").encode(), ""),
}


@pytest.mark.parametrize("kind", NOT_STUDIES)
def test_no_command_shows_a_traceback_for_what_is_no_study(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make study` checks it first, because Snakemake reads it before the Snakefile and shows a traceback."""
    monkeypatch.chdir(tmp_path)
    content, said = NOT_STUDIES[kind]
    if content is not None:
        Path("study.yaml").write_bytes(content)
    elif kind == "a folder":
        Path("study.yaml").mkdir()
    for command, *others in COMMANDS:
        assert main([command, *others]) == 2
        error = capsys.readouterr().err
        assert f"phrasemt {command}: error: study.yaml: " in error
        assert said in error


def test_the_workflow_shows_the_same_text_without_a_traceback(snakemake: Snakemake, tmp_path: Path) -> None:
    study, transcript = TRANSCRIPTS["three typos, all three at once"]
    (tmp_path / "study.yaml").write_text(study, encoding="utf-8")
    done = snakemake("--configfile", "study.yaml")
    assert _shortened(done.stderr).endswith(f"phrasemt: error: {_head(transcript)}{transcript}")
    assert "Traceback" not in done.stderr
    assert "Snakefile" not in done.stderr
    assert done.returncode == 2
    assert not (tmp_path / "results").exists()


def test_a_change_on_the_command_line_is_refused(snakemake: Snakemake, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(RIGHT, encoding="utf-8")
    done = snakemake("--config", "seeds=2")
    assert done.stderr.endswith(
        "phrasemt: error: --config seeds: a study cannot be changed on the command line, so that its file says all of "
        "it. Next: copy the study, change the copy, and pass it with --configfile\n"
    )
    assert done.returncode == 2


def test_two_studies_are_refused(snakemake: Snakemake, tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(RIGHT, encoding="utf-8")
    done = snakemake("--configfile", "a.yaml", "b.yaml")
    assert "phrasemt: error: --configfile: a study is one file, complete in itself (found " in done.stderr
    assert done.returncode == 2


def test_a_chosen_study_replaces_the_default_one(snakemake: Snakemake, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(RIGHT.replace("  base:", "  only_in_default:"), encoding="utf-8")
    (tmp_path / "other.yaml").write_text(RIGHT.replace("study: small", "study: other"), encoding="utf-8")
    done = snakemake("--configfile", "other.yaml", "--quiet", "host")
    assert done.returncode == 0, done.stderr
    assert "results/other/table.md" in done.stdout + done.stderr
    assert "only_in_default" not in done.stdout + done.stderr


OWN = RIGHT.replace(
    "    generator: {train: 10, dev: 10, test: 10}",
    "    splits:\n      train: [{source: a.en, target: a.de}]\n      dev: {sample: 3}\n"
    "      test: {talks: [{source: t.en, target: t.de}]}",
)


def test_check_counts_lines_and_reads_dates(check: Check) -> None:
    for name, lines in (("a.en", 4), ("a.de", 4), ("t.en", 2), ("t.de", 2)):
        Path(name).write_text("a b\n" * lines)
    assert check(OWN).returncode == 0
    Path("t.de").write_text("a b\n")
    assert check(OWN.replace("sample: 3", "sample: 4")).stderr.splitlines()[1:] == [
        "  - datasets.demo.splits.test.talks.0: unequal numbers of lines: t.en 2, t.de 1; next: align them",
        "  - datasets.demo: dev and test take 4 of 4 pairs, and train gets none; next: choose smaller numbers",
    ]
    for side in ("a.en", "a.de"):
        Path(side).write_text("")
    assert check(OWN).stderr.splitlines()[1:3] == [
        f"  - datasets.demo.splits.train.0: {side}: the file is empty" for side in ("a.en", "a.de")
    ]
    for side in ("a.en", "a.de"):
        Path(side).write_text("a b\n" * 4)
    later = time.time() + 7201
    for name in ("a.de", "t.en"):
        os.utime(name, (later, later))
    assert check(OWN).stderr.splitlines()[1:] == [
        "  - datasets.demo.splits.train.0.target: a.de is dated 120 minutes ahead of this clock; next: touch a.de",
        "  - datasets.demo.splits.test.talks.0.source: t.en is dated 120 minutes ahead of this clock; next: touch t.en",
    ]


def test_check_reads_the_form_of_sentences_but_not_of_tables_of_contrastive_pairs(check: Check) -> None:
    study = OWN.replace("systems:", "    contrast_sets: {mine: [{pairs: pairs.tsv}]}\nsystems:")
    study += "  theirs: {translations: log}\n"
    for name, text in (("a.en", '{"en": "a b"}'), ("a.de", "a b"), ("t.en", "7\ta b"), ("t.de", "a b")):
        Path(name).write_text(f"{text}\n" * 20)
    Path("pairs.tsv").write_text("a b\ta b\ta c\n" * 20)
    Path("log").write_text("H-0\t-0.1\ta b\n" * 20)
    problems = [line[: line.index(" (")] for line in check(study).stderr.splitlines()[1:]]
    assert problems == [
        "  - datasets.demo.splits.train.0.source: a.en, line 1: the lines are JSON",
        "  - datasets.demo.splits.test.talks.0.source: t.en, line 1: the text is a table with tabulators",
        "  - systems.theirs.translations: log, line 1: a log of fairseq",
    ]


def test_check_compares_the_sides_of_all_texts(check: Check) -> None:
    texts = {"en": "The house {} is small and old.", "de": "Das Haus {} ist klein und alt."}
    for name, language in (("a.en", "de"), ("a.de", "en"), ("t.en", "en"), ("t.de", "de")):
        Path(name).write_text("".join(f"{texts[language].format(number)}\n" for number in range(50)))
    said = (
        "datasets.demo.splits.train.0: in 100% of its pairs the sides look exchanged, compared with splits.test.talks.0"
    )
    assert said in check(OWN).stderr
