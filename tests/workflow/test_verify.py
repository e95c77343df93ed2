"""`phrasemt verify` names every artefact that is not what its sidecar says."""

from __future__ import annotations

import json
import os
from pathlib import Path

from workplace import Workplace

from phrasemt.artefacts.sidecar import Sidecar


def _verify(workplace: Workplace, code: int) -> list[str]:
    done = workplace.phrasemt("verify", "study.yaml")
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


def _flip(path: Path, position: int) -> None:
    """Flip a bit, and keep the times of the file, as a disk does."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=times)


def test_a_finished_study_is_as_its_sidecars_record(finished: Workplace) -> None:
    (line,) = _verify(finished, 0)
    assert line.startswith("tiny: ")
    assert line.endswith(" artefacts are as their sidecars record")


def test_each_file_that_differs_is_named_with_the_next_step(finished: Workplace) -> None:
    folder = finished.results / "demo.en-de"
    flipped = [
        "tokens/train.en",
        "examples/test.arrow",
        "phrases/parse/train.arrow",
        "models/max/1/averaged.safetensors",
    ]
    for name in flipped:
        _flip(folder / name, (folder / name).stat().st_size // 2)
    for ending in ("", ".meta.json"):
        (folder / f"chunks/dev.arrow{ending}").write_bytes((folder / f"chunks/test.arrow{ending}").read_bytes())
    (folder / "vocabulary.de.tsv.meta.json").unlink()
    lines = _verify(finished, 2)
    relative = "results/tiny/demo.en-de"
    named = {line.split(": ", 1)[0] for line in lines}
    assert named == {f"{relative}/{name}" for name in [*flipped, "chunks/dev.arrow", "vocabulary.de.tsv"]}
    assert all(". Next: delete " in line for line in lines)


def test_a_stage_refuses_a_file_with_a_flipped_bit(finished: Workplace) -> None:
    """The bit flips in an input that Snakemake finds unchanged, and another change makes the stage run."""
    _flip(finished.results / "demo.en-de/examples/test.arrow", 2000)
    translation = "results/tiny/demo.en-de/translations/base/1/test.tok"
    (finished.folder / translation).unlink()
    done = finished.snakemake(translation)
    assert done.returncode == 1
    log = (finished.folder / "logs/tiny/translate_examples/demo.en-de/base.1.test.log").read_text()
    assert "results/tiny/demo.en-de/examples/test.arrow: not the file that pack_examples wrote" in log


def test_an_artefact_of_other_contents_of_its_input_is_named(finished: Workplace) -> None:
    """Two artefacts that are whole but do not belong together, with old times."""
    tokens = finished.results / "demo.en-de/tokens/test.de"
    relative = str(tokens.relative_to(finished.folder))
    command = [
        *("tokenize_text", "--text", "results/tiny/demo.en-de/corpus/dev.de", "--tokens", relative),
        *("--round-trip", f"{relative}.round_trip.json", "--settings", json.dumps(Sidecar.beside(tokens).settings)),
    ]
    times = tokens.stat().st_atime_ns, tokens.stat().st_mtime_ns
    done = finished.phrasemt(*command)
    assert done.returncode == 0, done.stderr
    os.utime(tokens, ns=times)
    lines = _verify(finished, 2)
    assert len(lines) > 3
    found = "results/tiny/demo.en-de/tokens/test.de). Next: delete it and run the study"
    assert all("made of an input that has other contents now" in line for line in lines)
    assert any(line.endswith(found) for line in lines)
