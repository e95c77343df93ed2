"""Slurm commands besides those of Snakemake's plugin: requeue a job, start on several nodes, list and cancel jobs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from phrasemt.errors import PhrasemtError

# The values of slurm-jobname-prefix, to which the plugin appends an identifier of the run, and of slurm-logdir in
# slurm/profile.yaml.
JOB_NAME = "phrasemt_"
LOGS = Path("logs/slurm")
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


def jobs_here() -> list[str]:
    """Numbers of the queued and running Slurm jobs that Snakemake submitted from this folder.

    Returns no numbers if no run used Slurm. Raises PhrasemtError if Slurm does not answer.
    """
    if not LOGS.is_dir() or shutil.which("squeue") is None:
        return []
    rows = _ask("squeue", "--noheader", "--user", str(os.getuid()), "--format", "%A\t%j\t%Z").splitlines()
    jobs = [row.split("\t") for row in rows if "\t" in row]  # not "CLUSTER: name"; a name may have tabulators
    return [job for job, name, *_, folder in jobs if name.startswith(JOB_NAME) and Path(folder) == Path.cwd()]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs by their numbers. Raises PhrasemtError if Slurm does not answer, or does not know one of them."""
    _ask("scancel", *jobs)


def cancel_jobs_here() -> None:
    """Cancel the jobs of this folder and wait until they have ended.

    Raises PhrasemtError if they do not end or Slurm does not answer.
    """
    end = time.monotonic() + _SECONDS_TO_END
    while jobs := jobs_here():
        if time.monotonic() > end:
            next_step = "look at `squeue`; if their node is down, ask the administrators of the cluster"
            raise PhrasemtError("cancelled Slurm jobs do not end", found=", ".join(jobs), next_step=next_step)
        cancel(jobs)
        time.sleep(1)


def partitions() -> tuple[str, str | None]:
    """The partition that takes jobs without one, or else the first; and the first of those whose nodes have GPUs.

    Raises PhrasemtError if Slurm does not answer or has no partition.
    """
    lines = _ask("sinfo", "--noheader", "--format=%P|%G").splitlines()
    rows = [(name.strip(), resources) for name, bar, resources in (line.partition("|") for line in lines) if bar]
    if not rows:
        raise PhrasemtError("Slurm has no partition", next_step="see `sinfo`")
    usual = [name for name, _ in rows if name.endswith("*")] or [rows[0][0]]
    with_gpus = [name.rstrip("*") for name, resources in rows if "gpu" in resources]
    return usual[0].rstrip("*"), with_gpus[0] if with_gpus else None


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PhrasemtError(
            f"Slurm does not answer `{' '.join(command)}`",
            found=(getattr(error, "stderr", None) or str(error)).strip(),
            next_step="try again when `squeue` works",
        ) from error
