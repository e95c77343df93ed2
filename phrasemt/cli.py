"""The command line: a subcommand for each stage (phrasemt/workflow/run_stage.py) and each command (phrasemt/commands).

Nothing heavy is imported before a subcommand is chosen, so `phrasemt --help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import phrasemt
from phrasemt.commands import COMMANDS, EXAMPLES, GROUPS
from phrasemt.commands._arguments import Output, in_range, refuse_inputs
from phrasemt.errors import PhrasemtError, StoppedError, did_you_mean, in_own_code, lacks_memory, message_of
from phrasemt.machine.launch import is_first, launched, refuse_stray_rank
from phrasemt.machine.slurm import requeue_this_job
from phrasemt.runs.notes import StageNote, open_note, run_of_this_process, stage_note
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.workflow.run_stage import start_stage

log = logging.getLogger("phrasemt")

_MOST_CORES = 4_096  # of a machine. Rules name the cores of a stage, so they may be more than this machine has


def main(arguments: list[str] | None = None) -> int:
    """Runs a subcommand; returns the exit code.

    0, 1 for a mistake of phrasemt, 2 for an error that a user can fix, 85 for work that stopped on request.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    _write_utf_8()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in {*COMMANDS, *STAGES}:
        near = did_you_mean(arguments[0], [*COMMANDS, *STAGES])
        error = PhrasemtError(f"no such command{near}", where=arguments[0], next_step="`phrasemt --help` lists all")
        print(f"phrasemt: error: {error}", file=sys.stderr)
        return error.exit_code
    parser = _parser(*arguments[:1])
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    signal.signal(signal.SIGTERM, _leave_cleanly)
    try:
        _set_up_logging(None)
        refuse_stray_rank(several=options.command in STAGES and STAGES[options.command].resumes)
        refuse_inputs(options)  # before the log is opened, which is an output, too
        if getattr(options, "log", None):
            _set_up_logging(options.log, keep=options.command in STAGES and STAGES[options.command].resumes)
        if options.command not in STAGES:
            options.run(options)
        else:
            noting = options.log and is_first()
            with open_note(options.command, stage_note(options.log)) if noting else contextlib.nullcontext():
                start_stage(arguments, options)
    except StoppedError as error:
        log.error("phrasemt %s: %s%s", options.command, error, "; the Slurm job comes back" if _comes_back() else "")
        return error.exit_code
    except BrokenPipeError:
        sys.stdout = None  # the reader has left (`| head`); nothing is to be flushed at the end
        return 0
    except (PhrasemtError, OSError) as error:
        log.error("phrasemt %s: error: %s", options.command, message_of(error))
        return error.exit_code if isinstance(error, PhrasemtError) else 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if lacks_memory(error) or in_own_code(error):
            log.error("phrasemt %s: error: %s", options.command, message_of(error))
            return 2
        log.exception("phrasemt %s: %s", options.command, message_of(error))
        return 1
    return 0


def _write_utf_8() -> None:
    """Write UTF-8 whatever the locale is, and names of files that are no UTF-8 with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None: it was closed before the start
            with contextlib.suppress(OSError):  # of a file that has become a pipe; the encoding is set by then
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _comes_back() -> bool:
    """Whether the Slurm job of work that stopped will go on with it."""
    try:
        return not launched() and requeue_this_job()
    except PhrasemtError as error:
        log.warning("phrasemt: warning: %s", error)
        return False


def _leave_cleanly(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)  # runs the `finally` blocks that remove temporary files


def _set_up_logging(log_file: Path | None, *, keep: bool = False) -> None:
    """Write messages to the terminal, and to a file. keep: as of `_begin_log`."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    logging.basicConfig(format="%(message)s", handlers=handlers, force=True)  # for errors about the log
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        if not launched():  # several processes may write to it
            _begin_log(log_file, keep=keep)
        if run_of_this_process():  # Snakemake shows the log of a failed stage
            handlers.clear()
            with log_file.open("a") as stream:  # for what libraries and the interpreter write
                os.dup2(stream.fileno(), sys.stderr.fileno())
        handlers.append(logging.FileHandler(log_file, mode="a", encoding="utf-8", errors="backslashreplace"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers, force=True)
    logging.getLogger().setLevel(logging.WARNING)
    log.setLevel(logging.INFO if is_first() else logging.WARNING)


def _begin_log(log_file: Path, *, keep: bool) -> None:
    """Empty a log. keep: go on with that of a Slurm job that was in the queue again, which Snakemake has removed."""
    job, note, kept = os.environ.get("SLURM_JOB_ID"), StageNote.read(stage_note(log_file)), Path(f"{log_file}.kept")
    if job and note and note.queue_job == job and kept.exists():
        kept.replace(log_file)
    else:
        log_file.write_text("", encoding="utf-8")
    if job and keep:
        with contextlib.suppress(OSError):  # of a file system without hard links
            kept.unlink(missing_ok=True)
            kept.hardlink_to(log_file)


def whole_parser() -> argparse.ArgumentParser:
    """With the arguments of all commands, for shtab, which writes the completion of a shell from it."""
    return _parser(*COMMANDS)


def _parser(*chosen: str) -> argparse.ArgumentParser:
    """With the arguments of the chosen subcommands only: to import all commands takes seconds."""
    parser = _Phrasemt(prog="phrasemt", usage="%(prog)s COMMAND ...")
    parser.add_argument("--version", action="version", version=f"%(prog)s {phrasemt.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name, text in COMMANDS.items():
        examples = "\n".join(f"  {parser.prog} {name} {words}".rstrip() for words in EXAMPLES[name])
        command = commands.add_parser(
            name,
            help=text,
            prog=f"{parser.prog} {name}",
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"examples:\n{examples}",
            formatter_class=_WithExamples,
        )
        if name in chosen:
            module = importlib.import_module(f"phrasemt.commands.{name}")
            command.set_defaults(run=getattr(module, "run", None))  # some have actions, which name their functions
            module.add_arguments(command)
    for name, stage in STAGES.items():
        if name in chosen:
            _add_stage_parser(commands, name, stage)
    return parser


class _WithExamples(argparse.HelpFormatter):
    """Keeps the lines of examples, and wraps other text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class _Phrasemt(argparse.ArgumentParser):
    """Its help lists commands in groups, as argparse cannot."""

    def format_help(self) -> str:
        lines = ["Phrases in neural machine translation: reproduce, vary and extend three papers."]
        for group, commands in GROUPS.items():
            lines += ["", f"{group}:", *(f"  {name:<10} {text}" for name, text in commands.items())]
        lines += ["", "`phrasemt COMMAND --help` explains a command; each stage of the workflow is one,"]
        lines += ["such as `phrasemt train_model --help`. `phrasemt --version` prints the version."]
        return f"{self.format_usage()}\n" + "\n".join(lines) + "\n"


def _add_stage_parser(commands: Any, name: str, stage: type[Stage]) -> None:
    described = inspect.cleandoc(stage.__doc__ or "")
    parser = commands.add_parser(
        name,
        help=described,
        prog=f"phrasemt {name}",
        description=described,
        epilog=_describe_settings(stage),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        fromfile_prefix_chars="@",  # @FILE: arguments, one on a line
    )
    for file in stage.stage_files():
        count = {"nargs": "*", "default": []} if file.many else {"required": True}
        metavar = "FOLDER" if file.use == "folder" else "PATH"
        help = "kept between runs" if file.use == "folder" else file.use
        kind = Output if file.use == "output" else Path
        parser.add_argument(file.flag, type=kind, metavar=metavar, help=help, **count)
    parser.add_argument("--settings", type=Path, required=True, metavar="FILE", help="JSON, see below")
    parser.add_argument(
        "--cores", type=in_range(int, 1, _MOST_CORES), default=1, metavar="N", help="cores to use (default 1)"
    )
    if stage.resumes:
        parser.add_argument(
            "--processes", type=in_range(int, 1), default=1, metavar="N", help="that work together, one per GPU (1)"
        )
        parser.add_argument(
            "--nodes", type=in_range(int, 1), default=1, metavar="N", help="of a Slurm job, to spread them over (1)"
        )
        parser.add_argument(
            "--minutes", type=in_range(float, 0), default=0, metavar="N",
            help=f"after which to save and leave with exit code {StoppedError.exit_code} (default 0: never)",
        )  # fmt: skip
    parser.add_argument("--log", type=Output, metavar="PATH", help="write messages to this file too")


def _describe_settings(stage: type[Stage]) -> str:
    lines = ["settings:"]
    for key, field in stage.model_fields.items():
        default = "" if field.is_required() else f", default {field.default!r}"
        lines.append(f"  {key}: {getattr(field.annotation, '__name__', field.annotation)}{default}")
    return "\n".join(lines)
