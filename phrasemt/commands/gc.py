"""`phrasemt gc`: list and remove files below results/ that no study names any more.

`snakemake --list-untracked` knows the files of one study and one target only.
"""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.paths import LOGS, RESULTS, Paths
from phrasemt.artefacts.sidecar import SUFFIX, sidecar_path
from phrasemt.commands._arguments import named_paths
from phrasemt.errors import PhrasemtError
from phrasemt.runs.display import size, table
from phrasemt.runs.notes import running_notes
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study
from phrasemt.workflow.flow import Flow

OTHER_STUDIES = ("config.yaml", "studies/*.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the artefacts that no study names any more, and states of trainings under earlier settings, data or "
        "code. What config.yaml or a study in studies/ names stays."
    )
    default, text = [Path("config.yaml")], "study files (default: config.yaml)"
    parser.add_argument("study", nargs="*", type=Path, default=default, metavar="STUDY", help=text)
    parser.add_argument("--yes", action="store_true", help="remove them")


def run(options: argparse.Namespace) -> None:
    """Print what no study names, and remove it with --yes. Raises PhrasemtError during a run of the study."""
    given = [load_study(path) for path in options.study]
    known = {path.resolve() for path in options.study}
    others = (path for pattern in OTHER_STUDIES for path in sorted(Path().glob(pattern)))
    studies = [*given, *(load_study(path) for path in others if path.resolve() not in known)]
    names = list(dict.fromkeys(study.study for study in given))
    files = [path for name in names for path in garbage(name, studies)]
    if not files:
        print("nothing to remove: the studies name all artefacts below their results")
        return
    sizes = collections.defaultdict[Path, list[int]](list)
    for path in files:
        sizes[path.parent].append(path.stat().st_size)
    rows = [[str(folder), f"{len(of_files):,}", size(sum(of_files))] for folder, of_files in sorted(sizes.items())]
    print(*table([["folder", "files", "size"], *rows], right_aligned=("files", "size")), sep="\n")
    total = f"{len(files):,} files ({size(sum(map(sum, sizes.values())))})"
    if not options.yes:
        print(f"nothing was removed. Next: `phrasemt gc {' '.join(map(str, options.study))} --yes` removes {total}")
        return
    for place, note in (running for name in names for running in running_notes(LOGS / name)):
        what, found = "a run of this study is still going, so nothing is removed", f"process {note.pid} on {note.host}"
        raise PhrasemtError(what, where=place, found=found, next_step="wait until it has ended (`phrasemt status`)")
    for path in files:
        path.unlink(missing_ok=True)
    for folder in sorted({parent for path in files for parent in path.parents}, reverse=True):
        if RESULTS in folder.parents and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    print(f"removed {total}")


def garbage(name: str, studies: Sequence[Study]) -> Iterator[Path]:
    """The files below the results of the studies of this name that none of the studies names.

    Of a system that is named, only the states that its training record does not name are garbage; all stay without a
    record, or if several studies share the folder, because each state may be needed.
    """
    own = [study for study in studies if study.study == name]
    paths = Paths(name)
    patterns = [kind.within(study=name) for kind in Paths.kinds().values()]
    patterns = [
        pattern for pattern in patterns if pattern.startswith(f"{paths.results}/") and pattern != paths.training_state
    ]
    patterns.append(Pattern(f"{paths.training_state}/{{state}}/{{content}}"))
    known = [_regular(pattern, {"content": ".+"}) for pattern in patterns]
    named = [_regular(pattern, names) for study in own for names in _names_of(study) for pattern in patterns]
    named_files = [path.resolve() for study in studies for path in named_paths(study)]
    for path in sorted(Path(paths.results).rglob("*")):  # which does not follow links
        artefact = Path(str(path).removesuffix(SUFFIX))
        state = known[-1].fullmatch(str(artefact))
        of_a_stage = state or (
            sidecar_path(artefact).is_file() and any(pattern.fullmatch(str(artefact)) for pattern in known)
        )
        if not of_a_stage or not path.is_file() or any(map(artefact.resolve().is_relative_to, named_files)):
            continue
        if not any(pattern.fullmatch(str(artefact)) for pattern in named):
            yield path
        elif state and len(own) == 1:
            model = Path(str(artefact).partition("/state/")[0])
            text = (model / "training.json").read_text("utf-8") if (model / "training.json").is_file() else ""
            present = [name for name in re.findall(r'"state/([^/"]+)/', text) if (model / "state" / name).is_dir()]
            if present and state["state"] not in present:
                yield path


def _regular(pattern: str, names: dict[str, str]) -> re.Pattern[str]:
    """The paths of a pattern. names: regular expressions of some wildcards; others match any name."""
    parts = re.split(r"\\\{(\w+)\\\}", re.escape(pattern))
    parts[1::2] = [f"(?P<{name}>{names.get(name, '[^/]+?')})" for name in parts[1::2]]
    return re.compile("".join(parts))


def _names_of(study: Study) -> Iterator[dict[str, str]]:
    """Regular expressions of all wildcards, for each group of systems with the same seeds."""
    systems = collections.defaultdict[tuple[int, ...], list[str]](list)
    for name in study.systems:
        systems[tuple(study.seeds_of(name))].append(name)
    flow = Flow(study)
    for seeds, names in systems.items():
        own = {"system": flow.only(names), "seed": flow.only(map(str, seeds)), "state": "[^/]+", "content": ".+"}
        yield flow.wildcards | own
