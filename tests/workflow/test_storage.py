"""A run whose files are in a storage: here a folder elsewhere, from which jobs get copies.

Of the finished study one training, and what follows, is still to be done. Jobs see no file that a rule does not name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from workplace import Workplace

from phrasemt.artefacts.sidecar import SUFFIX, Sidecar
from phrasemt.files.system import digest_file

pytest.importorskip("snakemake_storage_plugin_fs")
# The plugin copies with rsync, which not every machine has.
_RSYNC = '#!/bin/bash\nexec cp -rL --preserve=timestamps "${@: -2:1}" "${@: -1}"\n'


def _run(workplace: Workplace, bucket: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    programs = workplace.folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "rsync").write_text(_RSYNC)
    (programs / "rsync").chmod(0o755)
    storage = ["--default-storage-provider", "fs", "--default-storage-prefix", str(bucket)]
    shared = ["--shared-fs-usage", "persistence", "sources", "source-cache", "software-deployment"]
    environment = workplace.environment | {"PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        workplace.command(*targets, *storage, *shared), cwd=workplace.folder, env=environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_sidecars_travel_with_their_artefacts(finished: Workplace, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    for part in ("results", "resources"):
        shutil.move(finished.folder / part, bucket / part)
    shutil.rmtree(finished.folder / ".snakemake")
    results = bucket / "results" / "tiny"
    tables = [f"table.{form}" for form in ("md", "tex", "csv")]  # the JSON names the copies that it was made of
    expected = [(results / name).read_bytes() for name in tables]
    # Scores name the translations that they are made of by their paths, of which the report reads the sidecars.
    again = ["table.*", "report.*", "demo.en-de/*/base", "demo.en-de/scores"]
    for path in [path for pattern in again for path in results.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    # A job compares its inputs with the sidecars that came with them.
    tokens = results / "demo.en-de" / "translations" / "max" / "1" / "test.tok"
    scores = "results/tiny/demo.en-de/scores/max/1.json"
    whole, times = tokens.read_bytes(), tokens.stat()
    tokens.write_bytes(b"more " + whole)
    os.utime(tokens, ns=(times.st_atime_ns, times.st_mtime_ns))
    refused = _run(finished, bucket, scores)
    assert refused.returncode == 1
    assert "test.tok: not the file that translate_examples wrote" in refused.stderr
    tokens.write_bytes(whole)
    os.utime(tokens, ns=(times.st_atime_ns, times.st_mtime_ns))

    done = _run(finished, bucket, "results/tiny/table.md", "results/tiny/report.html")
    assert done.returncode == 0, done.stderr[-5000:]
    assert [(results / name).read_bytes() for name in tables] == expected
    assert "Table" in (results / "report.html").read_text()
    made = [path for path in results.rglob("*") if path.is_file() and not path.name.endswith(SUFFIX)]
    for path in made:
        if "state" not in path.parts:
            Sidecar.beside(path).check(path, digest_file(path))
    assert results / "demo.en-de" / "models" / "base" / "1" / "training.json" in made
