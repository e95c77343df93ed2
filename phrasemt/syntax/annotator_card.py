"""The stage `describe_annotator`: the card of published models and of models of the user.

The trainings write their own cards.
"""

from __future__ import annotations

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.card import OPTIONAL, ROLES, Card
from phrasemt.artefacts.corpus import UserFile
from phrasemt.artefacts.syntax import StanzaFile
from phrasemt.errors import DataError
from phrasemt.stages.syntax import DescribeAnnotator


def describe_annotator(
    *,
    settings: DescribeAnnotator,
    cores: int,
    constituency: list[In[StanzaFile | UserFile]],
    chunker: list[In[StanzaFile | UserFile]],
    tagger: list[In[StanzaFile | UserFile]],
    vectors: list[In[StanzaFile | UserFile]],
    forward_charlm: list[In[StanzaFile | UserFile]],
    backward_charlm: list[In[StanzaFile | UserFile]],
    annotator: Out[Card],
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
