"""A cluster for all tests of this folder, and a tiny study run without it: what each test must end with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from one_host_slurm import ask, missing, one_host_slurm
from site_of_tests import STUDY, Site
from warm_python import WarmPython


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """The folder of a running cluster. It is stopped at the end, and whatever it leaves behind is an error."""
    if (problem := missing()) is not None:
        pytest.fail(f"no Slurm can run here: {problem}", pytrace=False)
    with (
        tempfile.TemporaryDirectory(prefix="phrasemt-slurm-") as folder,
        one_host_slurm(Path(folder)),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)  # what killed processes leave there goes with the cluster
        yield Path(folder)


@pytest.fixture(scope="session")
def _local(repository: Path, tmp_path_factory: pytest.TempPathFactory, warm: WarmPython) -> Site:
    """The study, run without a cluster and undisturbed."""
    site = Site.new(repository, tmp_path_factory.mktemp("local"), STUDY, warm)
    site.finish_here()
    return site


@pytest.fixture
def untouched(_local: Site) -> Site:
    """What a test must end with."""
    return _local


@pytest.fixture
def site(cluster: Path, _local: Site, tmp_path: Path) -> Iterator[Site]:
    """A copy in which only the training of `base`, and what follows, is still to be done; and the cluster for that."""
    shutil.copytree(_local.folder, tmp_path / "site", symlinks=True)
    site = Site(tmp_path / "site")
    site.forget_training()
    yield site
    if jobs := site.jobs("running,pending"):  # of a test that failed
        ask("scancel", *jobs)
    for process in site.processes():
        with suppress(psutil.NoSuchProcess):
            process.kill()
