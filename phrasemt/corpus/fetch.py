"""Fetching a file of a registered corpus, from a mirror folder or from its source, verified either way.

A mirror is a folder `<mirror>/<corpus>/<file>` named by the environment variable PHRASEMT_MIRROR: for machines without
network, and for sources that have vanished.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from phrasemt.errors import DownloadError
from phrasemt.files.download import BLOCK, DownloadRequest, FileVerifier, download, with_progress
from phrasemt.files.source_file import MIRROR, SourceFile
from phrasemt.stages.corpus import FetchCorpus

log = logging.getLogger("phrasemt.corpus.fetch")


def fetch_corpus(*, settings: FetchCorpus, cores: int, file: Path) -> None:
    """Copy or download one file of a corpus to `file`.

    Bytes of a download that was interrupted stay beside it as `.<name>.partial` and are used by the next run.
    Raises DownloadError when the file cannot be fetched or differs from the registered file.
    """
    source = settings.source
    wanted = DownloadRequest(source, "fetch_corpus", _other_ways(source))
    copy = _in_mirror(settings.corpus, source)
    if copy is None:
        download(wanted, file)
        return
    log.info("fetch_corpus: %s from the mirror, %s", source.name, copy)
    with copy.open("rb") as stream, file.open("wb") as target:
        check = FileVerifier(wanted)
        for block in with_progress(iter(lambda: stream.read(BLOCK), b""), wanted, start=0):
            target.write(block)
            check.update(block)
    check.verify(where=copy, next_step="replace it in the mirror by the registered file (`phrasemt corpora ID`)")


def _other_ways(source: SourceFile) -> str:
    return (
        f"put the file into a mirror folder as <corpus>/{source.name} and name the folder in {MIRROR}, or use text "
        "files of your own (source: and target: in the study)"
    )


def _in_mirror(corpus: str, source: SourceFile) -> Path | None:
    folder = os.environ.get(MIRROR)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise DownloadError(
            "the mirror is not a folder", where=MIRROR, found=repr(folder), next_step=f"correct {MIRROR} or unset it"
        )
    copy = Path(folder) / corpus / source.name
    if copy.is_file():
        return copy
    log.info("fetch_corpus: the mirror has no %s, so it comes from %s", copy, source.url)
    return None
