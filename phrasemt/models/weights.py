"""Weights on disk: safetensors files that also contain the model's settings and the digests of its vocabularies.

So a stage can refuse weights of another model. No code loads a pickle.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from phrasemt.artefacts.columns import Vocabularies
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError, check_digest
from phrasemt.files.lines import errors_of
from phrasemt.models.interface import TranslationModel, build_model
from phrasemt.study.architectures import Architecture, ModelSettings

log = logging.getLogger("phrasemt.weights")

FORMAT = 3
_NAMED = 3  # parameters that a message names
_METADATA = "phrasemt"  # the entry with the description


def describe_weights(trained: Architecture, words: Vocabularies) -> dict[str, Any]:
    """Return the description in a weights file. Weights fit a model when their descriptions agree.

    trained: the model's settings without those of its search.
    """
    return {
        "format": FORMAT,
        "model": trained.model_dump(mode="json"),
        "source_vocabulary": words.source.digest,
        "target_vocabulary": words.target.digest,
    }


def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return the model's parameters by name, on the CPU. Tied parameters have one entry."""
    return {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}


def save_tensors(path: Path, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
    """Write tensors and a JSON description into one safetensors file, with the permissions of an ordinary file."""
    described = {**description, "crc32": _checksum(description, tensors)}
    content = safetensors.torch.save(tensors)
    end = 8 + int.from_bytes(content[:8], "little")
    # safetensors writes metadata in random order, but equal weights must be equal files; transformers wants `format`.
    metadata = {"format": "pt", _METADATA: json.dumps(described, sort_keys=True)}
    header = json.dumps({"__metadata__": metadata, **json.loads(content[8:end])}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with errors_of(path):
        path.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])


def read_description(path: Path) -> dict[str, Any]:
    """Return the description of a weights file without reading its tensors; an empty dictionary if it has none."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get(_METADATA, "{}"))
    except (safetensors.SafetensorError, ValueError, RecursionError, OSError) as error:
        raise DamagedFileError("not a readable weights file", where=path, found=error) from None
    return description if isinstance(description, dict) else {}


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description of a file that `save_tensors` wrote.

    Raises DamagedFileError for a file that is truncated, corrupt, or of another format version; PhrasemtError for one
    that the system cannot map into memory.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {})[_METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if description.pop("crc32") != _checksum(description, tensors):
                raise ValueError("its checksum is wrong")
    except FileNotFoundError:
        raise
    except OSError as error:
        next_step = "copy the folder to a local disk: the file system may not map files into memory"
        raise PhrasemtError("cannot be read", where=path, found=error, next_step=next_step) from None
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise DamagedFileError(
            "not a readable weights file", where=path, found=error, next_step="delete it and run again"
        ) from None
    if description.get("format") != FORMAT:
        what, next_step = "weights of another format version", "delete it and run again"
        raise DamagedFileError(what, where=path, expected=FORMAT, found=description.get("format"), next_step=next_step)
    return tensors, description


def _checksum(description: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Return the CRC-32 of the description and of all tensors by name and type. It detects damage, not manipulation."""
    checksum = zlib.crc32(json.dumps(description, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        # Nearly all tensors are float32. The types of others count, because a header may give bytes another type.
        of_type = "" if tensor.dtype == torch.float32 else str(tensor.dtype)
        checksum = zlib.crc32(f"{name}{of_type}".encode(), checksum)
        checksum = zlib.crc32(tensor.contiguous().flatten().view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


def set_weights(
    model: torch.nn.Module,
    tensors: dict[str, Tensor],
    *,
    where: Path,
    next_step: str = "delete the file and train again",
) -> None:
    """Copy weights into a model. Raises MismatchError, which names the file `where`, for other names or shapes."""
    tensors = {re.sub(r"^words\.", "embeddings.", name): tensor for name, tensor in tensors.items()}  # until 0.1.0
    parameters = dict(model.named_parameters())
    expected = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected != shapes:
        differing = sorted({name for name, _ in expected.items() ^ shapes.items()})
        raise MismatchError(
            f"not the weights of this model: {len(differing)} parameters differ",
            where=where,
            expected=_shapes(expected, differing),
            found=_shapes(shapes, differing),
            next_step=next_step,
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def _shapes(shapes: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> str:
    """Names and shapes of the first parameters, for messages."""
    few = ", ".join(f"{name} {list(shapes[name]) if name in shapes else 'absent'}" for name in names[:_NAMED])
    return f"{few}, ..." if len(names) > _NAMED else few


def start_from(model: torch.nn.Module, path: Path, described: Mapping[str, Any]) -> None:
    """Copy the weights of a safetensors file into a new model that is to be trained.

    described: `describe_weights` of the model. A file of phrasemt must have the same vocabularies; the log names other
    settings that differ, such as dropout. A file of another program has no description.
    Raises DamagedFileError for other files, MismatchError for other names, shapes or vocabularies.
    """
    other = "give the weights of such a model in init_from, or leave init_from out"
    try:
        description = read_description(path)
        tensors = load_tensors(path)[0] if description else safetensors.torch.load_file(path)
    except (DamagedFileError, safetensors.SafetensorError) as error:
        raise DamagedFileError(
            "not usable as initial weights",
            where=path,
            expected="a safetensors file",
            found=getattr(error, "found", None) or error,
            next_step="give a complete .safetensors file in init_from",
        ) from None
    if description:
        same_subwords = "give weights that were trained on the same subwords in init_from"
        _check_vocabularies("initial weights", description, described, where=path, next_step=same_subwords)
    set_weights(model, tensors, where=path, next_step=other)
    before, now = description.get("model", described["model"]), described["model"]
    changes = [f"{key} {before.get(key)} -> {now.get(key)}" for key in _differing(before, now)]
    # Such a model may compute another function with these weights, so people must see it.
    level = logging.WARNING if any("dropout" not in change for change in changes) else logging.INFO
    log.log(level, "initial weights: %s%s", path, f", with other settings: {', '.join(changes)}" if changes else "")


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def _check_vocabularies(
    what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], *, where: Path, next_step: str
) -> None:
    """Compare the vocabularies of two descriptions, of which the wanted one is by `describe_weights`.

    Raises MismatchError, in which `what` names the weights, and DamagedFileError for a description of something else.
    """
    if other := [key for key, value in wanted.items() if not isinstance(found.get(key), type(value))]:
        raise DamagedFileError(
            "not a readable weights file", where=where, expected=f"a description with {', '.join(other)}",
            next_step="delete it and run again",
        )  # fmt: skip
    for key in ("source_vocabulary", "target_vocabulary"):
        problem = f"the {what} were trained with another {key.replace('_', ' ')}"
        check_digest(wanted[key], found[key], problem, where=where, next_step=next_step)


def load_model(path: Path, settings: Architecture, words: Vocabularies) -> TranslationModel[Any, Any]:
    """Build a model with the weights of a file, in evaluation mode.

    Raises MismatchError when the weights were trained with other settings or other vocabularies.
    """
    tensors, description = load_tensors(path)
    wanted = describe_weights(settings, words)
    again = "train again on this data set, or use the study of these weights"
    _check_vocabularies("weights", description, wanted, where=path, next_step=again)
    try:
        found: Architecture = TypeAdapter(ModelSettings).validate_python(description["model"])
    except ValidationError as error:
        what, next_step = "weights of a model that is not known here", "train again"
        raise DamagedFileError(what, where=path, found=error.errors()[0]["msg"], next_step=next_step) from None
    if found != settings:
        differing = _differing(wanted["model"], description["model"])
        raise MismatchError(
            "the weights were trained with other settings",
            where=path,
            expected=", ".join(f"{key} {wanted['model'].get(key)}" for key in differing),
            found=", ".join(f"{key} {description['model'].get(key)}" for key in differing),
            next_step="train again, or use the study of these weights",
        )
    model = build_model(settings, source_vocabulary=len(words.source), target_vocabulary=len(words.target))
    set_weights(model, tensors, where=path)
    return model.eval()
