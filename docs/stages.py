"""Writes docs/stages.md, the table of all stages and their files, from their declarations: `make stages`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts import kinds
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage, StageFile

_HEAD = """# Stages

Written by `make stages` from the functions of the stages and the classes of `phrasemt/artefacts/`. Paths of outputs
are below `results/<study>/<dataset>.<source>-<target>/`, unless they begin with `resources/` or `results/`. A star
marks a list of files, which may be empty. `UserFile` is a file of the user, which stands in place of the other kind.
"""


def lines() -> Iterator[str]:
    """The lines of the document."""
    yield from _HEAD.split("\n")
    yield "| stage | what it does | reads | writes |"
    yield "|---|---|---|---|"
    for name, stage in STAGES.items():
        described = inspect.cleandoc(stage.__doc__ or "").split("\n")[0]
        outputs = "<br>".join(dict.fromkeys(f"`{_place(file)}`" for file in stage.stage_files("output")))
        yield f"| `{name}` | {described} | {_inputs(stage)} | {outputs} |"
    yield ""
    yield "## Kinds of files"
    yield ""
    for kind in sorted(kinds().values(), key=lambda kind: (kind.__module__, kind.pattern)):
        described = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        yield f"- `{kind.__name__}`, `{kind.pattern}`: {described}"


def _inputs(stage: type[Stage]) -> str:
    files = stage.stage_files("input")
    return ", ".join(dict.fromkeys(" or ".join(file.kinds) + ("*" if file.many else "") for file in files))


def _place(file: StageFile) -> str:
    (kind,) = file.kinds
    place = kinds()[kind].pattern.replace("results/{study}/{dataset}.{source}-{target}/", "")
    return place.replace("{", "<").replace("}", ">")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text("\n".join(lines()) + "\n")
