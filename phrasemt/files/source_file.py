"""The description of a file on a server, used by the registries of corpora and of Stanza's models.

The code that downloads files is in phrasemt/files/download.py: the workflow reads the registries at every start and
must not wait for the import of an HTTP client.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from phrasemt.fields import Settings

# Names a folder `<mirror>/<corpus>/<file>` that goes before the sources of the registry.
MIRROR = "PHRASEMT_MIRROR"

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/\S+$")]
Count = Annotated[int, Field(gt=0)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class SourceFile(Settings):
    """A file at its source. It has a checksum, or `unverified` gives the reason why it has none."""

    name: FileName
    url: Url
    mirrors: tuple[Url, ...] = Field((), description="further addresses of the same bytes, asked in this order")
    by_hand: str | None = Field(
        None, description="how a person gets the file from `url`, where no program may download it"
    )
    bytes: Count | None = None
    sha256: Sha256 | None = None
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    unverified: str | None = Field(None, description="why no checksum is known")

    @model_validator(mode="after")
    def _can_be_verified(self) -> SourceFile:
        if (self.sha256 or self.md5 or self.unverified) is None:
            raise ValueError(f"{self.name} has neither sha256 nor md5, and `unverified` does not say why")
        if self.mirrors and self.checksum is None:
            raise ValueError(f"{self.name} has mirrors, but no checksum shows that they hold the same bytes")
        return self

    @property
    def checksum(self) -> tuple[str, str] | None:
        """Algorithm (a name of hashlib) and hexadecimal digest of the strongest known checksum; None without one."""
        if self.sha256 is not None:
            return "sha256", self.sha256
        return ("md5", self.md5) if self.md5 is not None else None
