"""Model files of annotators: the stages `fetch_stanza_file` and `describe_annotator`.

A published file is listed in phrasemt/registry/stanza_models.yaml. The environment variable PHRASEMT_STANZA_URL names a
mirror with Stanza's layout, `<URL>/stanza-<language>/resolve/<revision>/models/<processor>/<package>.pt`, for machines
without network. It changes no result. The trainings write the cards of their models.
"""

from __future__ import annotations

import os
from pathlib import Path

from phrasemt.artefacts.card import OPTIONAL, ROLES, Card
from phrasemt.errors import DataError
from phrasemt.files.download import DownloadRequest, download
from phrasemt.registry.stanza_models import URL
from phrasemt.stages.syntax import DescribeAnnotator, FetchStanzaFile

URL_VARIABLE = "PHRASEMT_STANZA_URL"


def fetch_stanza_file(*, settings: FetchStanzaFile, cores: int, file: Path) -> None:
    """Download a model file and compare it with its checksum.

    Raises DownloadError if the file cannot be fetched or differs from the published file.
    """
    base = os.environ.get(URL_VARIABLE, URL).rstrip("/")
    source = settings.source.model_copy(update={"url": settings.source.url.replace(URL, base, 1)})
    other_ways = (
        f"name a mirror with the same layout in {URL_VARIABLE}, or give the files of a parser in the study (files)"
    )
    download(DownloadRequest(source, "fetch_stanza_file", other_ways), file)


def describe_annotator(
    *,
    settings: DescribeAnnotator,
    cores: int,
    constituency: list[Path],
    chunker: list[Path],
    tagger: list[Path],
    vectors: list[Path],
    forward_charlm: list[Path],
    backward_charlm: list[Path],
    annotator: Path,
) -> None:
    """Write the card of model files. Each list holds the file of a role, or is empty.

    Raises DataError if a file that the annotator needs is missing, or if a role has a file too many.
    """
    given = {
        "constituency": constituency,
        "chunker": chunker,
        "tagger": tagger,
        "vectors": vectors,
        "forward_charlm": forward_charlm,
        "backward_charlm": backward_charlm,
    }
    roles = ROLES[settings.kind]
    for role, paths in given.items():
        least, most = int(role in roles and role not in OPTIONAL), int(role in roles)
        if not least <= len(paths) <= most:
            raise DataError(
                f"the model files do not make an annotator of the kind {settings.kind}",
                where=f"role {role}",
                expected="one file" if least else "at most one file" if most else "no file",
                found=", ".join(map(str, paths)) or "none",
                next_step="correct the files in the study",
            )
    Card.of_files(
        kind=settings.kind,
        origin=settings.origin,
        language=settings.language,
        files={role: paths[0] for role, paths in given.items() if paths},
    ).write(annotator)
