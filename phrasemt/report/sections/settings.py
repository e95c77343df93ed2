"""The section "Systems": all trainings, and the settings of model, training and search in which systems differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.table import Table
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.trainings import TrainingCurve


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting with its value in each system; the value is empty for a system that does not have the setting."""

    key: str
    values: Sequence[str]

    @property
    def differs(self) -> bool:
        """Whether two systems that have the setting have different values of it."""
        return len(set(filter(None, self.values))) > 1

    @property
    def everywhere(self) -> bool:
        return all(self.values)


def systems_section(table: Table, trainings: Sequence[TrainingCurve], records: Sequence[Path]) -> Section:
    """Make the section. records: of the trainings."""
    content = fill(
        __file__, titles=dict(table.systems), trainings=trainings, settings=settings_of_systems(table, records)
    )
    return Section(anchor="systems", heading="Systems", content=content)


def settings_of_systems(table: Table, records: Sequence[Path]) -> list[Setting]:
    """Read the settings of all systems from the sidecars of each system's first training and first translation."""
    scored = {row.system: row for block in table.blocks[::-1] if block.kind == "scores" for row in block.rows}
    settings: dict[str, dict[str, str]] = {}
    for system, _ in table.systems:
        sections: dict[str, Any] = {}
        for record in [path for path in records if path.absolute().parents[1].name == system][:1]:
            sidecar = Sidecar.beside(record)
            sections |= {section: sidecar.settings[section] for section in ("model", "training")}
            for file in sidecar.inputs.get("initial_weights", ()):
                sections["init_from"] = {"file": file.path, "sha256": file.sha256[:12]}
        if system in scored:
            scores = next(source.path for cell in scored[system].cells.values() for source in cell.sources)
            sections |= _of_translation(Sidecar.beside(Sidecar.beside(scores).inputs["tokens"][0].path))
        settings[system] = dict(flatten("", sections))
    keys = list(dict.fromkeys(key for values in settings.values() for key in values))
    return [Setting(key=key, values=[values.get(key, "") for values in settings.values()]) for key in keys]


def _of_translation(sidecar: Sidecar) -> dict[str, Any]:
    """The settings of a search, or the file that another program translated into."""
    if "decoding" in sidecar.settings:
        return {"decoding": sidecar.settings["decoding"]}
    (file,) = sidecar.inputs["translations"]
    return {"translations": {"file": file.path, "sha256": file.sha256[:12], "form": sidecar.settings["form"]}}


def flatten(prefix: str, section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of nested settings by dotted keys: text as it is, other values as JSON."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", json.dumps(value) if not isinstance(value, str) else value
