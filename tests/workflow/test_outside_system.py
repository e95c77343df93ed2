"""What a user brings into a study: translations of another program, and a set of contrastive pairs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import yaml
from stage_settings import settings_file
from workplace import STUDY, Workplace

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.cli import main
from phrasemt.files.system import digest_file


def _write_study(workplace: Workplace, **other: object) -> None:
    study = yaml.safe_load(STUDY)
    study["systems"] |= {"other": {"translations": "other.de", **other}}
    workplace.write_study(yaml.safe_dump(study, sort_keys=False))


def test_a_translation_of_another_program_becomes_a_row(finished: Workplace) -> None:
    """The reference itself, as raw text with a byte order mark and carriage returns, must get 100 BLEU."""
    folder = finished.results / "demo.en-de"
    reference = (folder / "corpus/test.de").read_text()
    (finished.folder / "other.de").write_bytes(b"\xef\xbb\xbf" + reference.replace("\n", "\r\n").encode())
    _write_study(finished, title="Another toolkit")
    done = finished.snakemake()
    assert done.returncode == 0, done.stderr[-3000:]
    (note,) = (
        path
        for path in (finished.folder / "logs/tiny/runs").glob("*.json")
        if "import_translations" in path.read_text()
    )
    jobs = {job["rule"] for job in json.loads(note.read_text())["jobs"]}
    assert jobs == {"import_translations", "score_system", "compare_systems", "make_table", "write_report"}
    assert (folder / "translations/other/1/test.tok").read_text() == (folder / "tokens/test.de").read_text()
    assert (folder / "translations/other/1/test.txt").read_text() == reference
    sidecar = Sidecar.beside(folder / "translations/other/1/test.tok")
    assert sidecar.inputs["translations"][0].sha256 == digest_file(finished.folder / "other.de")
    scores = json.loads((folder / "scores/other/1.json").read_text())["test_sets"]["test"]["metrics"]
    assert [scores[name]["score"] for name in ("bleu_tok", "bleu_detok", "chrf2", "ter")] == pytest.approx(
        [100, 100, 100, 0]
    )
    table = (finished.results / "table.md").read_text()
    assert "| Another toolkit " in table
    assert "Translated by other programs, whose seeds are not ours: Another toolkit." in table
    page = (finished.results / "report.html").read_text()
    assert page.count("Another toolkit") > 3
    assert "translations.sha256" in page.replace("<wbr>", "")
    packed = finished.phrasemt("capsule", "study.yaml", "--output", "capsule.zip")
    assert packed.returncode == 0, packed.stderr
    with zipfile.ZipFile(finished.folder / "capsule.zip") as capsule:
        assert "results/tiny/demo.en-de/translations/other/1/test.tok" in capsule.namelist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ein Satz .\n" * 19, "expected 20, found 19"),
        (b"ein Satz .\n" * 21, "found 21"),
        (b"", "found 0)"),
        (b"\n" * 20, "the translations hold no text"),
        (b"\x00\xff\xfe\x89" * 500, "other.de, line 1, byte 2: not UTF-8"),
        (b"ein Sa@@ tz .\n" * 20, "@@"),
        (b"ein Satz &apos;.\n" * 20, "preprocessed in different ways"),
    ],
)
def test_files_that_fit_no_test_set_are_refused(
    undisturbed: Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.de").write_bytes(content)
    folder = undisturbed.results / "demo.en-de"
    sidecar = Sidecar.beside(folder / "translations/base/1/test.tok")
    settings = {"target_tokenizer": sidecar.settings["target_tokenizer"]}
    files = {"translations": "other.de", "reference": str(folder / "corpus/test.de"), "tokens": "made.tok"}
    flags = [word for name, path in {**files, "text": "made.txt"}.items() for word in (f"--{name}", path)]
    assert main(["import_translations", *flags, "--settings", settings_file(settings)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("made.*"))


FOLDER = "results/tiny/demo.en-de"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["max"])  # it reads phrases of parses, so sources of pairs are parsed, too
def test_pairs_of_a_file_count_as_the_same_pairs_of_the_generator(finished: Workplace, system: str) -> None:
    generated = finished.folder / FOLDER / "raw/test.contrasts.tsv"
    _, *rows = generated.read_text().splitlines()
    (finished.folder / "pairs.tsv").write_text("".join(f"{row.partition(chr(9))[2]}\n" for row in rows))
    study = yaml.safe_load(STUDY)
    study["datasets"]["demo"]["contrast_sets"] = {"mine": [{"pairs": "pairs.tsv"}]}
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    counts = f"{FOLDER}/contrasts/{system}/1"
    done = finished.snakemake(f"{counts}/mine.json")
    assert done.returncode == 0, done.stderr[-3000:]
    mine, own = (json.loads((finished.folder / counts / f"{name}.json").read_text()) for name in ("mine", "test"))
    assert mine["contrast_set"] == "mine"
    assert mine["kinds"] == own["kinds"]
    assert sum(kind["pairs"] for kind in own["kinds"]) == len(rows) > 5
