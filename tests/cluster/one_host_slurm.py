"""A Slurm of four nodes on this machine: n1 and n2 with processors, g1 and g2 also with four GPUs, which are files.

Its configuration, logs and state lie in a folder of its own. All that it needs elsewhere is /etc/slurm/slurm.conf,
because jobs are started without SLURM_CONF; a machine that has one already is left alone. The cluster of tests that
were killed is cleared away first.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

CONFIGURATION = Path("/etc/slurm")
NODES = ("n1", "n2", "g1", "g2")
GPUS_OF_A_NODE = 4
PATIENCE = 60  # seconds; only a broken cluster takes so long
_PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol")
# What the nodes have is what they say (config_overrides), so the sizes of a real profile fit. cred_expire is also how
# long a requeued job waits. Processes of a job are found by their parents, without control groups; the epilog finds
# those that have lost them, as many sites have it.
_SLURM = """\
ClusterName=phrasemt
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
Epilog={folder}/epilog
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
KillWait=5
MinJobAge=3600
SlurmdTimeout=20
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
GresTypes=gpu
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=32 RealMemory=128000
NodeName=g[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17003-17004] CPUs=32 RealMemory=128000 Gres=gpu:4
PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=1-00:00:00 PriorityTier=10
PartitionName=gpu Nodes=g[1-2] MaxTime=2-00:00:00 PriorityTier=5 GraceTime=20
PartitionName=urgent Nodes=g[1-2] MaxTime=1-00:00:00 PriorityTier=10
"""
# torch cannot use these GPUs. Without the flag Slurm would name them in CUDA_VISIBLE_DEVICES, and trainings would
# refuse to run on the CPU.
_GRES = "NodeName=g[1-2] Name=gpu File={folder}/gpu[0-3] Flags=no_gpu_env\n"
# A job is over when none of its processes is left on the node. Snakemake's own, when a job is cancelled, may outlive
# their parents and last for ever: its signal handler waits for a lock that it has interrupted (Snakemake 9.27).
_EPILOG = """\
#!/bin/sh
here=$(grep -lzx SLURMD_NODENAME=$SLURMD_NODENAME /proc/[0-9]*/environ 2> /dev/null)
for file in $(grep -lzx SLURM_JOB_ID=$SLURM_JOB_ID $here 2> /dev/null); do
    process=$(basename $(dirname $file))
    [ $process = $$ ] || kill -KILL $process
done
exit 0
"""


def missing() -> str | None:
    """What stands in the way of a Slurm on this machine, None when nothing does."""
    if os.geteuid() != 0:
        return "it must be run by root, who alone may start the daemons of a cluster"
    if absent := [program for program in _PROGRAMS if shutil.which(program) is None]:
        return f"no {', '.join(absent)}: it needs Debian's slurm-wlm and munge (`make test-cluster` installs them)"
    file = CONFIGURATION / "slurm.conf"
    folder = _folder_of_configuration()
    if folder is None:
        return f"{file} is there: this machine belongs to another cluster" if file.exists() else None
    if (owner := _process(folder / "owner.pid")) is not None:
        return f"{file} leads to a cluster that process {owner.pid} uses. Next: wait for its end"
    return None


@contextmanager
def one_host_slurm(folder: Path) -> Iterator[None]:
    """The cluster, while it is entered. Afterwards none of its processes and files is left.

    folder: a new one whose name begins with phrasemt. Raises RuntimeError when the cluster cannot start, or when
    processes of its jobs outlive it (they are killed then).
    """
    if (problem := missing()) is not None:
        raise RuntimeError(problem)
    if (killed := _folder_of_configuration()) is not None:
        _stop(killed)
        shutil.rmtree(killed, ignore_errors=True)
    _configure(folder)
    made = not CONFIGURATION.exists()
    CONFIGURATION.mkdir(exist_ok=True)
    links = [CONFIGURATION / name for name in ("slurm.conf", "gres.conf")]
    try:
        for link in links:
            link.unlink(missing_ok=True)  # of a cluster that was killed
            link.symlink_to(folder / link.name)
        _start(folder)
        yield
    finally:
        outlived = _stop(folder)
        for link in links:
            link.unlink(missing_ok=True)
        if made:
            CONFIGURATION.rmdir()
    if outlived:
        raise RuntimeError(f"processes outlived the cluster: {outlived}")


def start_node(node: str, folder: Path) -> None:
    """Start the daemon of a node."""
    subprocess.run(["slurmd", "-N", node], check=True)
    wait_until(lambda: _process(folder / f"slurmd-{node}.pid") is not None, f"slurmd of {node}")


def restarts(job: str) -> int:
    """How often Slurm has put a job back into the queue."""
    (word,) = (word for word in ask("scontrol", "show", "job", job).split() if word.startswith("Restarts="))
    return int(word.partition("=")[2])


def kill_node(node: str, folder: Path) -> None:
    """End a node as a power cut does: its daemon, and all processes of its jobs."""
    jobs = ask("squeue", "-h", "-w", node, "-o", "%A").split()
    found = [daemon] if (daemon := _process(folder / f"slurmd-{node}.pid")) else []
    for process in psutil.process_iter(["name", "cmdline"]):
        title = " ".join(process.info["cmdline"] or [])
        if process.info["name"] == "slurmstepd" and any(f"[{job}." in title for job in jobs):
            found += [process, *process.children(recursive=True)]
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=PATIENCE)


@contextmanager
def file_system(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own in a folder; what is in it is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Raises TimeoutError when the condition does not come true."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience:.0f} seconds")
        time.sleep(0.1)


def ask(*command: str) -> str:
    """What a Slurm program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _folder_of_configuration() -> Path | None:
    """The folder of the cluster of these tests that /etc/slurm/slurm.conf leads to, None when it is another file."""
    file = CONFIGURATION / "slurm.conf"
    folder = file.readlink().parent if file.is_symlink() else None
    return folder if folder is not None and folder.name.startswith("phrasemt") else None


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)  # munge's socket lies in it
    (folder / "owner.pid").write_text(str(os.getpid()))
    for name, text in (("slurm.conf", _SLURM), ("gres.conf", _GRES)):
        (folder / name).write_text(text.format(folder=folder, host=socket.gethostname().partition(".")[0]))
    epilog = folder / "epilog"
    epilog.write_text(_EPILOG)
    epilog.chmod(0o755)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    for number in range(GPUS_OF_A_NODE):
        os.mknod(folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null


def _start(folder: Path) -> None:
    files = {name: folder / f"munge.{name}" for name in ("key", "socket", "pid", "log", "seed")}
    subprocess.run(
        ["munged", "--force", f"--key-file={files['key']}", f"--socket={files['socket']}",
         f"--pid-file={files['pid']}", f"--log-file={files['log']}", f"--seed-file={files['seed']}"],
        check=True,
    )  # fmt: skip
    subprocess.run(["slurmctld"], check=True)
    for node in NODES:
        (folder / "spool" / node).mkdir()
        start_node(node, folder)
    wait_until(
        lambda: set(ask("sinfo", "-h", "-N", "-o", "%N %T").splitlines()) == {f"{node} idle" for node in NODES},
        "idle nodes",
    )


def _stop(folder: Path) -> list[str]:
    """End the jobs, then the daemons; what had to be killed because it did not end with them."""
    controller = _process(folder / "slurmctld.pid")
    if controller is not None:
        subprocess.run(["scancel", "--user=root"], check=False)
        # One that does not answer, because it could not start, has no jobs.
        wait_until(lambda: not subprocess.run(["squeue", "-h"], stdout=subprocess.PIPE).stdout, "end of the jobs")
    for names in ((*(f"slurmd-{node}" for node in NODES), "slurmctld"), ("munge",)):
        daemons = [daemon for name in names if (daemon := _process(folder / f"{name}.pid")) is not None]
        for daemon in daemons:
            daemon.terminate()
        psutil.wait_procs(daemons, timeout=PATIENCE)
    left = list(_left(folder))
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return [f"{process.pid}" for process in left]


def _process(pid_file: Path) -> psutil.Process | None:
    try:
        process = psutil.Process(int(pid_file.read_text()))
        # A process that began after the file was written has the number of one that has ended..
        return process if process.create_time() < pid_file.stat().st_mtime + 1 else None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None


def _left(folder: Path) -> Iterator[psutil.Process]:
    """Processes that work in the folder of the cluster or were named after it."""
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = [process.info["cwd"] or "", *(process.info["cmdline"] or [])]
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            yield process
