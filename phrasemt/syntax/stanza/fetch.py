"""The stage `fetch_stanza_file`: a model file published by Stanza and listed in phrasemt/registry/stanza_models.yaml.

The environment variable PHRASEMT_STANZA_URL names a mirror with Stanza's layout, `<URL>/stanza-<language>/resolve/
<revision>/models/<processor>/<package>.pt`, for machines without network. It changes no result.
"""

from __future__ import annotations

import os

from phrasemt.artefacts.artefact import Out
from phrasemt.artefacts.syntax import StanzaFile
from phrasemt.files.download import DownloadRequest, download
from phrasemt.registry.stanza_models import URL
from phrasemt.stages.syntax import FetchStanzaFile

URL_VARIABLE = "PHRASEMT_STANZA_URL"


def fetch_stanza_file(*, settings: FetchStanzaFile, cores: int, file: Out[StanzaFile]) -> None:
    """Download a model file and compare it with its checksum.

    Raises DownloadError if the file cannot be fetched or differs from the published file.
    """
    base = os.environ.get(URL_VARIABLE, URL).rstrip("/")
    source = settings.source.model_copy(update={"url": settings.source.url.replace(URL, base, 1)})
    other_ways = (
        f"name a mirror with the same layout in {URL_VARIABLE}, or give the files of a parser in the study (files)"
    )
    download(DownloadRequest(source, "fetch_stanza_file", other_ways), file)
