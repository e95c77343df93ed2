"""What is asked of Slurm, with a stand-in for its programs. The real ones are in tests/cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.cli import get_profile_dir

from phrasemt.cli import main
from phrasemt.errors import PhrasemtError
from phrasemt.files.yaml import parse_yaml
from phrasemt.machine.slurm import cancel_jobs_here, jobs_here, on_nodes, partitions, requeue_this_job
from phrasemt.runs.site import COMPLETE, DELIVERED, SITE, outdated_site


class StandIn:
    """Programs that print a given text and write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def says(self, program: str, text: str, code: int = 0) -> None:
        path = self.folder / program
        (self.folder / f"{program}.out").write_text(text)
        path.write_text(f'#!/bin/sh\necho "{program} $*" >> "$(dirname "$0")/calls"\ncat "$0.out"\nexit {code}\n')
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    programs, here = tmp_path / "bin", tmp_path / "here"
    programs.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    return StandIn(programs)


def test_a_running_job_comes_back(slurm: StandIn) -> None:
    slurm.says("scontrol", "JobId=42 JobState=RUNNING Requeue=1 Restarts=0 BatchFlag=1\n")
    assert requeue_this_job()
    assert slurm.calls[-1] == "scontrol requeue 42"


@pytest.mark.parametrize(
    "job",
    [
        "JobState=CANCELLED Requeue=1 BatchFlag=1",
        "JobState=COMPLETING Requeue=1 BatchFlag=1",
        "JobState=RUNNING Requeue=0 BatchFlag=1",
        "JobState=RUNNING Requeue=1 BatchFlag=0",
    ],
)
def test_a_job_that_must_not_be_requeued_is_not(job: str, slurm: StandIn) -> None:
    slurm.says("scontrol", job)
    assert not requeue_this_job()
    assert slurm.calls == ["scontrol --oneliner show job 42"]


def test_outside_a_job_nothing_is_asked(slurm: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    slurm.says("scontrol", "")
    assert not requeue_this_job()
    assert not slurm.calls
    with pytest.raises(PhrasemtError, match="several nodes, but this is not a Slurm job"):
        on_nodes(["python"], nodes=2, processes=4, cores=1)


def test_a_slurm_that_does_not_answer_is_an_error(slurm: StandIn) -> None:
    slurm.says("scontrol", "", code=1)
    with pytest.raises(PhrasemtError, match="Slurm does not answer `scontrol --oneliner show job 42`"):
        requeue_this_job()


def test_processes_are_spread_over_nodes(slurm: StandIn) -> None:
    command, environment = on_nodes(["python", "-m", "phrasemt"], nodes=2, processes=8, cores=16)
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=4"} <= set(command)
    assert command[-3:] == ["python", "-m", "phrasemt"]
    assert environment["WORLD_SIZE"] == "8"
    assert environment["MASTER_ADDR"] == socket.gethostname()
    with pytest.raises(PhrasemtError, match=r"expected a multiple of 2 \(--nodes\), found 3"):
        on_nodes(["python"], nodes=2, processes=3, cores=1)


def test_processes_find_each_other(slurm: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the name of the first node; where it leads nowhere, at the address that srun tells; or as the user says."""
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "nowhere.invalid")
    places = {"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}
    for chosen, found in ((None, "10.0.0.7"), ("10.1.1.1", "10.1.1.1")):
        if chosen:
            monkeypatch.setenv("MASTER_ADDR", chosen)
        command, environment = on_nodes(["sh", "-c", "echo $MASTER_ADDR $RANK"], nodes=2, processes=4, cores=1)
        shell = command[command.index("sh") :]
        assert subprocess.check_output(shell, env=environment | places, text=True) == f"{found} 3\n"
    for job in ("1", "11999", "987654321"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        port = on_nodes(["python"], nodes=1, processes=2, cores=1)[1]["MASTER_PORT"]
        assert 20_000 <= int(port) < 32_768, "Linux gives the ports above to connections"


def test_jobs_are_those_that_snakemake_sent_from_this_folder(slurm: StandIn) -> None:
    here = Path.cwd()
    slurm.says("squeue", f"1\tphrasemt_ab\t{here}\n2\tphrasemt_cd\t{here}/other\n3\tmine\t{here}\n")
    assert jobs_here() == []
    assert not slurm.calls, "no run has used Slurm here"
    (here / "logs/slurm").mkdir(parents=True)
    assert jobs_here() == ["1"]
    slurm.says("squeue", f"CLUSTER: one\n4\ta name\twith\ttabs\t{here}\n5\tphrasemt_a b\tc\t{here}\n")
    assert jobs_here() == ["5"]


def test_partitions_with_blanks_and_of_a_named_cluster(slurm: StandIn) -> None:
    slurm.says("sinfo", "CLUSTER: one\nlong jobs|(null)\ncore*|(null)\nbig gpus|gpu:a100:4\n")
    assert partitions() == ("core", "big gpus")


def test_cancelling_waits_for_the_end(slurm: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("logs/slurm").mkdir(parents=True)
    slurm.says("squeue", f"1\tphrasemt_ab\t{Path.cwd()}\n")
    slurm.says("scancel", "")
    monkeypatch.setattr("time.sleep", lambda seconds: slurm.says("squeue", ""))
    cancel_jobs_here()
    assert [call for call in slurm.calls if call.startswith("scancel")] == ["scancel 1"]
    assert jobs_here() == []


def test_jobs_of_a_running_snakemake_are_not_cancelled(
    slurm: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: slurm.says("squeue", ""))
    Path("logs/slurm").mkdir(parents=True)
    slurm.says("squeue", f"1\tphrasemt_ab\t{Path.cwd()}\n")
    slurm.says("scancel", "")
    with subprocess.Popen([sys.executable, "-c", "input()", "snakemake"], stdin=subprocess.PIPE) as run:
        assert main(["unlock", "--cancel"]) == 2
        assert f"found snakemake, process {run.pid}). Next: end it" in capsys.readouterr().err
        assert main(["unlock"]) == 0
        run.communicate(b"\n")
    assert not [call for call in slurm.calls if call.startswith("scancel")]


def _values(content: object, *keys: str) -> dict[tuple[str, ...], object]:
    """The single values of a profile by their places."""
    if not isinstance(content, dict):
        return {keys: content}
    return {place: value for key, below in content.items() for place, value in _values(below, *keys, key).items()}


def _changed_by_the_site() -> dict[tuple[str, ...], object]:
    assert main(["slurm"]) == 0
    delivered, complete = (_values(parse_yaml(path.read_text())) for path in (DELIVERED, COMPLETE))
    assert delivered.keys() <= complete.keys()
    return {place: value for place, value in complete.items() if value != delivered.get(place)}


def test_lines_of_a_site_change_what_they_name_and_nothing_else(slurm: StandIn, repository: Path) -> None:
    """The first lines are those that Slurm reports. Snakemake takes the complete profile for `--profile slurm`."""
    DELIVERED.parent.mkdir()
    DELIVERED.write_bytes((repository / DELIVERED).read_bytes())
    assert outdated_site() is None
    slurm.says("sinfo", "week|(null)\ncore*|(null)\nfast|gpu:a100:4(S:0-1)\n")
    changed = _changed_by_the_site()
    assert changed.pop(("default-resources", "slurm_partition")) == "'core'"
    assert set(changed.values()) == {"'fast'"}
    assert ("set-resources", "train_model", "slurm_partition") in changed

    SITE.write_text("set-resources: {train_model: {runtime: 60}}\n")
    assert _changed_by_the_site() == {("set-resources", "train_model", "runtime"): 60}
    assert get_profile_dir("slurm")[1].resolve() == COMPLETE.resolve()
    assert outdated_site() is None
    DELIVERED.write_text(DELIVERED.read_text() + "# a later version\n")
    assert "Next: `phrasemt slurm`" in (outdated_site() or "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("slurm_partition: all", "'all'"),
        ("gres: gpu:2", "'gpu:2'"),
        ("slurm_partition: \"'big' if attempt > 1 else 'all'\"", "'big' if attempt > 1 else 'all'"),
        ("runtime: 1-00:00:00", 1440),
        ("runtime: '90:30'", 91),
        ("runtime: 12h30m", 750),
        ("runtime: 1d 2h", 1560),
        ("runtime: UNLIMITED", 525600),
        ("runtime: attempt * 60", "attempt * 60"),
        ("runtime: 60", 60),
    ],
)
def test_names_and_times_of_slurm_are_those_that_a_job_asks_for(
    line: str, expected: object, slurm: StandIn, repository: Path
) -> None:
    """Snakemake evaluates text as Python: `all` would be a function. It knows no times of Slurm."""
    DELIVERED.parent.mkdir()
    DELIVERED.write_bytes((repository / DELIVERED).read_bytes())
    SITE.write_text(f"default-resources: {{{line}}}\nset-resources:\n  score_system: {{{line}}}\n")
    assert main(["slurm"]) == 0
    complete = parse_yaml(COMPLETE.read_text())
    key = line.partition(":")[0]
    assert complete["default-resources"][key] == complete["set-resources"]["score_system"][key] == expected


def test_null_removes_the_lines_of_a_rule(slurm: StandIn, repository: Path) -> None:
    DELIVERED.parent.mkdir()
    DELIVERED.write_bytes((repository / DELIVERED).read_bytes())
    SITE.write_text("set-resources: {train_model: null}\n")
    assert main(["slurm"]) == 0
    delivered, complete = (parse_yaml(path.read_text())["set-resources"] for path in (DELIVERED, COMPLETE))
    assert delivered.keys() - complete.keys() == {"train_model"}


def test_a_cluster_without_gpus_asks_for_none(slurm: StandIn, repository: Path) -> None:
    DELIVERED.parent.mkdir()
    DELIVERED.write_bytes((repository / DELIVERED).read_bytes())
    slurm.says("sinfo", "all*|(null)\n")
    assert main(["slurm"]) == 0
    complete = parse_yaml(COMPLETE.read_text())
    assert complete["default-resources"]["slurm_partition"] == "'all'"
    assert not [rule for rule, found in complete["set-resources"].items() if {"gpu", "slurm_partition"} & found.keys()]
