"""What is asked of Slurm, with a stand-in for its programs. The real ones are in tests/cluster."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.cli import get_profile_dir

from phrasemt.cli import main
from phrasemt.errors import PhrasemtError
from phrasemt.files.yaml import parse_yaml
from phrasemt.machine.slurm import (
    Partition,
    end_jobs,
    jobs_here,
    on_nodes,
    partitions,
    ran_out_of_memory,
    requeue_this_job,
)
from phrasemt.runs.site import COMPLETE, DELIVERED, PARTITION, SITE, outdated_site
from phrasemt.stages import STAGES


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
    slurm = StandIn(programs)
    slurm.says("scontrol", "")
    slurm.says("sacctmgr", "sacctmgr: error: You are not running a supported accounting_storage plugin", code=1)
    return slurm


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


def test_jobs_are_those_of_this_folder(slurm: StandIn) -> None:
    here = Path.cwd()
    slurm.says("squeue", f"1\tdemo_20260101T000000-1\t{here}\n2\tdemo_20260101T000000-2\t{here}/other\n")
    assert jobs_here() == {}
    assert not slurm.calls, "no run has used Slurm here"
    (here / "logs/slurm").mkdir(parents=True)
    assert jobs_here() == {"1": "demo_20260101T000000-1"}
    slurm.says("squeue", f"CLUSTER: one\n4\ta name\twith\ttabs\t{here}/other\n5\ta b\tc\t{here}\n")
    assert jobs_here().keys() == {"5"}


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
            True,
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch.", True),
        ("slurmstepd: error: Step 7.0 exceeded memory limit (433152 > 409600), being killed", True),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", False),
    ],
)
def test_the_log_of_a_job_says_whether_its_memory_was_too_small(log: str, expected: bool, slurm: StandIn) -> None:
    path = Path("logs/slurm/rule_train_model/demo_base_1/7.log")
    path.parent.mkdir(parents=True)
    path.write_text(f"some words\n{log}\n")
    assert ran_out_of_memory("7") == expected
    assert not ran_out_of_memory("17")


# Name, longest job, nodes, and of each of them cores, MB and further resources, as `sinfo` says it.
NODES = "|1-00:00:00|4|32|128000|(null)\n"
GPU_NODES = "|2-00:00:00|2|64|512000|gpu:a100:4(S:0-1)\n"


def test_partitions_with_blanks_and_of_a_named_cluster(slurm: StandIn) -> None:
    slurm.says(
        "sinfo", f"CLUSTER: one\nlong jobs{NODES}core*{NODES}core*|1-00:00:00|1|8|4000|(null)\nbig gpus{GPU_NODES}"
    )
    core, gpus = partitions()[1:]
    assert core == Partition(name="core", usual=True, gpus=0, limits={"mem_mb": 128000, "cores": 32, "runtime": 1440})
    assert gpus == Partition(
        name="big gpus", usual=False, gpus=8, limits={"mem_mb": 512000, "cores": 64, "runtime": 2880}
    )


def test_nodes_with_gpus_are_those_that_count_in_a_mixed_partition(slurm: StandIn) -> None:
    slurm.says(
        "sinfo", "all*|infinite|9|8|900000|(null)\nall*|infinite|1|4|4000|gpu:2,tmp:1\nall*|infinite|2|4|8000|gpu:1\n"
    )
    assert partitions() == [Partition(name="all", usual=True, gpus=4, limits={"mem_mb": 8000, "cores": 4})]


def test_cancelling_waits_for_the_end_and_leaves_other_jobs(slurm: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("logs/slurm").mkdir(parents=True)
    other = f"2\tother\t{Path.cwd()}\n"
    slurm.says("squeue", f"1\tdemo\t{Path.cwd()}\n{other}")
    slurm.says("scancel", "")
    monkeypatch.setattr("time.sleep", lambda seconds: slurm.says("squeue", other))
    end_jobs(["1"])
    assert [call for call in slurm.calls if call.startswith("scancel")] == ["scancel 1"]
    assert jobs_here().keys() == {"2"}


@pytest.fixture
def delivered(slurm: StandIn, repository: Path) -> dict[str, Any]:
    """The profile that comes with phrasemt, in this folder."""
    DELIVERED.parent.mkdir()
    DELIVERED.write_bytes((repository / DELIVERED).read_bytes())
    slurm.says("sinfo", f"cpu*{NODES}gpu{GPU_NODES}all{NODES}")
    content: dict[str, Any] = parse_yaml(DELIVERED.read_text())
    return content


def _values(content: object, *keys: str) -> dict[tuple[str, ...], object]:
    """The single values of a profile by their places."""
    if not isinstance(content, dict):
        return {keys: content}
    return {place: value for key, below in content.items() for place, value in _values(below, *keys, key).items()}


def _complete(lines: str | None = None) -> dict[str, Any]:
    """The complete profile, with these lines of the site."""
    if lines is not None:
        SITE.write_text(lines)
    assert main(["slurm"]) == 0
    content: dict[str, Any] = parse_yaml(COMPLETE.read_text())
    return content


def _changed(delivered: dict[str, Any], lines: str | None = None) -> dict[tuple[str, ...], object]:
    before, after = _values(delivered), _values(_complete(lines))
    assert before.keys() <= after.keys()
    return {place: value for place, value in after.items() if value != before.get(place)}


def test_lines_of_a_site_change_what_they_name_and_nothing_else(slurm: StandIn, delivered: dict[str, Any]) -> None:
    """The first lines are those that Slurm reports. Snakemake takes the complete profile for `--profile slurm`."""
    assert outdated_site() is None
    slurm.says("sinfo", f"week{NODES}core*{NODES}fast{GPU_NODES}")
    profile = _complete()
    assert profile["default-resources"][PARTITION] == "'core'"
    assert {of_rule[PARTITION] for of_rule in profile["set-resources"].values() if PARTITION in of_rule} == {"'fast'"}

    slurm.says("sinfo", f"cpu*{NODES}gpu{GPU_NODES}")
    assert _changed(delivered, "set-resources: {train_model: {runtime: 60}}\n") == {
        ("set-resources", "train_model", "runtime"): 60
    }
    assert get_profile_dir("slurm")[1].resolve() == COMPLETE.resolve()


def test_a_run_says_which_file_has_changed(delivered: dict[str, Any]) -> None:
    assert outdated_site() is None
    _complete("")
    assert outdated_site() is None
    SITE.write_text("default-resources: {qos: short}\n")
    assert f"{SITE} has changed since {COMPLETE} was made from it. Next: `phrasemt slurm`" == outdated_site()
    _complete()
    DELIVERED.write_text(DELIVERED.read_text() + "# a later version\n")
    assert (outdated_site() or "").startswith(f"{DELIVERED} has changed")
    DELIVERED.unlink()
    assert outdated_site() is None


def test_no_job_asks_for_more_than_the_nodes_have(slurm: StandIn, delivered: dict[str, Any]) -> None:
    """In both tries; and Slurm warns a training after half of its time at the earliest."""
    small = {"cpu": (90, 1, 4000), "gpu": (8, 2, 6000)}
    lines = [
        f"{name}*|{minutes}:00|3|{cores}|{mb}|{'gpu:1' if name == 'gpu' else '(null)'}"
        for name, (minutes, cores, mb) in small.items()
    ]
    slurm.says("sinfo", "\n".join(lines) + "\n")
    profile = _complete()
    for rule in STAGES:
        asked = profile["default-resources"] | profile["set-resources"].get(rule, {})
        minutes, cores, mb = small[asked[PARTITION].strip("'")]
        threads = profile["set-threads"].get(rule, 1)
        assert threads <= cores
        for attempt in (1, 2):
            names = {"attempt": attempt, "threads": threads, "input": SimpleNamespace(size_mb=100)}
            time, memory = (eval(str(asked[key]), dict(names)) for key in ("runtime", "mem_mb"))
            assert 0 < time <= minutes
            assert 0 < memory <= mb
    assert profile["set-resources"]["train_model"]["slurm_extra"] == "'--signal=USR1@240'"
    assert profile["set-resources"]["translate_examples"]["mem_mb"] == "min(6000, attempt * 8000)"


def test_no_job_asks_for_more_than_its_account_and_quality_of_service_allow(
    slurm: StandIn, delivered: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """As a Slurm 22.05 with its database prints them: what it refuses or lets wait for ever is not asked for.

    Limits of the partition's quality of service go before those of the job's, and these before those of the account
    (sbatch took 21 hours in `short` from an account of 20); a partition has limits of its own, too.
    """
    slurm.says(
        "scontrol",
        "PartitionName=cpu AllowQos=ALL QoS=N/A MaxCPUsPerNode=5 MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=125G\n"
        "PartitionName=gpu AllowQos=ALL QoS=of_gpu MaxCPUsPerNode=UNLIMITED MaxMemPerNode=7000 TRES=cpu=32\n"
        "PartitionName=all AllowQos=ALL QoS=N/A MaxCPUsPerNode=UNLIMITED MaxMemPerCPU=2000\n",
    )
    qos = "normal|||||\nof_gpu|10:00:00|cpu=4,mem=20G|||\nshort|1-00:00:00|||cpu=6|\nlong|5-00:00:00||||\n"
    user = "lab|lab|gpu|short|long,short|05:00:00|cpu=3|\nlab|lab||short|long,short|20:00:00|mem=1.50G|\n"
    user += "lab|big|||normal|||\n"
    slurm.says("sacctmgr", "")
    (slurm.folder / "sacctmgr").write_text(f"#!/bin/sh\ncase $4 in qos) printf '{qos}' ;; *) printf '{user}' ;; esac\n")

    def asked(lines: str) -> tuple[object, ...]:
        profile = _complete(f"limits: {{cpu: {{cores: 5}}, gpu: {{mem_mb: 7000}}}}\n{lines}")
        usual, training = profile["default-resources"], profile["set-resources"]["train_model"]
        threads = (profile["set-threads"][rule] for rule in ("learn_subwords", "train_model"))
        return *threads, *((one.get("mem_mb"), one.get("runtime")) for one in (usual, training))

    every_try, training = "attempt * 60", "attempt * threads * 2000"
    assert asked("") == (
        5, 4, ("min(1536, attempt * 2000)", f"min(1440, {every_try})"), (f"min(7000, {training})", 600)
    )  # fmt: skip
    assert asked("default-resources: {slurm_account: Big}") == (
        5,
        4,
        ("attempt * 2000", every_try),
        (f"min(7000, {training})", 600),
    )
    assert asked("default-resources: {qos: long, runtime: 90000}")[2] == ("min(1536, attempt * 2000)", 7200)
    SITE.unlink()
    _complete()
    assert parse_yaml(SITE.read_text())["limits"] == {
        "cpu": {"mem_mb": 128000, "cores": 5, "runtime": 1440},
        "gpu": {"mem_mb": 7000, "cores": 64, "runtime": 2880},
        "all": {"mem_mb": 128000, "cores": 32, "runtime": 1440},
    }
    for line, message in (
        ("qos: lnog", "no such quality of service: lnog"),
        ("slurm_account: labb", "no such account: labb"),
    ):
        SITE.write_text(f"set-resources: {{train_model: {{{line}}}}}")
        assert main(["slurm"]) == 2
        assert message in capsys.readouterr().err


def test_the_site_may_lower_the_limits(delivered: dict[str, Any]) -> None:
    profile = _complete("limits: {cpu: {runtime: '1:30:00'}}\n")
    assert profile["default-resources"]["runtime"] == "min(90, attempt * 60)"
    assert profile["set-resources"]["train_model"] == delivered["set-resources"]["train_model"], "it is in another one"


def test_of_several_partitions_with_gpus_the_choice_is_told(
    slurm: StandIn, delivered: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.says("sinfo", "cpu*|1:00|1|1|1|(null)\ngpu-dev|30:00|8|4|9000|gpu:4\ngpu|1-00:00:00|2|4|9000|gpu:4\n")
    assert _complete()["set-resources"]["train_model"][PARTITION] == "'gpu'"
    said = capsys.readouterr().err
    assert f"wrote {SITE}; of the partitions with GPUs (gpu, gpu-dev) it names gpu, whose jobs may be longest" in said


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "set-resources: {trian_model: {runtime: 1}}",
            "set-resources: no such rule: trian_model; did you mean 'train_model'?",
        ),
        ("set-threads: {nosuch: 1}", "set-threads: no such rule: nosuch"),
        ("groups: {score_sistem: one}", "no such rule: score_sistem; did you mean 'score_system'?"),
        (
            "default-resources: {slurm_partiton: gpu}",
            "no such resource: slurm_partiton; did you mean 'slurm_partition'?",
        ),
        (
            "set-resources: {train_model: {qso: short}}",
            "set-resources: train_model: no such resource: qso; did you mean 'qos'?",
        ),
        ("default-resources: {slurm_partition: nosuch}", "no such partition: nosuch (Slurm has all, cpu, gpu)"),
        ("set-resources: {train_model: {slurm_partition: 'gpu,old'}}", "no such partition: old"),
        ("limits: {gpus: {runtime: 60}}", "no such partition: gpus"),
        ("limits: {gpu: {cores: many}}", "not a mapping in YAML"),
    ],
)
def test_names_that_do_not_exist_are_told(
    lines: str, message: str, delivered: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    SITE.write_text(lines)
    assert main(["slurm"]) == 2
    assert message in capsys.readouterr().err
    assert not COMPLETE.exists()


def test_names_that_only_the_site_can_know_are_its_own(slurm: StandIn, delivered: dict[str, Any]) -> None:
    lines = "resources: {licences: 2}\ndefault-resources: {slurm_partition: there, clusters: other}\n"
    _complete(lines + "set-resources: {train_model: {licences: 1}}\n")
    slurm.says("sinfo", "", code=1)
    _complete("default-resources: {slurm_partition: there}\n")


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
    line: str, expected: object, delivered: dict[str, Any]
) -> None:
    """Snakemake evaluates text as Python: `all` would be a function. It knows no times of Slurm."""
    complete = _complete(f"default-resources: {{{line}}}\nset-resources:\n  score_system: {{{line}}}\n")
    key = line.partition(":")[0]
    assert complete["default-resources"][key] == complete["set-resources"]["score_system"][key] == expected


def test_null_removes_the_lines_of_a_rule(delivered: dict[str, Any]) -> None:
    complete = _complete("set-resources: {train_model: null}\n")
    assert delivered["set-resources"].keys() - complete["set-resources"].keys() == {"train_model"}


@pytest.mark.parametrize("section", ["default-resources", "set-resources", "set-threads", "groups"])
def test_null_removes_a_section(section: str, delivered: dict[str, Any]) -> None:
    assert section not in _complete(f"{section}: null\n")


def test_a_cluster_without_gpus_asks_for_none(slurm: StandIn, delivered: dict[str, Any]) -> None:
    slurm.says("sinfo", f"all*{NODES}")
    complete = _complete()
    assert complete["default-resources"]["slurm_partition"] == "'all'"
    assert not [rule for rule, found in complete["set-resources"].items() if {"gpu", "slurm_partition"} & found.keys()]
