"""Stanza in this process: its import and its errors."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from phrasemt.errors import DataError
from phrasemt.machine.gpus import torch_has_gpu

Device = Literal["cpu", "cuda"]
# torch has no error type of its own for some failures of memory and GPU libraries; their messages hold these words.
_MACHINE_MESSAGE = re.compile(r"memory|alloc|CUDA|cuDNN|cuBLAS", re.IGNORECASE)


def prepare_stanza(device: Device | None = None) -> Device:
    """Import Stanza without log messages and network, and set torch to one thread.

    Returns the device: the given one, else `cuda` if torch can use a GPU, else `cpu`. Raises PhrasemtError when the
    process was given a GPU that torch cannot use.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import stanza  # noqa: F401
    import torch

    logging.getLogger("stanza").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)  # several threads slow these small models down
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa would make many more decisions close
    return device or ("cuda" if torch_has_gpu() else "cpu")


@contextlib.contextmanager
def loading(files: Mapping[str, Path]) -> Iterator[None]:
    """Turn Stanza's errors about unusable model files into a DataError that names the files."""
    try:
        yield
    except Exception as error:
        if is_machine_error(error):
            raise
        raise DataError(
            "Stanza cannot use the model files",
            where=", ".join(map(str, files.values())),
            found=f"{type(error).__name__}: {str(error)[:300]}",
            next_step="give model files of this version of Stanza, and every file that the models were trained with",
        ) from error


def is_machine_error(error: Exception) -> bool:
    """Whether an error comes from the machine or the libraries, and so says nothing about the sentence."""
    import torch

    if isinstance(error, (MemoryError, OSError, ImportError, torch.OutOfMemoryError, torch.AcceleratorError)):
        return True
    return isinstance(error, RuntimeError) and bool(_MACHINE_MESSAGE.search(str(error)))
