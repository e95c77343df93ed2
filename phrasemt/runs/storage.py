"""Object storage: sidecars travel with their artefacts, as further outputs and inputs of the rules.

With `--default-storage-provider` a job receives copies of its inputs and hands on its outputs, and nothing else. On a
file system that all jobs share, sidecars stand beside their artefacts, and rules do not name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from snakemake.io import regex_from_filepattern

from phrasemt.artefacts.sidecar import SUFFIX


def carry_sidecars(workflow: Any) -> None:
    """Add sidecars to the outputs of all rules, and to the inputs that other rules make, if there is a storage."""
    settings = workflow.storage_settings
    if settings.default_storage_provider is None:
        return
    folder = f"{settings.default_storage_prefix.rstrip('/')}/" if settings.default_storage_prefix else ""
    rules = [rule for rule in workflow.modifier.rules if not rule.norun]  # not those of a workflow around this one
    made = []
    for rule in rules:
        outputs = dict.fromkeys(file.storage_object.query.removeprefix(folder) for file in rule.output)
        made += [re.compile(regex_from_filepattern(pattern)) for pattern in outputs]
        rule.set_output(*(f"{pattern}{SUFFIX}" for pattern in outputs))
    for rule in rules:
        rule.set_input(_sidecars_of(list(rule.input), folder, made))


def _sidecars_of(inputs: Sequence[Any], folder: str, made: Sequence[re.Pattern[str]]) -> Callable[[Any], list[str]]:
    """An input function: the sidecars of these inputs of a rule, as far as rules make them."""

    def paths(wildcards: Any) -> Iterable[str]:
        for item in inputs:
            if callable(item):
                found = item(wildcards)
                yield from [found] if isinstance(found, str) else found
            else:
                yield item.storage_object.query.removeprefix(folder).format(**dict(wildcards.items()))

    def sidecars(wildcards: Any) -> list[str]:
        known = dict.fromkeys(paths(wildcards))
        return [f"{path}{SUFFIX}" for path in known if any(pattern.match(path) for pattern in made)]

    return sidecars
