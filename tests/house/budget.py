"""Three sizes of the package: lines, files, keys of a study. `make budget` writes the present ones to budget.yaml."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from phrasemt.study.schema import Study

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("budget.yaml")


def count() -> dict[str, int]:
    """The sizes now, of the files that git tracks."""
    command = ["git", "-C", ROOT, "ls-files", "phrasemt/*.py"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [path for name in listed if (path := ROOT / name).exists()]
    schema = Study.model_json_schema()
    return {
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
        "files": len(files),
        "keys": sum(len(section.get("properties", {})) for section in (schema, *schema["$defs"].values())),
    }


if __name__ == "__main__":
    TABLE.write_text(yaml.safe_dump(count(), sort_keys=False), encoding="utf-8")
