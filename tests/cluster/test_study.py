"""A whole study through `snakemake --profile slurm`, to the same table as without a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from micro_studies import STUDIES, assert_finished, micro
from one_host_slurm import file_system
from site_of_tests import STUDY, Site
from warm_python import WarmPython

FEWEST_JOBS = "nguyen2020-lm1b"


def test_a_study_ends_with_the_table_of_a_run_without_a_cluster(
    cluster: Path, repository: Path, tmp_path: Path, untouched: Site
) -> None:
    """The results lie on a file system of their own, as they do at most sites."""
    site = Site.new(repository, tmp_path / "site", STUDY)
    scratch = tmp_path / "scratch"
    with file_system(scratch, "200m"):
        (site.folder / "results").symlink_to(scratch)
        site.finish(site.start(), patience=1200)
        assert site.table() == untouched.table()
        assert len(site.jobs()) == len(set(site.jobs().values())), "no job was needed twice"
        assert (site.results / "report.html").is_file()
        assert not site.processes()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=() if path.stem == FEWEST_JOBS else pytest.mark.slow) for path in STUDIES],
)
def test_a_study_of_a_paper_at_the_size_micro(
    path: Path, cluster: Path, repository: Path, tmp_path: Path, warm: WarmPython
) -> None:
    site = Site.new(repository, tmp_path / "site", micro(path, tmp_path), warm)
    site.finish(site.start(), patience=7200)
    assert_finished(site.folder)
    assert len(site.jobs()) == len(set(site.jobs().values())), "no job was needed twice"
    assert not site.processes()


def _lines(repository: Path, mark: str) -> dict[str, Any]:
    """Lines of slurm/site.yaml in the documents."""
    document = (repository / "docs" / "clusters.md").read_text(encoding="utf-8")
    (lines,) = re.findall(rf"<!-- {mark} -->\n```yaml\n(.*?)```", document, re.DOTALL)
    content: dict[str, Any] = yaml.safe_load(lines)
    return content


def _with_lines(site: Site, lines: dict[str, Any], *targets: str) -> set[str]:
    """Run with these lines of the site; returns the folders of the logs of Slurm's jobs."""
    (site.folder / "slurm" / "site.yaml").write_text(yaml.safe_dump(lines), encoding="utf-8")
    assert site.phrasemt("slurm").returncode == 0
    site.finish(site.start(*targets))
    assert not site.processes()
    jobs = {folder.name for folder in (site.folder / "logs" / "slurm").iterdir()}
    assert not jobs & {f"rule_{stage}" for stage in lines["groups"]}
    return jobs


@pytest.mark.slow
def test_short_jobs_of_a_gpu_are_one_job_with_the_lines_of_the_documents(
    repository: Path, site: Site, untouched: Site
) -> None:
    """Only the training of `base` and what follows is to be done."""
    jobs = _with_lines(site, _lines(repository, "groups"))
    assert site.table() == untouched.table()
    assert "group_on_gpu_analyse_attention_average_checkpoints_score_contrasts_translate_examples" in jobs


@pytest.mark.slow
def test_text_jobs_are_one_job_with_the_lines_of_the_documents(
    cluster: Path, repository: Path, tmp_path: Path, untouched: Site
) -> None:
    site = Site.new(repository, tmp_path / "site", STUDY)
    jobs = _with_lines(site, _lines(repository, "text groups"), "data")
    assert [job.partition("_")[0] for job in sorted(jobs)] == ["group", "rule"]  # the rule generates the corpus
    site.finish_here()
    assert site.table() == untouched.table()
