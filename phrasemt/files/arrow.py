"""Arrow IPC files: each has a schema, and in its metadata JSON with the number of its format."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

_KEY = b"phrasemt"


def with_description(schema: pa.Schema, **description: object) -> pa.Schema:
    """The schema with this JSON in its metadata. One of the values is the `format`."""
    return schema.with_metadata({_KEY: json.dumps(description, sort_keys=True).encode()})


def open_described(
    source: pa.NativeFile | pa.Buffer, schema: pa.Schema, number: int
) -> tuple[pa.ipc.RecordBatchFileReader, dict[str, Any]]:
    """Open a file of this schema and number of format; returns its reader and the other JSON.

    Raises ValueError, with the reason, for another file and for one that is cut off.
    """
    try:
        reader = pa.ipc.open_file(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None
    description: dict[str, Any] = json.loads((reader.schema.metadata or {}).get(_KEY, b"{}"))
    if (found := description.pop("format", None)) != number or not reader.schema.equals(schema):
        raise ValueError(
            f"format {found}, columns {_in_words(reader.schema)}, instead of format {number}, columns "
            f"{_in_words(schema)}"
        )
    return reader, description


def _in_words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
