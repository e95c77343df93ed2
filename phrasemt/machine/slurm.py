"""What phrasemt asks of Slurm, besides Snakemake's plugin: to come back, to start on several nodes, who works here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from phrasemt.errors import PhrasemtError

# Both as slurm/profile.yaml says: slurm-jobname-prefix, to which the plugin appends an identifier of the run,
# and slurm-logdir.
JOB_NAME = "phrasemt_"
LOGS = Path("logs/slurm")
_SECONDS = 60
_SECONDS_TO_END = 300  # sites give the processes of a job up to minutes between SIGTERM and SIGKILL
# Each task is told its place by the names that phrasemt/train/ranks.py reads.
_RANK = 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec "$@"'
# Seconds that the others have to end by themselves after one has ended.
_GRACE = 600


def come_back() -> bool:
    """Put the job that this process runs in back into the queue, where it keeps its number and waits for its next turn.

    For work that stopped because its time is up or a more urgent job wants its place. Not for a job that is being ended
    (cancelled, say), that may not be requeued, or that is none (an interactive allocation). Whether it comes back.
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
    """The command that runs another one in several processes on the nodes of this job, and its environment.

    cores: of a node. Raises PhrasemtError outside a Slurm job, or when the nodes cannot share the processes evenly.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        raise PhrasemtError(
            "several nodes, and no Slurm job that has them", next_step="see docs/clusters.md, or start it with torchrun"
        )
    if processes % nodes:
        raise PhrasemtError(
            "the nodes have not the same number of processes",
            expected=f"a multiple of {nodes} (--nodes)",
            found=f"{processes} (--processes)",
            next_step="ask for as many processes as GPUs of all nodes",
        )
    here = processes // nodes
    srun = [
        *("srun", f"--nodes={nodes}", f"--ntasks={processes}", f"--ntasks-per-node={here}"),
        *(f"--cpus-per-task={max(1, cores // here)}", "--kill-on-bad-exit=0", f"--wait={_GRACE}"),
    ]
    # The job's first node, where this process is, has the first rank. Jobs that share it have different ports.
    port = 20000 + int(job) % 20000
    place = {"WORLD_SIZE": str(processes), "MASTER_ADDR": socket.gethostname(), "MASTER_PORT": str(port)}
    return [*srun, "sh", "-c", _RANK, "sh", *command], {**os.environ, **place}


def jobs_here() -> list[str]:
    """Numbers of the jobs that Snakemake has put into the queue from this folder and that have not ended.

    None where no run has used Slurm. Raises PhrasemtError when Slurm does not answer.
    """
    if not LOGS.is_dir() or shutil.which("squeue") is None:
        return []
    rows = _ask("squeue", "--noheader", "--user", str(os.getuid()), "--format", "%A\t%j\t%Z").splitlines()
    jobs = [row.split("\t") for row in rows]
    return [job for job, name, folder in jobs if name.startswith(JOB_NAME) and Path(folder) == Path.cwd()]


def cancel_jobs_here() -> None:
    """Cancel the jobs of this folder, and wait until no process of theirs is left.

    Raises PhrasemtError when they do not end, or Slurm does not answer.
    """
    end = time.monotonic() + _SECONDS_TO_END
    while jobs := jobs_here():
        if time.monotonic() > end:
            raise PhrasemtError(
                "cancelled Slurm jobs do not end",
                found=", ".join(jobs),
                next_step="look at `squeue`; when their node is down, ask those who run the cluster",
            )
        _ask("scancel", *jobs)
        time.sleep(1)


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PhrasemtError(
            f"Slurm does not answer `{' '.join(command)}`",
            found=(getattr(error, "stderr", None) or str(error)).strip(),
            next_step="try again when `squeue` works",
        ) from error
