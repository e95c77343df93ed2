"""`kill -9` of every stage at its worst moment, then the same command again.

The process kills itself when the first whole output is about to get its name: everything is computed, nothing is named.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from workplace import STAGES_OF_STUDY, Workplace, stage_command

import phrasemt.artefacts.sidecar
from phrasemt.artefacts.sidecar import Sidecar, sidecar_path
from phrasemt.cli import main
from phrasemt.files.system import digest_file


def _dies_before_naming(command: list[str]) -> None:
    phrasemt.artefacts.sidecar.commit_files = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
    main(command)


# With outputs of one file, of several, a store, a state folder, and a page; the others take as long.
QUICK = ("make_table", "tokenize_text", "parse_sentences", "train_model", "write_report")


@pytest.mark.parametrize(
    "stage", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in STAGES_OF_STUDY]
)
def test_a_stage_killed_before_naming_its_outputs_runs_again(
    stage: str, finished: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.folder)
    artefact = next(
        Path(str(path).removesuffix(".meta.json"))
        for path in sorted(finished.results.rglob("*.meta.json"))
        if f'"stage": "{stage}"' in path.read_text(encoding="utf-8")
    )
    sidecar = Sidecar.beside(artefact)
    command = stage_command(sidecar, stage, {"state": artefact.parent / "state", "cache": Path("resources/cache")})
    if stage == "write_report":  # the report of a run has the date and the hosts of this run; no run writes this one
        assert main(command) == 0
        sidecar = Sidecar.beside(artefact)
    outputs = {Path(file.path): file.sha256 for file in sidecar.outputs.values()}
    for path in outputs:
        path.unlink()
        sidecar_path(path).unlink()

    # A fork has all libraries imported, which would take longer than most stages.
    killed = multiprocessing.get_context("fork").Process(target=_dies_before_naming, args=(command,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert not any(path.exists() for path in outputs)

    assert main(command) == 0
    assert {path: digest_file(path) for path in outputs} == outputs
    assert Sidecar.beside(artefact) == sidecar
    assert not list(finished.results.rglob("*.part"))
