"""A whole study through `snakemake --profile slurm`, to the same table as without a cluster."""

from __future__ import annotations

from pathlib import Path

from site_of_tests import STUDY, Site


def test_a_study_ends_with_the_table_of_a_run_without_a_cluster(
    cluster: Path, repository: Path, tmp_path: Path, untouched: Site
) -> None:
    site = Site.new(repository, tmp_path / "site", STUDY)
    site.finish(site.start())
    assert site.table() == untouched.table()
    assert len(site.jobs()) == len(set(site.jobs().values())), "no job was needed twice"
    assert not site.processes()
