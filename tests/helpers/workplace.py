"""A tiny study, a folder in which it can be run, changed and killed, and the commands of its stages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pytest
from stage_settings import arguments_of
from warm_python import WarmPython

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.stages import STAGES

STUDY = """\
study: tiny
datasets:
  demo:
    source_language: en
    target_language: de
    generator: {train: 60, dev: 5, test: 20}
    subwords: {merges: 100, vocabulary_threshold: 0}
    source_parser: english
    target_chunks: {origin: chunker, chunker: german}
parsers:
  english:
    language: en
    train:
      train: [{generated: demo, split: train}]
      dev: [{generated: demo, split: dev}]
      test: [{generated: demo, split: test}]
      vectors: 0
      hidden: 96  # a smaller one learns to open brackets for ever, and parses five times as long
      tagger_updates: 10
      epochs: 1
chunkers:
  german:
    language: de
    train:
      train: [{generated: demo, split: train}]
      test: [{generated: demo, split: test}]
      vectors: 0
      hidden: 16
      updates: 10
systems:
  base:
    model: &model {family: transformer, encoder_layers: 1, decoder_layers: 1, width: 16, heads: 2, ffn_width: 32}
    training: &training
      tokens_per_update: 200
      max_updates: 2
      optimizer: {warmup: 2}
      evaluate_every: 1
      checkpoint_every: 1
      average_last: 2
    decoding: &decoding {beam: 2, max_length_extra: 5}
  bi:
    model: {family: biscale, embedding: 8, hidden: 16, chunk_hidden: 8, chunk_embedding: 12}
    training: *training
    decoding: *decoding
  lm:
    model: {family: language_model, layers: 1, width: 16, heads: 2, ffn_width: 32}
    training: *training
  max:
    model: {<<: *model, family: phrase_representation, phrase: {mode: parse}}
    training: *training
    decoding: *decoding
comparison: {samples: 10}
"""
# The stages that the tiny study does not run: it has one seed and no corpora, contrast sets, model files, metrics, and
# rows of other programs.
_OTHER_STAGES = {
    "fetch_corpus",
    "extract_text",
    "partition_corpus",
    "extract_contrasts",
    "score_metric",
    "measure_variation",
    "fetch_stanza_file",
    "describe_annotator",
    "collect_trees",
    "import_translations",
    "train_truecaser",
    "normalize_case",
    "train_lm",
    "align_words",
    "extract_phrase_table",
    "tune_moses",
    "translate_with_moses",
}
STAGES_OF_STUDY = sorted(STAGES.keys() - _OTHER_STAGES)
PARTS = ("phrasemt", "democorpus", "workflow", "rules", "profiles", "envs", "slurm")


@dataclass(frozen=True)
class Workplace:
    """A copy of the repository in which things can be run, changed and killed."""

    program: ClassVar[tuple[str, ...]] = ("-m", "snakemake")

    folder: Path
    profile: str = "profiles/local"
    warm: WarmPython | None = None  # for its commands, when no test is to send them a signal

    @classmethod
    def new(cls, repository: Path, folder: Path, study: str = STUDY, warm: WarmPython | None = None) -> Self:
        """A folder with all that a run needs, and nothing run yet."""
        for part in PARTS:
            shutil.copytree(repository / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        workplace = cls(folder, warm=warm)
        workplace.write_study(study)
        return workplace

    @property
    def results(self) -> Path:
        return self.folder / "results" / "tiny"

    @property
    def python(self) -> str:
        return str(self.warm.path) if self.warm else sys.executable

    def command(self, *arguments: str) -> list[str]:
        """Of a run of Snakemake."""
        return [self.python, *self.program, *arguments, "--profile", self.profile, "--configfile", "study.yaml"]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.folder)} | (self.warm.variables if self.warm else {})

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.command(*arguments))

    def phrasemt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "phrasemt", *arguments)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, check=False, capture_output=True, text=True
        )

    def write_study(self, text: str) -> None:
        (self.folder / "study.yaml").write_text(text, encoding="utf-8")


def stage_command(sidecar: Sidecar, stage: str, folders: dict[str, Path]) -> list[str]:
    """The command that made an artefact, read off its sidecar."""
    files = {name: [file.path for file in read] for name, read in sidecar.inputs.items()}
    files |= {name: file.path for name, file in sidecar.outputs.items()}
    files |= {file.name: folders[file.name] for file in STAGES[stage].stage_files("folder")}
    return arguments_of(stage, STAGES[stage].model_validate(sidecar.settings), **files)


def copy_tracked(repository: Path, folder: Path) -> None:
    """Copy the files that git tracks, as they are now. Skips the test outside of a git checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (repository / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, folder / name)
