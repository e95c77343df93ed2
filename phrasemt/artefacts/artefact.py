"""Patterns of paths, and files in JSON."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ValidationError

from phrasemt.errors import DamagedFileError
from phrasemt.fields import Settings
from phrasemt.files.lines import write_text


class Pattern(str):
    """A path with wildcards in braces."""

    __slots__ = ()

    def at(self, **values: object) -> Pattern:
        """The path with these wildcards replaced; the others stay."""
        path = str(self)
        for name, value in values.items():
            assert f"{{{name}}}" in path, f"{path} has no wildcard {name}"
            path = path.replace(f"{{{name}}}", str(value))
        return Pattern(path)

    def within(self, **values: object) -> Pattern:
        """`at`, for those of these wildcards that the path has."""
        return self.at(**{name: value for name, value in values.items() if f"{{{name}}}" in self})

    @property
    def glob(self) -> str:
        """The pattern of a shell, with an asterisk for each wildcard."""
        return re.sub(r"\{\w+\}", "*", self)

    def names(self, path: Path) -> dict[str, str]:
        """The values of the wildcards in a path of this pattern. Raises ValueError for another path."""
        if (match := _regular(self).fullmatch(path.as_posix())) is None:
            raise ValueError(f"{path} is no path of the form {self}")
        return match.groupdict()

    def fits(self, path: Path) -> bool:
        return _regular(self).fullmatch(path.as_posix()) is not None


@functools.cache
def _regular(pattern: str) -> re.Pattern[str]:
    wildcards = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(pattern))
    return re.compile(f"(?:.*/)?{wildcards}")


class JsonFile(Settings):
    """A kind of file in JSON: the fields of the class and the number of the format. `null` is left out."""

    format: ClassVar[int] = 1
    indent: ClassVar[int | None] = 1
    again: ClassVar[str] = "delete it and run again"
    """The next step for a file that cannot be read."""

    def __init_subclass__(cls, format: int | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if format is not None:
            cls.format = format

    @property
    def text(self) -> str:
        content = {"format": self.format, **self.model_dump(mode="json", exclude_none=True)}
        separators = (",", ":") if self.indent is None else None
        return json.dumps(content, indent=self.indent, separators=separators, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        write_text(path, self.text)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a file. Raises DamagedFileError, with the field, for a file of another form or format."""
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise DamagedFileError("no such file", where=path, next_step="run the stage that makes it") from None
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"not JSON: {error}", where=path, next_step=cls.again) from None
        found = content.pop("format", None) if isinstance(content, dict) else type(content).__name__
        if found != cls.format:
            what = "a file of another format"
            raise DamagedFileError(what, where=path, expected=f"format {cls.format}", found=found, next_step=cls.again)
        try:
            return cls.model_validate(content, context={"file": path})
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "file"
            raise DamagedFileError(f"{field}: {first['msg']}", where=path, next_step=cls.again) from None
