"""A folder in which the tiny study of these tests is run on the cluster, and what can be asked and done there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from one_host_slurm import ask, wait_until
from workplace import Workplace

# Two systems, so that they are compared; `base` trains for so long that something can happen to it meanwhile.
STUDY = """\
study: tiny
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {train: 200, dev: 20, test: 20}
    subwords: {merges: 100, vocabulary_threshold: 0}
systems:
  base:
    model: &model {family: transformer, encoder_layers: 1, decoder_layers: 1, width: 16, heads: 2, ffn_width: 32}
    training: &training
      tokens_per_update: 200
      max_updates: 400
      optimizer: {warmup: 100}
      evaluate_every: 200
      checkpoint_every: 40
      average_last: 2
    decoding: &decoding {beam: 2, max_length_extra: 5}
  max:
    model: {<<: *model, family: phrase_representation, phrase: {mode: ngram}}
    training: {<<: *training, max_updates: 2, evaluate_every: 1, checkpoint_every: 1}
    decoding: *decoding
comparison: {samples: 10}
"""
# The sizes of the profile are for GPUs and big corpora. One thread gives the same sums as a run without Slurm.
OPTIONS = (
    *(
        "--set-threads",
        "train_model=1",
        "translate_examples=1",
        "tokenize_text=1",
        "learn_subwords=1",
        "apply_subwords=1",
    ),
    *("--latency-wait", "10", "--jobs", "4", "--slurm-init-seconds-before-status-checks", "2"),
)
PATIENCE = 600  # seconds; only a broken workflow takes so long


def has_heard(halted: psutil.Process, signum: signal.Signals) -> bool:
    """Whether a signal waits for a halted process, or Slurm has let it go on for that, and it has ended."""
    try:
        lines = Path(f"/proc/{halted.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    (mask,) = (line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return bool(int(mask, 16) >> (signum - 1) & 1)


def resume(halted: Iterable[psutil.Process]) -> None:
    """Let processes go on, if they have not ended."""
    for process in halted:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@dataclass(frozen=True)
class Site(Workplace):
    """A copy of the repository on the file system of the cluster."""

    program: ClassVar[tuple[str, ...]] = (str(Path(__file__).with_name("bin") / "snakemake"),)

    profile: str = "slurm"

    @property
    def python(self) -> str:
        """Of Snakemake; only the stages of its jobs may be warm."""
        return sys.executable

    @property
    def model(self) -> Path:
        """Where the training that tests disturb keeps its files."""
        return self.results / "demo.en-de" / "models" / "base" / "1"

    @property
    def record(self) -> str:
        """The file that this training ends with, as a target for Snakemake."""
        return str(self.model.relative_to(self.folder) / "training.json")

    def forget_training(self) -> None:
        """Remove the training and all that comes of it."""
        for path in [*self.results.glob("demo.en-de/*/base"), self.results / "demo.en-de" / "comparisons"]:
            shutil.rmtree(path)
        for path in [*self.results.glob("table.*"), *self.results.glob("report.*")]:
            path.unlink()

    def command(self, *arguments: str) -> list[str]:
        """Of a run on the cluster."""
        return super().command(*arguments, *OPTIONS)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A run on the cluster that is going on; its messages are in `messages`."""
        with (self.folder / "messages").open("w") as messages:
            return subprocess.Popen(
                self.command(*arguments), cwd=self.folder, env=self.environment,
                stdout=messages, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def instead_of(self, program: str, patch: pytest.MonkeyPatch, before: str) -> None:
        """Let lines of a shell run before each call of a program of Slurm."""
        path = self.folder / "bin" / program
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\n{before}\nexec {shutil.which(program)} "$@"\n')
        path.chmod(0o755)
        patch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")

    def slow_states(self, patch: pytest.MonkeyPatch) -> Path:
        """Let Slurm take two seconds to answer Snakemake's question for states; returns a file that each one writes."""
        asked = self.folder / "asked"
        self.instead_of("squeue", patch, f'case "$*" in *--states=all*) : > {asked}; sleep 2;; esac')
        return asked

    def finish(self, run: subprocess.Popen[str], *, code: int = 0, patience: float = PATIENCE) -> str:
        """The messages of a run that ends with this exit code."""
        run.wait(patience)
        messages = (self.folder / "messages").read_text()
        assert run.returncode == code, messages[-5000:]
        return messages

    def table(self) -> dict[str, bytes]:
        """What a study ends with."""
        return {
            name: (self.results / name).read_bytes() for name in ("table.json", "table.md", "table.tex", "table.csv")
        }

    def jobs(self, state: str = "all") -> dict[str, str]:
        """Jobs that Slurm knows of this folder, by number: what they are for, as `rule_name_wildcards_...`."""
        rows = ask("squeue", "-h", "-t", state, "-o", "%A|%k|%Z").splitlines()
        return {job: comment for job, comment, folder in (row.split("|") for row in rows) if folder == str(self.folder)}

    def training_job(self) -> str:
        """The number of the one job that is running the training."""
        (job,) = (job for job, comment in self.jobs("running").items() if "train_model" in comment)
        return job

    def training_processes(self) -> list[psutil.Process]:
        """Processes that train here: `python -m phrasemt train_model ...`."""
        return [process for process in self.processes() if process.info["cmdline"][2:4] == ["phrasemt", "train_model"]]

    def processes(self) -> list[psutil.Process]:
        """All processes whose working folder this is; `info` has their commands, which may have ended meanwhile."""
        of_all = psutil.process_iter(["cwd", "cmdline"])
        return [process for process in of_all if process.info["cwd"] == str(self.folder) and process.info["cmdline"]]

    def hold_training(self, processes: int = 1) -> list[psutil.Process]:
        """The processes of the training, halted when it has saved a state to go on from."""
        wait_until(lambda: list(self.model.glob("state/*/latest.safetensors")), "first saved state", PATIENCE)
        training = self.training_processes()
        for process in training:
            process.suspend()
        assert len(training) == processes
        return training

    def finish_here(self, target: str = "results/tiny/table.md", *options: str) -> None:
        """What is still to be done for the table, or another target, without the cluster."""
        done = Workplace(self.folder, warm=self.warm).snakemake(target, *options)
        assert done.returncode == 0, done.stderr[-5000:]
