"""The start of Snakemake: which study runs, what must be true before its first job, and the note of the run.

What phrasemt asks of Snakemake's own objects, it asks here and in `plan`.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import logging
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from snakemake.io import regex_from_filepattern
from snakemake.logging import logger as snakemake_log
from snakemake_interface_logger_plugins.common import LogEvent

from phrasemt.artefacts.paths import LOGS
from phrasemt.artefacts.sidecar import SUFFIX
from phrasemt.errors import PhrasemtError
from phrasemt.files.blobs import CACHE, DEFAULT_CACHE
from phrasemt.files.lines import write_text
from phrasemt.files.source_file import LOCK
from phrasemt.machine.gpus import visible_gpus
from phrasemt.machine.launch import refuse_stray_rank
from phrasemt.machine.slurm import cancel, ran_out_of_memory
from phrasemt.runs import notes
from phrasemt.runs.site import outdated_site
from phrasemt.runs.status import failures, status_of
from phrasemt.study.reading import study_of
from phrasemt.study.schema import Study
from phrasemt.workflow.check import checked, read_study
from phrasemt.workflow.flow import Files, Flow
from phrasemt.workflow.inputs import Wildcards

DEFAULT_STUDY = Path("config.yaml")
# What Snakemake says of a job that failed, besides the events of the job.
_OF_FAILED_JOBS = (
    "CalledProcessError in file",
    "Exiting because a job execution failed",
    "At least one job did not complete successfully",
)
# What the plugin for Slurm says of a job that was not taken, and Slurm's names of limits that other jobs make room for:
# AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, AssocGrpSubmitJobsLimit.
_REFUSAL = re.compile(r"SLURM sbatch failed\. The error message was '(.*?)'\.\n", re.DOTALL)
_STATE = re.compile(r"SLURM status is: '(\w+)'")
_QUEUE_FULL = re.compile(r"\w+Submit\w*Limit")
_SECONDS_BETWEEN_SUBMISSIONS = 60
_GPUS = re.compile(r"\bgpus?(?:-per-node)?[:=](?:[^\W\d]\w*:)?(\d+)")  # gpu:2, gpu:a100:2, --gpus-per-node=4


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
        # Snakemake calls no hooks of modules, so the run has no note.
        where = f"config of module {workflow.modifier.namespace}"
        study = checked(study_of(dict(config), where), where)
        return _prepare(workflow, study, Path(f"{study.study}.yaml"))
    path = _chosen_file(workflow.config_settings)
    if not workflow.is_main_process and (run := notes.run_of_this_process()):
        path = notes.study_of(run)  # a job on a cluster reads the study again, which may have been edited since
    flow = _prepare(workflow, read_study(path), path)
    text = path.read_text(encoding="utf-8")
    Journal.opened = Journal(workflow, flow.study.study, text)
    return flow


def _quieten(workflow: Any) -> None:
    """Leave on the console what Snakemake says of itself when something is wrong; its log file keeps all."""

    def is_shown(record: logging.LogRecord) -> bool:
        if workflow.execution_settings is None or workflow.dryrun:  # it runs no jobs
            return True
        event, message = getattr(record, "event", None), record.getMessage()
        of_job = event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR) or any(one in message for one in _OF_FAILED_JOBS)
        return record.levelno >= logging.ERROR and not of_job

    for handler in snakemake_log.handlers:
        if handler.name == "DefaultStreamHandler":
            handler.addFilter(is_shown)


def _claim_before_lock(workflow: Any) -> None:
    """Claim the folder at the first word of a run, which comes before its lock. Hooks of a workflow come after it."""

    @functools.cache
    def claim_folder() -> None:
        notes.claim()
        with contextlib.suppress(PhrasemtError):  # of a Slurm that does not answer
            if jobs := notes.abandoned_jobs():
                print(
                    f"phrasemt: warning: Slurm jobs of a killed run still write here: {', '.join(jobs)}. Next: "
                    "`phrasemt unlock --cancel`, which removes its lock, too",
                    file=sys.stderr,
                )

    def is_shown(record: logging.LogRecord) -> bool:
        if workflow.executor_plugin is not None and workflow.execution_settings is not None and not workflow.dryrun:
            claim_folder()
        return True

    snakemake_log.addFilter(is_shown)


def _prepare(workflow: Any, study: Study, path: Path) -> Flow:
    """What jobs need. path: of the study, or where it would be."""
    if workflow.is_main_process:
        if os.environ.pop(notes.CONSOLE, None):  # not in jobs
            Journal.quiet = True
            _quieten(workflow)
        _claim_before_lock(workflow)
        refuse_stray_rank(several=False)
        if workflow.resource_settings.nodes and workflow.resource_settings.cores == 1:
            # So does Snakemake begin a dry run for a cluster, and would show that no job had more than one core.
            workflow.global_resources["_cores"] = sys.maxsize
        if not Journal.quiet and (warning := outdated_site()) is not None:  # `phrasemt run` has said it
            print(f"phrasemt: warning: {warning}", file=sys.stderr)
    compiled = Path(os.environ.get(CACHE) or DEFAULT_CACHE, "compiled").absolute()
    folders = (CACHE, DEFAULT_CACHE), (LOCK, path.with_suffix(".lock")), ("TORCHINDUCTOR_CACHE_DIR", compiled)
    for name, folder in folders:
        if not os.environ.get(name):  # an empty one would be the folder of the run
            os.environ[name] = str(folder)
    # Jobs are `python -m phrasemt ...`: the Python that runs Snakemake, unless a conda environment goes first.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        getpass.getuser()
    except (KeyError, OSError):  # a user of a container has no name, for which Snakemake and torch ask
        os.environ["USER"] = str(os.getuid())
    # Slurm sends it to all processes of a job whose time is nearly up. It is meant for the stage, which then saves.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    # A folder lies beside files that Snakemake moves: below the prefix of a module, or to the copies of a storage.
    return Flow(study, lambda folder: str(workflow.modifier.path_modifier.modify(folder)))


@_errors_end_the_run()
def begin(workflow: Any, log: list[str]) -> None:
    """Prepare a run before its first job. log: paths of Snakemake's log files.

    Ends it, with exit code 2, when other work makes its files, and when GPUs are missing.
    """
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


def stages_of(dag: Any) -> list[Any]:
    """Snakemake's jobs that run a stage, each after those that it waits for, always in the same order."""
    levels = (sorted(jobs, key=lambda job: (job.rule.name, name_of(job))) for jobs in dag.toposorted())
    return [job for jobs in levels for job in jobs if not job.rule.norun]


def refuse_overlooked(dag: Any, persistence: Any, study: str) -> None:
    """Raise PhrasemtError for changed jobs that Snakemake would leave out, so that results were of other settings.

    Snakemake looks for changes in no job below a job that runs, because that one will make it run, too; but it does not
    where a file between them is `ancient` (version 9.27): a training waits so for the comparison of the splits.
    """
    if not any(trigger.name == "PARAMS" for trigger in dag.workflow.rerun_triggers):
        return  # by an option of Snakemake
    needed, changed = set(dag.needrun_jobs()), []
    above: dict[Any, set[Any]] = {}  # jobs that run, above those that do not
    before: dict[str, str] = {}  # their rules by their outputs
    for job in (job for job in stages_of(dag) if job not in needed):
        others = dag.dependencies[job]
        above[job] = needed.intersection(others).union(*(above.get(other, ()) for other in others))
        if above[job] and persistence.has_metadata(job) and persistence.params_changed(job):
            changed.append(job.rule.name)
            before |= {str(one.output[0]): one.rule.name for one in above[job]}
    if changed:
        first, outputs = ", ".join(sorted(set(before.values()))), " ".join(sorted(before))
        raise PhrasemtError(
            f"jobs have changed that Snakemake would run only after another run of {first}",
            where=study,
            found=", ".join(f"{number} {rule}" for rule, number in Counter(changed).items()),
            next_step=f"`phrasemt run STUDY --snakemake {outputs}`, then the same command again",
        )


def planned(dag: Any, jobs: Sequence[Any], *, here: bool) -> list[notes.PlannedJob]:
    """Jobs of the graph, with those among them that each waits for. here: they run on this machine."""
    places = {job: place for place, job in enumerate(jobs)}
    have_gpus = not here or bool(visible_gpus())
    return [
        notes.PlannedJob(
            rule=job.rule.name,
            name=name_of(job),
            wildcards=dict(job.wildcards.items()),
            outputs=[str(path) for path in job.output if not path.endswith(SUFFIX)],
            log=next(map(str, job.log), None),
            benchmark=str(job.benchmark) if job.benchmark else None,
            threads=job.threads,
            gpus=gpus_of(job) if have_gpus else 0,
            after=sorted(places[other] for other in dag.dependencies[job] if other in places),
        )
        for job in jobs
    ]


def gpus_of(job: Any) -> int:
    """GPUs of a job of Snakemake on all its nodes: by its resource gpu, or else by gres or by options for Slurm."""
    resources = job.resources
    if gpus := int(resources.get("gpu") or 0):
        return gpus
    for option in ("gres", "slurm_extra"):
        if match := _GPUS.search(str(resources.get(option) or "")):
            return int(match[1]) * int(resources.get("nodes") or 1)
    return 0


def name_of(job: Any) -> str:
    """The name of a job among those of its rule: demo.en-de/max.1; empty for the only job of a rule."""
    return "/".join(Path(path).with_suffix("").as_posix() for path in job.log).partition(f"/{job.rule.name}/")[2]


def refuse_same_outputs(jobs: Sequence[notes.PlannedJob]) -> None:
    """Raise PhrasemtError while another run, on any machine, or what a killed one left in Slurm's queue makes outputs
    of these jobs.

    Snakemake's lock is not enough: people remove it, and of two runs in one folder the first that ends removes both.
    """
    outputs = {path for job in jobs for path in job.outputs}
    for path, run in notes.running_notes(LOGS):
        if isinstance(run, notes.RunNote) and (same := outputs & run.outputs):
            raise PhrasemtError(
                "another run makes the same files",
                where=f"{min(same)} and {len(same) - 1:,} more" if len(same) > 1 else min(same),
                found=f"snakemake, process {run.pid} on {run.host}, {path}",
                next_step="wait until it has ended (`phrasemt status`), then run this again",
            )
    ended = ((job, notes.RunNote.read(path)) for job, path in notes.abandoned_jobs().items())
    if same_files := [job for job, run in ended if run is None or outputs & run.outputs]:
        what = "Slurm jobs of a run that ended still write in this folder"
        next_step = "`phrasemt unlock --cancel`, then run again; or wait until they have ended"
        raise PhrasemtError(what, found=", ".join(same_files), next_step=next_step)


def cancel_jobs_left(run: Path) -> None:
    """Cancel the Slurm jobs that the run with this note has left in the queue when it ended.

    While Snakemake asks for the states of its jobs, its list of active jobs is empty, and Ctrl-C cancels none
    (snakemake-interface-executor-plugins 9.4.0). If Slurm does not answer, the next run names the jobs.
    """
    with contextlib.suppress(PhrasemtError):
        if left := [job for job, path in notes.jobs_of_runs().items() if path.name == run.name]:
            cancel(left)


def _prepare_slurm(executor: Any, run: Path) -> None:
    """Give the jobs of the plugin for Slurm (2.8.0) a name, and say in the notes of stages what becomes of them."""
    executor.run_uuid = notes.queue_name(run)  # the plugin asks for the states of all jobs of this name
    executor._fallback_account_arg = ""  # its guess calls `sacct` with options that no version knows
    os.environ.setdefault("SBATCH_OPEN_MODE", "append")  # the log of a job that was in the queue again
    report, told = executor.report_job_error, list[str]()

    def submit_again(job: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the run has ended
            executor._job_submission_executor.submit(executor.run_job, job)

    def report_error(info: Any, msg: str | None = None, **kwargs: Any) -> None:
        refusal = _REFUSAL.match(msg or "")
        if refusal and (limit := _QUEUE_FULL.search(refusal[1])):
            if limit[0] not in told:
                told.append(limit[0])
                print(f"Slurm takes no more jobs now ({limit[0]}): they are submitted again every minute", flush=True)
            timer = threading.Timer(_SECONDS_BETWEEN_SUBMISSIONS, submit_again, [info.job])
            timer.daemon = True
            timer.start()
            return
        if refusal:
            msg = "sbatch refused the job: " + " ".join(refusal[1].replace("sbatch: error: ", "").split())
        jobs = getattr(info.job, "jobs", [info.job])  # of a group, which may have begun only some of them
        for job in jobs:
            _note_failure(job, run, info.external_jobid, msg or "", begun=len(jobs) == 1 or bool(refusal))
        report(info, msg=msg, **kwargs)

    executor.report_job_error = report_error


def _note_failure(job: Any, run: Path, queue_job: str | None, message: str, *, begun: bool) -> None:
    """Note why a job of Slurm failed, unless its stage has said so. message: the plugin's."""
    path = notes.stage_note(next(iter(job.log), ""))
    note = notes.StageNote.read(path)
    if note is None or (note.run, note.queue_job) != (run.name, queue_job):
        if not begun:
            return
        note = notes.StageNote(stage=job.rule.name, run=run.name, queue_job=queue_job)
    elif note.state != "running":
        return
    if state := _STATE.search(message):
        if state[1] == "OUT_OF_MEMORY" or ran_out_of_memory(str(queue_job)):
            message = (
                f"Slurm killed job {queue_job}, which needs more memory than its mem_mb: {job.resources.get('mem_mb')}"
            )
        else:
            message = f"Slurm ended job {queue_job}: {state[1]}"
    note.model_copy(update={"state": "failed", "ended": notes.now(), "error": message}).write(path)


class Journal:
    """Writes the note of a run: Snakemake's main process, which alone has hooks, says when it begins and ends.

    opened: the journal of the last study that was opened in this process. quiet: `phrasemt run` says how it ends.
    """

    opened: ClassVar[Journal | None] = None
    quiet: ClassVar[bool] = False

    def __init__(self, workflow: Any, study: str, text: str) -> None:
        """`text` is the study file as it was read."""
        self.workflow, self._study, self._text = workflow, study, text
        self._path: Path | None = None
        self._note: notes.RunNote | None = None
        self._heart = contextlib.ExitStack()
        workflow.onsuccess(lambda log: self.end("finished"))
        workflow.onerror(lambda log: self.fail())

    def begin(self, log: list[str]) -> None:
        """Note the run and its jobs. Raises PhrasemtError while another run makes the same files."""
        dag = self.workflow.dag
        needed = set(dag.needrun_jobs())
        here = self.workflow.local_exec
        refuse_overlooked(dag, self.workflow.persistence, self._study)
        jobs = planned(dag, [job for job in stages_of(dag) if job in needed], here=here)
        refuse_same_outputs(jobs)
        self._path = notes.new_run(self._study)
        self._note = notes.RunNote(
            study=self._study,
            log=next(map(os.path.relpath, log), None),
            cores=self.workflow.cores if here else None,
            done=dict(Counter(job.rule.name for job in stages_of(dag) if job not in needed)),
            jobs=jobs,
            commit=notes.commit_of_code(),
        )
        write_text(notes.study_of(self._path), self._text)
        self._note.write(self._path)
        os.environ[notes.RUN] = str(self._path)
        executor = self.workflow.scheduler._executor
        if type(executor).__module__ == "snakemake_executor_plugin_slurm":
            _prepare_slurm(executor, self._path)
        self._heart.enter_context(notes.heartbeat(self._path))

    def fail(self) -> None:
        """Note the end, cancel what Snakemake has left in Slurm's queue, and say why jobs failed."""
        scheduler = self.workflow.scheduler  # which has errors of jobs and of executors, or was interrupted
        self.end("failed" if scheduler._errors or scheduler._executor_error else "stopped")
        if self._path is not None:  # otherwise jobs of another run may be the reason
            cancel_jobs_left(self._path)
            if not self.quiet:
                print(*failures(status_of(self._path, notes.now())), sep="\n", file=sys.stderr)

    def end(self, state: notes.State) -> None:
        self._heart.close()
        if self._note is not None and self._path is not None:
            self._note.model_copy(update={"ended": notes.now(), "state": state}).write(self._path)


def carry_sidecars(workflow: Any, flow: Flow) -> None:
    """Add sidecars to the outputs of all rules, and to the inputs that other rules make, if there is a storage.

    With `--default-storage-provider` a job receives copies of its inputs and hands on its outputs, and nothing else. On
    a file system that all jobs share, sidecars lie beside their artefacts, and rules do not name them. Snakemake
    documents no way to add files to a rule, so this asks its objects of rules.
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
    translated = flow.every(flow.paths.translated_tokens, systems=flow.study.translating)
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
