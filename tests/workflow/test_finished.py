"""What a finished study leaves: artefacts with their origins, figures, measurements, a report of Snakemake, a trace."""

from __future__ import annotations

import re
import xml.etree.ElementTree
import zipfile
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from workplace import STAGES_OF_STUDY, Workplace

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.training import Metrics, TrainingRecord
from phrasemt.files.system import digest_file


def test_every_artefact_says_what_it_was_made_of(undisturbed: Workplace) -> None:
    artefacts = [
        path
        for path in undisturbed.results.rglob("*")
        if path.is_file() and "state" not in path.parts and not path.name.endswith(".meta.json")
    ]
    assert len(artefacts) > 50
    stages = set()
    for path in artefacts:
        sidecar = Sidecar.beside(path)
        stages.add(sidecar.stage)
        for file in (*sidecar.outputs.values(), *sidecar.files_read):
            assert digest_file(undisturbed.folder / file.path) == file.sha256, f"{file.path} in {path.name}"
    assert stages == set(STAGES_OF_STUDY)


def test_the_figures_of_the_report_become_files(undisturbed: Workplace, tmp_path: Path) -> None:
    done = undisturbed.phrasemt("show", "study.yaml", "--figures", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    files = sorted(map(str, (tmp_path / "figures").iterdir()))
    assert sorted(done.stdout.split()) == files
    for path in files:
        text = Path(path).read_text()
        assert xml.etree.ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_what_a_training_measures_reaches_all_places(undisturbed: Workplace) -> None:
    """The last evaluation of a system with phrases: in its record, its metrics, TensorBoard and the report."""
    folder = undisturbed.results / "demo.en-de" / "models" / "max" / "1"
    record = TrainingRecord.read(folder / "training.json")
    evaluation = record.evaluations[-1]
    update = evaluation.update
    measured = {"dev_bleu": evaluation.dev_bleu, "dev_perplexity": evaluation.dev_perplexity, **evaluation.measurements}
    networks = ("dead_networks", "encoder_1_unit", "encoder_1_saturated", "decoder_1_constant", "decoder_1_signal")
    assert {f"dev_{name}" for name in (*networks, "perplexity")} < measured.keys()

    assert evaluation in [report.evaluation for report in Metrics.read(folder / record.metrics).evaluations]
    (events,) = folder.rglob("events.*")
    board = EventAccumulator(str(events)).Reload()
    on_board = {name: board.Scalars(f"dev/{name}")[-1] for name in measured}
    assert {event.step for event in on_board.values()} == {update}
    assert {name: event.value for name, event in on_board.items()} == pytest.approx(measured, rel=1e-6)
    page = (undisturbed.results / "report.html").read_text().replace("<wbr>", "")
    for name in measured.keys() - {"dev_bleu"}:
        assert f"<code>{name}</code></th><td>{measured[name]:.3f}</td>" in page


def test_snakemake_reports_the_table_and_the_page_with_captions(finished: Workplace) -> None:
    done = finished.snakemake("--report", "summary.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(finished.folder / "summary.zip") as archive:
        contents = {Path(name).name: archive.read(name) for name in archive.namelist() if "/data/" in name}
        (page,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("summary/report.html")]
    names = ("table.md", "table.tex", "table.csv", "report.html")
    assert contents == {name: (finished.results / name).read_bytes() for name in names}
    for caption in (finished.folder / "workflow" / "report").glob("*.rst"):
        assert caption.read_text()[:20] in page, caption.name
    assert "train_parser" in page, "no graph of the rules"


def test_a_pair_can_be_traced_to_its_translation(undisturbed: Workplace) -> None:
    done = undisturbed.phrasemt("trace", "test:3", "--study", "study.yaml", "--system", "max")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "demo, test, line 3, system max, seed 1"
    assert max(map(len, lines)) <= 100
    assert [line for line in lines[1:] if line and not line.startswith(" ")] == ["source (en)", "target (de)", "output"]
    labels = [line.split()[0] for line in lines if re.match(r"  \S", line)]
    assert labels[:5] == ["raw", "tokens", "subwords", "parse", "phrases"]
    assert labels[-8:] == ["raw", "tokens", "subwords", "chunks", "subwords", "score", "text", "differs"]
    source = (undisturbed.results / "demo.en-de" / "tokens" / "test.en").read_text().split("\n")[2].split(" ")
    parse = done.stdout.partition("  parse ")[2].partition("  phrases ")[0]
    assert [word.rstrip(")") for word in parse.split() if not word.startswith("(")] == source
    chunks = done.stdout.partition("  chunks ")[2].partition("output\n")[0]
    assert re.search(r"\[[A-Z]+ \S", chunks), "labels of a chunker that has hardly learned"
    assert "[eos </s>]" in " ".join(chunks.split())
