"""Trained parsers and chunkers that studies share, because parses can be shared only between studies of one parser.

Two machines train parsers that may differ in their last digits; a study that finds one of the same settings, code,
libraries and inputs in the shared folder copies it. Each output is a blob, <cache>/trained/<key>/<role>. The sha256 of
all of them, sha256.json, is written last.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from phrasemt.artefacts.sidecar import Origin
from phrasemt.files.blobs import CACHE, Blobs
from phrasemt.files.system import digest_bytes, digest_file

log = logging.getLogger("phrasemt.workflow.shared")


def shared_folder(origin: Origin) -> Path | None:
    """The folder of the outputs of a run; None without a shared folder."""
    if not (cache := os.environ.get(CACHE)):
        return None
    inputs = {role: [file.sha256 for file in files] for role, files in origin.inputs.items()}
    made_of = json.dumps({**dict(origin), "inputs": inputs}, sort_keys=True)
    return Path(cache, "trained", digest_bytes(made_of.encode())[:32])


def copy_shared(folder: Path, outputs: Mapping[str, Path]) -> bool:
    """Copy the outputs from the shared folder. False, and no output, if one is missing or damaged."""
    try:
        digests = json.loads((folder / "sha256.json").read_bytes())
        for role, path in outputs.items():
            shutil.copyfile(folder / role, path)
            if digest_file(path) != digests[role]:
                raise ValueError(f"{folder / role} is damaged")
    except (OSError, ValueError, KeyError, TypeError) as reason:
        if not isinstance(reason, FileNotFoundError):
            log.warning("warning: no copy from the shared folder (%s); it is trained", reason)
        for path in outputs.values():
            path.unlink(missing_ok=True)
        return False
    log.info("copied from %s", folder)
    return True


def share(folder: Path, outputs: Mapping[str, Path], digests: Mapping[str, str]) -> None:
    """Add outputs of these sha256 to the shared folder. An error of the folder is a warning."""
    blobs = Blobs(folder.parents[1], effect="it is trained again")
    try:
        for role, path in outputs.items():
            with blobs.new(folder / role) as unfinished:
                shutil.copyfile(path, unfinished)
        with blobs.new(folder / "sha256.json") as unfinished:
            unfinished.write_text(json.dumps(dict(digests)), encoding="utf-8")
    except OSError as error:
        log.warning("warning: the shared folder cannot be used (%s)", error)
