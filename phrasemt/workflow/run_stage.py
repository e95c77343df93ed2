"""How a stage runs: settings and inputs are checked, outputs appear when they are complete, with their sidecars.

Studies share trained parsers and chunkers, because parses can be shared only between studies of one parser. Two
machines train parsers that may differ in their last digits; a study that finds one of the same settings, code,
libraries and inputs in the shared folder copies it. Each output is a blob, <cache>/trained/<key>/<role>. The sha256 of
all of them, sha256.json, is written last.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from phrasemt.artefacts.sidecar import Origin, Sidecar, library_versions, produce, sidecar_path
from phrasemt.errors import PhrasemtError
from phrasemt.files.blobs import CACHE, Blobs
from phrasemt.files.system import digest_bytes, digest_file
from phrasemt.machine.gpus import lease
from phrasemt.machine.launch import is_first, launch, launched
from phrasemt.machine.slurm import on_nodes
from phrasemt.moses.installation import program_versions
from phrasemt.stages import STAGES
from phrasemt.workflow.code import code_digest

log = logging.getLogger("phrasemt.workflow.run_stage")


def start_stage(arguments: list[str], options: argparse.Namespace) -> None:
    """Runs a stage in this process, or in as many as asked for."""
    processes = getattr(options, "processes", 1)
    if launched() or processes == 1:
        run_stage(options.command, options)
    elif options.nodes > 1:
        place = {"nodes": options.nodes, "processes": processes, "cores": options.cores}
        launch(arguments, processes, functools.partial(on_nodes, **place))
    else:
        with lease(processes):
            launch(arguments, processes)


def run_stage(name: str, options: argparse.Namespace) -> None:
    """Checks settings and inputs, runs the stage on temporary outputs, and names them with their sidecars.

    Raises DamagedFileError for an input that is not the file that its sidecar describes.
    """
    stage = STAGES[name]
    try:
        settings = stage.model_validate_json(options.settings.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        what = f"bad settings: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        raise PhrasemtError(what, where=options.settings, next_step=f"see `phrasemt {name} --help`") from None
    arguments = {file.name: getattr(options, file.name) for file in stage.stage_files() if file.use != "output"}
    inputs = {
        file.name: arguments[file.name] if file.many else [arguments[file.name]] for file in stage.stage_files("input")
    }
    for path in (path for paths in inputs.values() for path in paths):
        if not path.is_file():
            raise PhrasemtError("no such input file", where=path, next_step="run the stage that makes it")
    outputs = {file.name: getattr(options, file.name) for file in stage.stage_files("output")}
    machine = {"cores": options.cores}
    if stage.resumes:
        machine |= {"processes": options.processes, "minutes": options.minutes}
    compute = functools.partial(_compute, name, settings=settings, **machine, **arguments)
    if not is_first():  # writes nothing
        compute(**outputs)
        return
    code = code_digest(*settings.code_modules())  # of the files that the stage imports now
    versions = library_versions(stage.libraries) | program_versions(stage.programs)
    origin = Origin.of(name, inputs=inputs, settings=settings, code=code, versions=versions)
    for file in origin.files_read:
        if sidecar_path(file.path).is_file():  # no stage wrote the others
            Sidecar.beside(file.path).check(Path(file.path), file.sha256)
    shared = shared_folder(origin) if stage.used_by_all_studies else None
    with produce(origin, outputs) as unfinished:
        copied = shared is not None and copy_shared(shared, unfinished)
        if not copied:
            compute(**unfinished)
    # An input may have been edited meanwhile.
    if shared and not copied and all(digest_file(file.path) == file.sha256 for file in origin.files_read):
        share(shared, outputs, {name: digest_file(path) for name, path in outputs.items()})


def _compute(name: str, **arguments: Any) -> None:
    """Calls the function of a stage, on a GPU that is lent to it, where it can use one."""
    stage = STAGES[name]
    with lease(1) if "torch" in stage.libraries and not launched() else contextlib.nullcontext():
        getattr(importlib.import_module(stage.module), name)(**arguments)


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
