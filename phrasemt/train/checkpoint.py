"""What a training keeps on disk: weights to average, and the one state from which it goes on.

    state/<signature>/checkpoint-000500.safetensors     weights after update 500
    state/<signature>/latest.safetensors                weights, optimiser, random state and place in the plan
    state/<signature>/metrics.jsonl                     one line per report

The signature is the digest of everything the result follows from, so trainings under different settings never meet in
one folder, and returning to earlier settings finds their state again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phrasemt.errors import DamagedFileError, MismatchError
from phrasemt.lines import commit_file, temporary_beside
from phrasemt.models.weights import load_tensors, save_tensors, set_weights, weights_of


@dataclass(kw_only=True)
class Progress:
    """How far a training has come. `epoch` and `position` name the next update of the plan."""

    update: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    checkpoints: list[str] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def best(self) -> dict[str, Any] | None:
        """The evaluation with the highest dev BLEU, without any the lowest dev perplexity; the earliest of equals."""
        return max(self.evaluations, key=lambda values: values.get("dev_bleu", -values["dev_perplexity"]), default=None)

    @property
    def evaluations_since_best(self) -> int:
        best = self.best
        return len(self.evaluations) - 1 - self.evaluations.index(best) if best else 0


class StateFolder:
    """The files of one training. Every file is written under a temporary name and renamed."""

    def __init__(self, folder: Path, *, signature: str, description: dict[str, Any], keep: int) -> None:
        self.folder = folder / signature[:12]
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(".*.part"):
            leftover.unlink()
        self._signature = signature
        self._description = description
        self._keep = keep
        self._latest = self.folder / "latest.safetensors"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def save_checkpoint(self, model: torch.nn.Module, progress: Progress) -> None:
        """Write the weights of this update and forget those that will not be averaged."""
        name = f"checkpoint-{progress.update:06d}.safetensors"
        self._save(self.folder / name, weights_of(model), {"update": progress.update})
        progress.checkpoints = [*(kept for kept in progress.checkpoints if kept != name), name][-self._keep :]

    def save_latest(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Write all that the next updates follow from; then remove checkpoints it no longer names."""
        tensors = {f"model.{name}": tensor for name, tensor in weights_of(model).items()}
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state[parameter].items():
                tensors[f"optimizer.{key}.{name}"] = value.detach().cpu().clone()
        tensors["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        self._save(self._latest, tensors, {"progress": asdict(progress)})
        for path in self.folder.glob("checkpoint-*.safetensors"):
            if path.name not in progress.checkpoints:
                path.unlink()

    def load_latest(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Progress | None:
        """Put model, optimiser and random state back to the last saved place; None when there is none.

        Raises DamagedFileError for an unreadable state and MismatchError for that of another training.
        """
        if not self._latest.exists():
            return None
        tensors, description = load_tensors(self._latest)
        if description.get("signature") != self._signature:
            raise MismatchError(
                "training state of another study or data set",
                where=self._latest,
                expected=f"signature {self._signature[:12]}",
                found=f"signature {str(description.get('signature'))[:12]}",
                next_step=f"move {self.folder} away and run again",
            )
        progress = Progress(**description["progress"])
        set_weights(model, _part(tensors, "model."), where=self._latest)
        parameters = dict(model.named_parameters())
        for key, tensor in _part(tensors, "optimizer.").items():
            entry, _, name = key.partition(".")
            optimizer.state[parameters[name]][entry] = tensor.to(parameters[name].device)
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["random.cuda"])
        for name in progress.checkpoints:
            if not (self.folder / name).exists():
                raise DamagedFileError(
                    "a checkpoint of this training is missing",
                    where=self.folder / name,
                    next_step=f"move {self.folder} away and train again",
                )
        return progress

    def _save(self, path: Path, tensors: dict[str, Tensor], extra: dict[str, Any]) -> None:
        temporary = temporary_beside(path)
        try:
            save_tensors(temporary, tensors, {**self._description, "signature": self._signature, **extra})
            commit_file(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def truncate_metrics(self, update: int) -> None:
        """Drop the lines of updates that will be done again, and a line that a kill cut off."""
        if not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").split("\n"):
            try:
                if json.loads(line)["update"] <= update:
                    kept.append(line)
            except (json.JSONDecodeError, KeyError):
                continue
        self.metrics.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
