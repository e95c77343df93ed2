"""A folder of programs that stand for Moses': each notes how it was called and leaves files of the right form.

They show what the adapter asks for and what it does with failures. What Moses makes of it is the subject of
tests/unit/moses/test_with_moses.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_PROGRAMS = (
    "bin/lmplz",
    "bin/build_binary",
    "bin/fast_align",
    "bin/atools",
    "bin/extract",
    "bin/score",
    "bin/consolidate",
    "bin/lexical-reordering-score",
    "bin/moses",
    "bin/extractor",
    "bin/mert",
    "bin/kbmira",
    "bin/pro",
    "bin/evaluator",
    "scripts/recaser/train-truecaser.perl",
    "scripts/recaser/truecase.perl",
    "scripts/recaser/detruecase.perl",
    "scripts/generic/strip-xml.perl",
    "scripts/training/train-model.perl",
    "scripts/training/mert-moses.pl",
    "scripts/training/filter-model-given-input.pl",
)

_PROGRAM = """#!{python}
import gzip, json, os, pathlib, sys
root = pathlib.Path(__file__).resolve().parents[{depth}]
argv = sys.argv[1:]
def after(flag): return pathlib.Path(argv[argv.index(flag) + 1])
with (root / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({{"program": "{name}", "argv": argv, "LC_ALL": os.environ.get("LC_ALL")}}) + "\\n")
planned = root / "planned.py"
if planned.exists():
    exec(planned.read_text())
name = "{name}".split("/")[-1]
if name == "train-truecaser.perl":
    after("--model").write_text("model")
elif name in ("truecase.perl", "lmplz"):
    sys.stdout.write(sys.stdin.read().replace("\\n", " \\n"))
elif name == "detruecase.perl":
    sys.stdout.write("".join(line[:1].upper() + line[1:] for line in sys.stdin))
elif name == "build_binary":
    pathlib.Path(argv[-1]).write_text("binary")
elif name == "fast_align":
    print("\\n".join("0-0" for _ in after("-i").open()))
elif name == "atools":
    print(after("-i").read_text(), end="")
elif name == "train-model.perl":
    for table in ("phrase-table", "reordering-table.wbe-" + argv[argv.index("-reordering") + 1]):
        with gzip.open(after("-root-dir") / "model" / (table + ".gz"), "wt") as out:
            out.write("a ||| b ||| 1 1 1 1\\n" * 3)
elif name == "filter-model-given-input.pl":
    pathlib.Path(argv[0]).mkdir()
    (pathlib.Path(argv[0]) / "moses.ini").write_text(pathlib.Path(argv[1]).read_text())
elif name == "moses":
    print(after("-input-file").read_text(), end="")
elif name == "mert-moses.pl":
    work = after("--working-dir")
    (work / "moses.ini").write_text((work / "untuned.ini").read_text().replace("LM0= 0.5", "LM0= 0.25"))
    (work / "finished_step.txt").write_text("4")
    print("copying weights from best iteration (2, bleu=0.4125) to moses.ini")
"""


class RecordedMoses:
    """Programs that note how they are called. folder: for PHRASEMT_MOSES."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _PROGRAMS:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_PROGRAM.format(python=sys.executable, name=name, depth=name.count("/")))
            path.chmod(0o755)
        (folder / "VERSION").write_text("mosesdecoder abc\nfast_align def\n")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What was called, in order: program, argv and LC_ALL."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []

    def plan(self, code: str) -> None:
        """Python code that each program runs first; `name` is not known yet, `argv` and `after` are."""
        (self.folder / "planned.py").write_text(code)
