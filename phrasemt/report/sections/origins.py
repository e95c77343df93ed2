"""The section "Origins": digests of the files that the page shows, and the stages and code that made them."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.table import Table
from phrasemt.errors import MismatchError
from phrasemt.files.digests import digest_file
from phrasemt.files.sidecars import Sidecar
from phrasemt.report.page import Section, fill
from phrasemt.report.sections.results import anchor, files_behind


def origins_section(table: Table, others: Sequence[Path]) -> Section:
    """Make the section. others: files that the page shows besides those that the table names.

    Raises DamagedFileError for a file that has changed since its stage wrote it, and MismatchError for one that has
    changed since the table was made.
    """
    origins = Origins()
    scores = {
        anchor(block, row): [origins.of(path, sha256) for path, sha256 in files_behind(row).items()]
        for block in table.blocks
        for row in block.rows
    }
    content = fill(
        __file__,
        table=table,
        anchor=anchor,
        scores=scores,
        others=[origins.of(path) for path in others],
        versions=origins.versions(),
    )
    return Section(anchor="origins", heading="Origins", content=content)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A file that the page shows: its digest, and the stage and the digest of the code that made it."""

    path: str
    sha256: str
    stage: str
    code: str


class Origins:
    """Origins of files; each file and its sidecar are read once."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Origin, dict[str, str]]] = {}

    def of(self, path: Path | str, sha256: str | None = None) -> Origin:
        """Return the origin of a file. sha256: digest that the table recorded, if it did.

        Raises DamagedFileError when the file has changed since its stage wrote it, and MismatchError when it has
        another digest than the table recorded.
        """
        if str(path) not in self._found:
            sidecar, digest = Sidecar.read(path), digest_file(path)
            sidecar.check(Path(path), digest)
            origin = Origin(path=str(path), sha256=digest, stage=sidecar.stage, code=sidecar.code)
            self._found[str(path)] = origin, sidecar.versions
        origin = self._found[str(path)][0]
        if sha256 is not None and sha256 != origin.sha256:
            raise MismatchError(
                "not the file that the table was made from",
                where=path,
                expected=f"sha256 {sha256}",
                found=origin.sha256,
                next_step="make the table again",
            )
        return origin

    def versions(self) -> list[tuple[str, str, str, int]]:
        """Return stage, code digest and versions of libraries, with the number of files that they made."""
        counts = collections.Counter(
            (origin.stage, origin.code, ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
            for origin, versions in self._found.values()
        )
        return [(*key, count) for key, count in counts.items()]
