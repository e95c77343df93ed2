"""The stage `fetch_corpus`: a file of a registered corpus, from a mirror folder or from its source, verified.

The environment variable PHRASEMT_MIRROR names a mirror folder with the files `<mirror>/<corpus>/<file>`. A mirror
serves machines without network, and files that have vanished from their source.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from phrasemt.errors import DownloadError
from phrasemt.files.download import DownloadRequest, download, verify
from phrasemt.files.source_file import MIRROR, SourceFile, lock_file, locked, record
from phrasemt.stages.corpus import FetchCorpus

log = logging.getLogger("phrasemt.corpus.fetch")


def fetch_corpus(*, settings: FetchCorpus, cores: int, file: Path) -> None:
    """Copy or download a file of a corpus to `file`. The next run continues an interrupted download.

    A file without a registered checksum is compared with the lock file of the study, or recorded in it.
    Raises DownloadError if the file cannot be fetched, if only a person can fetch it, or if it differs from the
    registered or recorded file.
    """
    source = locked(settings.source, settings.corpus)
    wanted = DownloadRequest(source, "fetch_corpus", _other_ways(source))
    folder = os.environ.get(MIRROR)
    copy = Path(folder, settings.corpus, source.name) if folder else None
    if copy and not copy.is_file():
        log.info("fetch_corpus: the mirror has no %s", copy)
        copy = None
    if copy is None and source.by_hand:
        raise DownloadError(
            "no program may download this file",
            where=source.url,
            expected=f"{settings.corpus}/{source.name} in the mirror folder ({MIRROR})",
            next_step=f"{source.by_hand}; then {wanted.other_ways}",
        )
    if copy is None:
        download(wanted, file)
    else:
        log.info("fetch_corpus: %s from the mirror, %s", source.name, copy)
        shutil.copyfile(copy, file)
        verify(wanted, file, where=copy, next_step="put the registered file into the mirror (`phrasemt corpora ID`)")
    record(source, settings.corpus, file)


def _other_ways(source: SourceFile) -> str:
    replaced = f", or remove its line from {lock_file()} if its publisher has replaced it" if source.unverified else ""
    return (
        f"put the file into a mirror folder as <corpus>/{source.name} and name the folder in {MIRROR}, or use your own "
        f"text files (source: and target: in the study){replaced if source.checksum else ''}"
    )
