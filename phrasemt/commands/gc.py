"""`phrasemt gc`: list and remove files below results/ that no study names any more.

These are files of other systems, data sets and seeds, and old states of trainings. `snakemake --list-untracked` knows
the files of one study and one target, not those that other studies or targets name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.paths import LOGS, RESULTS, Paths
from phrasemt.artefacts.sidecar import SUFFIX, sidecar_path
from phrasemt.commands._arguments import named_paths
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.runs.display import size, table
from phrasemt.runs.notes import running_notes
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.flow import Flow

OTHER_STUDIES = ("config.yaml", "studies/*.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the files below the results of studies that belong to systems, data sets, seeds, phrases, "
        "parsers and chunkers that no study names any more, and states of trainings under earlier settings, data or "
        "code; with --yes remove them. Files that config.yaml or a study in studies/ names stay. So do "
        "files that no stage writes. Nothing is removed during a run of the study."
    )
    parser.add_argument(
        "study",
        nargs="*",
        type=Path,
        default=[Path("config.yaml")],
        metavar="STUDY",
        help="study files (default: config.yaml)",
    )
    parser.add_argument("--yes", action="store_true", help="remove them")


def run(options: argparse.Namespace) -> None:
    """Print what is found, and remove it with --yes. Raises PhrasemtError during a run of the study."""
    given = [load_study(path) for path in options.study]
    others = _others(options.study)
    names = list(dict.fromkeys(study.study for study in given))
    found: list[Path] = []
    for name in names:
        found += garbage([study for study in (*given, *others) if study.study == name], [*given, *others])
    if not found:
        print("nothing to remove: the studies name all artefacts below their results")
        return
    folders: dict[Path, list[Path]] = {}
    for path in found:
        folders.setdefault(path.parent, []).append(path)
    rows = [[str(folder), f"{len(files):,}", size(_bytes(files))] for folder, files in sorted(folders.items())]
    print(*table([["folder", "files", "size"], *rows], right_aligned=("files", "size")), sep="\n")
    total = f"{len(found):,} files ({size(_bytes(found))})"
    if not options.yes:
        print(f"nothing was removed. Next: `phrasemt gc {' '.join(map(str, options.study))} --yes` removes {total}")
        return
    for name in names:
        refuse_running(name)
    for path in found:
        path.unlink(missing_ok=True)
    for folder in sorted({parent for path in found for parent in path.parents}, reverse=True):
        if RESULTS in folder.parents and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    print(f"removed {total}")


def _bytes(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def _others(given: list[Path]) -> list[Study]:
    """The other studies of this folder. Raises StudyError for one with mistakes: it may name any file."""
    known = {path.resolve() for path in given}
    found = (path for pattern in OTHER_STUDIES for path in sorted(Path().glob(pattern)))
    return [load_study(path) for path in found if path.resolve() not in known]


def garbage(studies: Sequence[Study], others: Sequence[Study] = ()) -> list[Path]:
    """The files below the results of some studies of one name that none of them names.

    others: other studies; files that they name by their paths stay. Files without a sidecar stay, too, because no stage
    wrote them. Of a system that is named, only the states that its training record does not name are garbage; all stay
    without a record, or if several studies share the folder, because each state may be needed.
    """
    (name,) = {study.study for study in studies}
    paths = Paths(name)
    patterns = [*_patterns(paths), Pattern(f"{paths.training_state}/{{state}}/{{content}}")]
    constraints = [one for study in studies for one in _constraints(study)]
    named = [re.compile(_regex(pattern, one)) for pattern in patterns for one in constraints]
    known = [re.compile(_regex(pattern, {"content": ".+"})) for pattern in patterns]
    named_files = [path.resolve() for study in (*studies, *others) for path in named_paths(study)]
    found: list[Path] = []
    for path in sorted(Path(paths.results).rglob("*")):
        artefact = str(path).removesuffix(SUFFIX)
        names = [match.groupdict() for pattern in known if (match := pattern.fullmatch(artefact))]
        if not path.is_file() or not names or any(pattern.fullmatch(artefact) for pattern in named):
            continue
        of_a_stage = "content" in names[-1] or sidecar_path(artefact).is_file()
        if of_a_stage and not _is_below(Path(artefact), named_files):
            found.append(path)
    if len(studies) == 1:
        states = (path for path in _old_states(paths) if not _is_below(path, named_files))
        found = list(dict.fromkeys([*found, *states]))
    return found


def refuse_running(study: str) -> None:
    """Raise PhrasemtError if a run or a stage of a study is running."""
    for path, note in running_notes(LOGS / study):
        what = "a run of this study is still going, so nothing is removed"
        next_step = "wait until it has ended (`phrasemt status`), then run this again"
        raise PhrasemtError(what, where=study, found=f"process {note.pid} on {note.host}, {path}", next_step=next_step)


def _is_below(path: Path, places: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(place) for place in places)


def _patterns(paths: Paths) -> list[Pattern]:
    """The patterns of all artefacts of data sets and annotators."""
    patterns = (kind.within(study=paths.study) for kind in Paths.kinds().values() if kind != Paths.training_state)
    return [one for one in patterns if one.startswith(f"{paths.results}/") and "{" in one]


def _regex(pattern: Pattern, constraints: dict[str, str]) -> str:
    """A regular expression for paths of a pattern. constraints: of some wildcards; others match any name."""
    parts = re.split(r"\\\{(\w+)\\\}", re.escape(pattern))
    parts[1::2] = [f"(?P<{name}>{constraints.get(name, '[^/]+?')})" for name in parts[1::2]]
    return "".join(parts)


def _constraints(study: Study) -> Iterator[dict[str, str]]:
    """The constraints of all wildcards, for each group of systems with the same seeds."""
    systems: dict[tuple[int, ...], list[str]] = {}
    for name in study.systems:
        systems.setdefault(tuple(study.seeds_of(name)), []).append(name)
    flow = Flow(study)
    for seeds, names in systems.items():
        of_group = {"system": flow.only(names), "seed": flow.only(map(str, seeds))}
        yield flow.wildcards | of_group | {"state": "[^/]+", "content": ".+"}


def _old_states(paths: Paths) -> Iterator[Path]:
    """The states of trainings under earlier settings, data or code, where a record names the present state."""
    results = Path(paths.results).resolve()
    for folder in sorted(Path().glob(paths.training_state.glob)):
        if not folder.resolve().is_relative_to(results):  # a link to other files
            continue
        states = [state for state in folder.iterdir() if state.is_dir() and not state.is_symlink()]
        record = folder.parent / "training.json"
        text = "".join(read_lines(record)) if record.is_file() else ""
        current = [state for state in states if f"{folder.name}/{state.name}/" in text]
        if not current:
            continue
        for state in sorted(set(states) - set(current)):
            yield from (path for path in sorted(state.rglob("*")) if path.is_file())
