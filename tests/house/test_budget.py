"""The package is at most 2 % larger than budget.yaml says."""

from __future__ import annotations

import yaml
from budget import TABLE, count

SLACK = 0.02


def test_the_package_keeps_its_budget() -> None:
    allowed = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    above = {name: (size, allowed[name]) for name, size in count().items() if size > (1 + SLACK) * allowed[name]}
    assert not above, f"counted, allowed: {above}. Next: remove as much elsewhere (CONTRIBUTING.md, Budget)"
