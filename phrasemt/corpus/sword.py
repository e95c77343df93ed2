"""Verses of a Bible in the format of the SWORD project, driver zText: compressed texts with two indexes.

A testament (`ot`, `nt`) is three files. `.bzz` holds blocks compressed by zlib, one for each book. `.bzs` has 12 bytes
for each block: its offset in `.bzz`, its size there and its size unpacked. `.bzv` has 10 bytes for each entry: the
number of its block, its offset in the unpacked block and its length in bytes. Numbers are little-endian. Entries follow
the versification of the module, with an empty entry for each title, so entry i of two modules with one versification is
the same verse. (SWORD's sources describe the format, src/modules/common/zverse.cpp.)
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator

TESTAMENTS = ("ot", "nt")
_BLOCK, _ENTRY = struct.Struct("<III"), struct.Struct("<IIH")
_NOTE_OR_TAG = re.compile(rb"<note.*?</note>|<[^>]*>", re.DOTALL)


def sword_files(folder: str) -> list[str]:
    """Names of the archive members that `read_verses` reads."""
    return [f"{folder}/{testament}.{kind}" for testament in TESTAMENTS for kind in ("bzs", "bzv", "bzz")]


def read_verses(archive: zipfile.ZipFile, folder: str) -> Iterator[bytes]:
    """Yield the entries of the Old, then the New Testament as UTF-8, without notes and tags, white space joined.

    folder: of the module inside the archive. Raises zipfile.BadZipFile if the indexes do not fit the text, and
    zlib.error for a damaged block.
    """
    for testament in TESTAMENTS:
        blocks, entries, packed = (archive.read(f"{folder}/{testament}.{kind}") for kind in ("bzs", "bzv", "bzz"))
        try:
            places = [*_BLOCK.iter_unpack(blocks)]
            texts = [zlib.decompress(packed[start : start + size]) for start, size, _ in places]
            if [len(text) for text in texts] != [unpacked for _, _, unpacked in places]:
                raise zipfile.BadZipFile(f"{testament}.bzs does not fit {testament}.bzz")
            for block, start, length in _ENTRY.iter_unpack(entries):
                if length and start + length > len(texts[block]):
                    raise zipfile.BadZipFile(f"{testament}.bzv names a verse beyond the end of block {block}")
                yield b" ".join(_NOTE_OR_TAG.sub(b"", texts[block][start : start + length] if length else b"").split())
        except (struct.error, IndexError) as error:
            raise zipfile.BadZipFile(f"the indexes of {testament} are cut off: {error}") from None
