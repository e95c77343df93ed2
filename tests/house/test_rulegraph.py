"""The picture of the rules in the README is that of the workflow."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from phrasemt.stages import STAGES

Edges = set[tuple[str, str]]


def _with_shortcuts(edges: Edges) -> Edges:
    """All pairs of rules of which the second comes somewhere after the first; the picture omits most of them."""
    while more := {(first, last) for first, middle in edges for other, last in edges if middle == other} - edges:
        edges = edges | more
    return edges


def _named(names: dict[str, str], edges: Iterable[str]) -> Edges:
    pairs = (re.fullmatch(r"\s*(\d+)\s*->\s*(\d+)\s*", edge) for edge in edges)
    return {(names[pair[1]], names[pair[2]]) for pair in pairs if pair}


def _drawn(picture: Path) -> tuple[set[str], Edges]:
    groups = [
        {part.tag.split("}")[1]: part.text or "" for part in group} for group in ElementTree.parse(picture).iter()
    ]
    names = {group["title"]: group["text"] for group in groups if "text" in group}
    return set(names.values()), _named(names, (group["title"] for group in groups if "title" in group))


def test_the_picture_shows_all_rules_and_what_they_wait_for(repository: Path) -> None:
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "--quiet", "--configfile", "docs/rulegraph.yaml"]
    graph = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', graph))
    assert set(names.values()) == {*STAGES, "all"}, "docs/rulegraph.yaml does not need every rule"
    rules, edges = _drawn(repository / "docs" / "rulegraph.svg")
    assert rules == {*STAGES, "all"}, "Next: make rulegraph"
    assert _with_shortcuts(edges) == _with_shortcuts(_named(names, graph.splitlines())), "Next: make rulegraph"
