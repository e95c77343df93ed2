"""Slurm commands besides those of Snakemake's plugin: requeue a job, start on several nodes, list and cancel jobs."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phrasemt.errors import PhrasemtError

Limits = Mapping[str, int]  # of one job: runtime in minutes, mem_mb and cores of a node; an absent one is none

LOGS = Path("logs/slurm")  # the value of slurm-logdir in slurm/profile.yaml
# By cgroups, and by an accounting that polls (OverMemoryKill).
_OUT_OF_MEMORY = re.compile(r"oom[-_ ]?kill|exceeded (?:\w+ )?memory limit|out of memory", re.IGNORECASE)
_GPUS = re.compile(r"\bgpu(?::[^:(),]+)?:(\d+)")  # gpu:2, gpu:a100:4(S:0-1)
_FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")  # of `scontrol --oneliner`; a value may have blanks
_CORES_OR_MEMORY = re.compile(r"\b(cpu|mem)=([\d.]+)([KMGTP]?)")  # cpu=4,mem=1.50T,gres/gpu=2
_MB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_SECONDS = 60
_SECONDS_TO_END = 300  # clusters wait up to minutes between SIGTERM and SIGKILL
# Sets the variables that phrasemt/training/process_group.py reads. srun runs on the first node.
_RANK = 'MASTER_ADDR=${MASTER_ADDR:-$SLURM_LAUNCH_NODE_IPADDR} RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec "$@"'
# Seconds until Slurm kills the other tasks after one has ended.
_GRACE = 600


def requeue_this_job() -> bool:
    """Put the Slurm job of this process back into the queue, under its number; returns whether that was possible.

    For a training that stopped because its time is up or Slurm preempted it. Not possible outside a batch job, for a
    job that Slurm is ending (after a cancellation, for example), and for a job that may not be requeued.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return False
    words = _ask("scontrol", "--oneliner", "show", "job", job).split()
    if not {"JobState=RUNNING", "Requeue=1", "BatchFlag=1"} <= set(words):
        return False
    _ask("scontrol", "requeue", job)
    return True


def on_nodes(command: Sequence[str], *, nodes: int, processes: int, cores: int) -> tuple[list[str], dict[str, str]]:
    """The `srun` command that runs a command in several processes on the nodes of this job, and its environment.

    cores: cores of one node. MASTER_ADDR and MASTER_PORT of this environment go before what is chosen here. Raises
    PhrasemtError outside a Slurm job, or if `processes` is not a multiple of `nodes`.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        next_step = "see docs/clusters.md, or start the processes with torchrun"
        raise PhrasemtError("several nodes, but this is not a Slurm job", next_step=next_step)
    if processes % nodes:
        raise PhrasemtError(
            "the processes cannot be divided evenly among the nodes",
            expected=f"a multiple of {nodes} (--nodes)",
            found=f"{processes} (--processes)",
            next_step="ask for one process per GPU of all nodes",
        )
    here = processes // nodes
    srun = [
        *("srun", f"--nodes={nodes}", f"--ntasks={processes}", f"--ntasks-per-node={here}"),
        *(f"--cpus-per-task={max(1, cores // here)}", "--kill-on-bad-exit=0", f"--wait={_GRACE}"),
    ]
    # This process runs on the first node of the job, which has the first rank. Jobs on one node get different ports,
    # below those that Linux gives to connections (from 32768).
    place = {"MASTER_ADDR": _own_name(), "MASTER_PORT": str(20_000 + int(job) % 12_000)}
    return [*srun, "sh", "-c", _RANK, "sh", *command], {**place, **os.environ, "WORLD_SIZE": str(processes)}


def _own_name() -> str:
    """The name of this node, or nothing if it leads nowhere; then the processes take the address that srun tells."""
    try:
        socket.getaddrinfo(name := socket.gethostname(), None)
    except OSError:
        return ""
    return name


def jobs_here() -> dict[str, str]:
    """The names of the queued and running Slurm jobs that were submitted from this folder, by their numbers.

    Returns no jobs if no run used Slurm. Raises PhrasemtError if Slurm does not answer.
    """
    if not LOGS.is_dir() or shutil.which("squeue") is None:
        return {}
    rows = _ask("squeue", "--noheader", "--user", str(os.getuid()), "--format", "%A\t%j\t%Z").splitlines()
    jobs = [row.split("\t") for row in rows if "\t" in row]  # not "CLUSTER: name"; a name may have tabulators
    return {job: name for job, name, *_, folder in jobs if Path(folder) == Path.cwd()}


def reasons_to_wait(name: str) -> Counter[str]:
    """How many jobs of this name wait in the queue for each of Slurm's reasons; none where Slurm does not answer."""
    try:
        return Counter(_ask("squeue", "--noheader", "--states=PENDING", "--name", name, "--format", "%r").splitlines())
    except PhrasemtError:
        return Counter()


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs by their numbers. Raises PhrasemtError if Slurm does not answer, or does not know one of them."""
    _ask("scancel", *jobs)


def end_jobs(jobs: Collection[str]) -> None:
    """Cancel jobs of this folder and wait until they have ended.

    Raises PhrasemtError if they do not end or Slurm does not answer.
    """
    end = time.monotonic() + _SECONDS_TO_END
    while left := jobs_here().keys() & set(jobs):
        if time.monotonic() > end:
            next_step = "look at `squeue`; if their node is down, ask the administrators of the cluster"
            raise PhrasemtError("cancelled Slurm jobs do not end", found=", ".join(sorted(left)), next_step=next_step)
        cancel(sorted(left))
        time.sleep(1)


def ran_out_of_memory(job: str) -> bool:
    """Whether the log of a job of this folder says that Slurm killed it for the memory that it used."""
    logs = (path.read_text(encoding="utf-8", errors="replace") for path in LOGS.rglob(f"{job}.log"))
    return any(map(_OUT_OF_MEMORY.search, logs))


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition of the cluster.

    usual: it takes jobs that name none. gpus: of all its nodes. limits: of a job, on its largest node, which has GPUs
    if any has some. qos: the quality of service whose limits hold for its jobs, or nothing.
    """

    name: str
    usual: bool
    gpus: int
    limits: Limits
    qos: str = ""


def partitions() -> list[Partition]:
    """The partitions of this cluster, in Slurm's order. Raises PhrasemtError if Slurm does not answer or has none."""
    lines = _ask("scontrol", "--oneliner", "show", "partition").splitlines()
    configured = {fields["PartitionName"]: fields for fields in (dict(_FIELD.findall(line)) for line in lines)}
    found: dict[str, Partition] = {}
    for line in _ask("sinfo", "--noheader", "--exact", "--format=%P|%l|%D|%c|%m|%G").splitlines():
        if "|" not in line:  # "CLUSTER: name"
            continue
        star_name, longest, nodes, cores, memory, resources = line.split("|")
        name = star_name.rstrip("*")
        fields = configured.get(name, {})
        maxima = {"mem_mb": fields.get("MaxMemPerNode", ""), "cores": fields.get("MaxCPUsPerNode", "")}
        kind = Partition(
            name=name,
            usual=star_name.endswith("*"),
            gpus=int(nodes) * sum(map(int, _GPUS.findall(resources))),
            limits=lowest(
                {"mem_mb": int(memory), "cores": int(cores)},
                {key: int(maximum) for key, maximum in maxima.items() if maximum.isdecimal()},
                {} if longest in ("infinite", "n/a") else {"runtime": minutes_of(longest)},
            ),
            qos=fields.get("QoS", "").removesuffix("N/A"),
        )
        other = found.setdefault(name, kind)
        largest = max(other, kind, key=lambda one: (one.gpus > 0, one.limits["mem_mb"], one.limits["cores"]))
        gpus = kind.gpus if other is kind else other.gpus + kind.gpus
        found[name] = replace(largest, gpus=gpus)
    if not found:
        raise PhrasemtError("Slurm has no partition", next_step="see `sinfo`")
    return list(found.values())


@dataclass(frozen=True)
class Accounting:
    """What Slurm's database says of this user's jobs; a site may have none.

    qos: limits by the name of the quality of service. associations: by account and partition, the quality of service of
    jobs that name none, and limits; "" is the account of jobs that name none, and any partition.
    """

    qos: Mapping[str, Limits]
    associations: Mapping[tuple[str, str], tuple[str, Limits]]

    def limits(self, partition: str, of_partition: str, account: str, qos: str) -> Limits:
        """The limits of jobs with this account and quality of service ("" for usual ones) in a partition.

        of_partition: its quality of service, whose limits go before those of the job's, and these before those of the
        account, as in Slurm.
        """
        any_partition = self.associations.get((account, ""), ("", {}))
        usual, limits = self.associations.get((account, partition), any_partition)
        return {**limits, **self.qos.get(qos or usual, {}), **self.qos.get(of_partition, {})}


def accounting() -> Accounting:
    """What Slurm's database says of this user's jobs; nothing where Slurm has none or it does not answer."""
    maxima = "MaxWall,MaxTRES,GrpTRES"
    qos = {name: _limits_of(*values) for name, *values in _database("qos", f"format=Name,{maxima},MaxTRESPU,MaxTRESPA")}
    associations = {}
    columns = f"format=DefaultAccount,Account,Partition,DefaultQOS,QOS,{maxima}"
    for usual_account, account, partition, usual_qos, all_qos, *values in _database(
        "user", getpass.getuser(), "withassoc", columns
    ):
        for name in (account, "") if account == usual_account else (account,):
            associations[name, partition] = (usual_qos or all_qos, _limits_of(*values))
    return Accounting(qos, associations)


def _database(*words: str) -> list[list[str]]:
    try:
        rows = _ask("sacctmgr", "--noheader", "--parsable2", "show", *words).splitlines()
    except PhrasemtError:  # many sites have no accounts
        return []
    return [row.split("|") for row in rows if "|" in row]


def _limits_of(longest: str, *resources: str) -> Limits:
    """The limits of a row of the database; resources: such as cpu=8,mem=20G."""
    limits = [{"runtime": minutes_of(longest)}] if longest else []
    for kind, number, unit in _CORES_OR_MEMORY.findall(",".join(resources)):
        limits.append({"cores": int(float(number))} if kind == "cpu" else {"mem_mb": int(float(number) * _MB[unit])})
    return lowest(*limits)


def lowest(*limits: Limits) -> Limits:
    """The lowest limit of each resource."""
    keys = dict.fromkeys(key for one in limits for key in one)
    return {key: min(one[key] for one in limits if key in one) for key in keys}


def minutes_of(time: str) -> int:
    """A time of Slurm: 1-12, 1-12:30, 1-12:30:00, 12:30:00, or 30:00, which are minutes and seconds."""
    days, has_days, rest = time.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    hours, minutes, seconds = ([0, *numbers] if len(numbers) == 2 and not has_days else [*numbers, 0, 0])[:3]
    return (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0)


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PhrasemtError(
            f"Slurm does not answer `{' '.join(command)}`",
            found=(getattr(error, "stderr", None) or str(error)).strip(),
            next_step="try again when `squeue` works",
        ) from error
