"""Object storage: sidecars travel with their artefacts, as further outputs and inputs of the rules.

With `--default-storage-provider` a job receives copies of its inputs and hands on its outputs, and nothing else. On a
file system that all jobs share, sidecars stand beside their artefacts, and rules do not name them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from snakemake.io import regex_from_filepattern

from phrasemt.artefacts.sidecar import SUFFIX
from phrasemt.workflow.flow import Files, Flow
from phrasemt.workflow.inputs import Wildcards


def carry_sidecars(workflow: Any, flow: Flow) -> None:
    """Add sidecars to the outputs of all rules, and to the inputs that other rules make, if there is a storage.

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
