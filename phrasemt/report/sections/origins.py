"""The section "Origins": digests of the files that the page shows, and the stages and code that made them."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from pathlib import Path

from phrasemt.artefacts.sidecar import DigestedFile, Evidence, Sidecar
from phrasemt.artefacts.table import Table
from phrasemt.files.digests import check_file
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.results import anchor, files_behind


def origins_section(table: Table, others: Sequence[Path]) -> Section:
    """Make the section. others: files that the page shows besides those that the table names.

    Raises DamagedFileError for a file that has changed since its stage wrote it, or since the table was made.
    """
    evidence = Evidence()
    scores = {anchor(block, row): files_behind(row) for block in table.blocks for row in block.rows}
    made_by: dict[str, Sidecar] = {}
    for path, digest in (file for files in scores.values() for file in files.items()):
        made_by[path] = evidence.check_output(path)
        what = "not the file that the table was made from"
        check_file(Path(path), digest, what, found=evidence.digest(path), next_step="make the table again")
    made_by |= {str(path): evidence.check_output(path) for path in others}
    content = fill(
        __file__,
        table=table,
        anchor=anchor,
        scores=scores,
        others=[DigestedFile(path=str(path), sha256=evidence.digest(path)) for path in others],
        versions=_versions(made_by.values()),
    )
    return Section(anchor="origins", heading="Origins", content=content)


def _versions(sidecars: Iterable[Sidecar]) -> list[tuple[str, str, str, int]]:
    """Stage, digest of the code and versions of libraries, with the number of files that they made."""
    counts = collections.Counter(
        (one.stage, one.code, ", ".join(f"{name} {version}" for name, version in sorted(one.versions.items())))
        for one in sidecars
    )
    return [(*key, count) for key, count in counts.items()]
