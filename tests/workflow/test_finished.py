"""What a finished study leaves: every artefact with its origin, one table, one page that stands alone."""

from __future__ import annotations

import json
import sys

from workplace import Workplace

from phrasemt.provenance import digest_file, read_sidecar
from phrasemt.stages import STAGES


def test_every_artefact_says_what_it_was_made_of(finished: Workplace) -> None:
    artefacts = [
        path
        for path in finished.results.rglob("*")
        if path.is_file() and "state" not in path.parts and not path.name.endswith(".meta.json")
    ]
    assert len(artefacts) > 50
    stages = set()
    for path in artefacts:
        sidecar = read_sidecar(path)
        stages.add(sidecar["stage"])
        for entry in [*sidecar["outputs"].values(), *(file for files in sidecar["inputs"].values() for file in files)]:
            assert digest_file(finished.folder / entry["path"]) == entry["sha256"], f"{entry['path']} in {path.name}"
    assert stages == STAGES.keys() - {
        "fetch_corpus",
        "extract_text",
        "partition_corpus",
        "fetch_stanza_file",
        "describe_annotator",
    }


def test_the_table_has_every_system(finished: Workplace) -> None:
    table = (finished.results / "table.md").read_text()
    assert all(f"| {system} " in table for system in ("base", "max"))
    json.loads((finished.results / "table.json").read_text())


def test_the_report_stands_alone(finished: Workplace) -> None:
    page = (finished.results / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert 'src="http' not in page
    assert 'href="http' not in page.replace('href="https://github.com', "")


def test_messages_stand_in_the_log_of_the_stage(finished: Workplace) -> None:
    for log in ("train_model/demo.en-de/max.1.log", "tokenize_text/demo.en-de/train.de.log", "make_table.log"):
        stage = log.split("/")[0].removesuffix(".log")
        assert f"{stage}: " in (finished.folder / "logs" / "tiny" / log).read_text()


def test_a_pair_can_be_traced_to_its_translation(finished: Workplace) -> None:
    command = [sys.executable, "-m", "phrasemt", "trace", "test:3", "--system", "max", "--study", "study.yaml"]
    done = finished.run(*command)
    assert done.returncode == 0, done.stderr
    for hop in (
        "raw source",
        "tokenize_text target",
        "apply_subwords source",
        "pack_examples target",
        "translate 1-best",
    ):
        assert hop in done.stdout
