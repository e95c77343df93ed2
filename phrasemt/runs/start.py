"""The start of Snakemake: which study runs, and what must hold before its first job."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from snakemake.io import regex_from_filepattern

from phrasemt.artefacts.sidecar import SUFFIX
from phrasemt.errors import PhrasemtError
from phrasemt.files.source_file import LOCK
from phrasemt.machine.gpus import visible_gpus
from phrasemt.machine.slurm import jobs_here
from phrasemt.runs.journal import Journal
from phrasemt.runs.notes import processes_here, run_of_this_process
from phrasemt.runs.notes import study_of as copy_of_study
from phrasemt.runs.site import outdated_site
from phrasemt.study.reading import study_of
from phrasemt.study.schema import Study
from phrasemt.workflow.cache import CACHE
from phrasemt.workflow.check import checked, read_study, warnings_of
from phrasemt.workflow.flow import Files, Flow
from phrasemt.workflow.inputs import Wildcards

DEFAULT_STUDY = Path("config.yaml")


@contextlib.contextmanager
def _errors_end_the_run() -> Iterator[None]:
    """Snakemake would put the lines of the Snakefile around an exception; they are no help against a typo."""
    try:
        yield
    except PhrasemtError as error:
        print(f"phrasemt: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


@_errors_end_the_run()
def open_study(workflow: Any, config: Mapping[str, Any]) -> Flow:
    """The study that Snakemake was started with: `--configfile FILE`, or config.yaml; in a module, its config.

    The file is read by read_study and not through Snakemake's `configfile:`, which would merge a chosen study into
    config.yaml and forgive keys given twice. A study with mistakes ends the run with all of them and exit code 2.
    """
    if not workflow.modifier.is_main_snakefile():
        return _open_module(workflow, config)
    path = _chosen_file(workflow.config_settings)
    if not workflow.is_main_process and (run := run_of_this_process()):
        path = copy_of_study(run)  # a job on a cluster reads the study again, which may have been edited since
    flow = _prepare(workflow, read_study(path), path)
    text = path.read_text(encoding="utf-8")
    Journal.opened = Journal(workflow, flow.study.study, text, flow.modules)
    return flow


def _open_module(workflow: Any, config: Mapping[str, Any]) -> Flow:
    """The study of a module. Snakemake calls no hooks of modules, so nobody keeps a note of the run."""
    where = f"config of module {workflow.modifier.namespace}"
    study = checked(study_of(dict(config), where), where)
    return _prepare(workflow, study, Path(f"{study.study}.yaml"))


def _prepare(workflow: Any, study: Study, path: Path) -> Flow:
    """What jobs need. path: of the study, or where it would be."""
    if workflow.is_main_process:
        if workflow.resource_settings.nodes and workflow.resource_settings.cores == 1:
            # So does Snakemake begin a dry run for a cluster, and would show that no job had more than one core.
            workflow.global_resources["_cores"] = sys.maxsize
        if (warning := outdated_site()) is not None:
            print(f"phrasemt: warning: {warning}", file=sys.stderr)
        for warning in warnings_of(study):
            print(f"phrasemt: warning: {path}: {warning}", file=sys.stderr)
    folders = ((CACHE, study.cache), (LOCK, path.with_suffix(".lock")))
    for name, folder in folders:
        if folder is not None and not os.environ.get(name):  # an empty one would be the folder of the run
            os.environ[name] = str(folder)
    # Jobs are `python -m phrasemt ...`: the Python that runs Snakemake, unless a conda environment goes first.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # Slurm sends it to all processes of a job whose time is nearly up. It is meant for the stage, which then saves.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    # A folder stands beside files that Snakemake moves: below the prefix of a module, or to the copies of a storage.
    return Flow(study, lambda folder: str(workflow.modifier.path_modifier.modify(folder)))


@_errors_end_the_run()
def begin(workflow: Any, log: list[str]) -> None:
    """Prepare a run before its first job. log: paths of Snakemake's log files.

    Ends it, with exit code 2, when Slurm jobs of another one that is dead still write here, and when GPUs are missing.
    """
    others = [process for process, name in processes_here() if name == "snakemake"]
    if (jobs := jobs_here()) and not others:  # while another one lives, Snakemake's locks tell them apart
        what = "Slurm jobs of a run that ended still write in this folder"
        next_step = "`phrasemt unlock --cancel`, then run again; or wait until they have ended"
        raise PhrasemtError(what, found=", ".join(jobs), next_step=next_step)
    refuse_absent_gpus(workflow)
    assert Journal.opened is not None
    Journal.opened.begin(log)


def refuse_absent_gpus(workflow: Any) -> None:
    """Raise PhrasemtError when `--resources gpu=N` promises GPUs that this machine does not have."""
    resources = workflow.global_resources
    promised = int(resources["gpu"].raw) if workflow.local_exec and "gpu" in resources else 0
    if promised and (found := len(visible_gpus())) < promised:
        raise PhrasemtError(
            "this machine has fewer GPUs, and a training would run on the CPU",
            where=f"--resources gpu={promised}",
            expected=f"at most gpu={found}",
            next_step="see `nvidia-smi`; without --resources, trainings use the GPUs that they find, or the CPU",
        )


def _chosen_file(settings: Any) -> Path:
    if settings.config:
        what = "a study cannot be changed on the command line, so that its file says all of it"
        next_step = "copy the study, change the copy, and pass it with --configfile"
        raise PhrasemtError(what, where=f"--config {' '.join(settings.config)}", next_step=next_step)
    if len(settings.configfiles) > 1:
        what, next_step = "a study is one file, complete in itself", "put everything into one study (YAML anchors help)"
        found = " ".join(map(str, settings.configfiles))
        raise PhrasemtError(what, where="--configfile", found=found, next_step=next_step)
    if not settings.configfiles:
        return DEFAULT_STUDY
    path: Path = settings.configfiles[0]
    return Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path


def carry_sidecars(workflow: Any, flow: Flow) -> None:
    """Add sidecars to the outputs of all rules, and to the inputs that other rules make, if there is a storage.

    With `--default-storage-provider` a job receives copies of its inputs and hands on its outputs, and nothing else. On
    a file system that all jobs share, sidecars stand beside their artefacts, and rules do not name them.
    The report also reads the files behind the table, which name themselves there.
    """
    settings = workflow.storage_settings
    if settings.default_storage_provider is None:
        return
    folder = f"{settings.default_storage_prefix.rstrip('/')}/" if settings.default_storage_prefix else ""
    rules = [rule for rule in workflow.modifier.rules if not rule.norun]  # not those of a workflow around this one
    made: list[re.Pattern[str]] = []
    makers: dict[str, Any] = {}
    for rule in rules:
        outputs = dict.fromkeys(file.storage_object.query.removeprefix(folder) for file in rule.output)
        made += [re.compile(regex_from_filepattern(pattern)) for pattern in outputs]
        makers |= dict.fromkeys(outputs, rule)
        rule.set_output(*(f"{pattern}{SUFFIX}" for pattern in outputs))
    of_table = _paths_of(list(makers[flow.paths.table].input), folder)
    translated = flow.every(flow.paths.translated_tokens, systems=flow.translating)
    makers[flow.paths.report].set_input(lambda wildcards: [*of_table(wildcards), *translated])
    for rule in rules:
        rule.set_input(_sidecars(_paths_of(list(rule.input), folder), made))


def _paths_of(inputs: Sequence[Any], folder: str) -> Files:
    """The paths of these inputs of a rule, for a job."""

    def paths(wildcards: Wildcards) -> list[str]:
        found: list[str] = []
        for item in inputs:
            if callable(item):
                of_job = item(wildcards)
                found += [of_job] if isinstance(of_job, str) else of_job
            else:
                query = item.storage_object.query.removeprefix(folder)
                found.append(query.format(**dict(wildcards.items())))
        return list(dict.fromkeys(found))

    return paths


def _sidecars(paths: Files, made: Sequence[re.Pattern[str]]) -> Files:
    """The sidecars of inputs, as far as rules make them."""

    def sidecars(wildcards: Wildcards) -> list[str]:
        return [f"{path}{SUFFIX}" for path in paths(wildcards) if any(pattern.match(path) for pattern in made)]

    return sidecars
