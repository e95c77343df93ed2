"""The stage `train_chunker`: a chunk tagger."""

from __future__ import annotations

import json
import logging

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.card import Card
from phrasemt.artefacts.corpus import RawChunks, RegisteredText, UserFile
from phrasemt.artefacts.syntax import Chunker, Vectors
from phrasemt.files.lines import write_text
from phrasemt.files.work_folder import work_folder
from phrasemt.stages.syntax import TrainChunker
from phrasemt.syntax.chunks.conll import chunk_scores
from phrasemt.syntax.stanza.chunker import ChunkerAnnotator
from phrasemt.syntax.stanza.runtime import prepare_stanza
from phrasemt.syntax.stanza.training_data import read_chunked, train_and_dev
from phrasemt.syntax.stanza.training_tools import DEVICE, train_by_updates

log = logging.getLogger("phrasemt.train_chunker")


def train_chunker(
    *,
    settings: TrainChunker,
    cores: int,
    train: list[In[RegisteredText | RawChunks | UserFile]],
    dev: list[In[RegisteredText | RawChunks | UserFile]],
    test: list[In[RegisteredText | RawChunks | UserFile]],
    vectors: In[Vectors],
    chunker: Out[Chunker],
    annotator: Out[Card],
) -> None:
    """Train a chunk tagger on CoNLL columns, keep its best evaluation on dev, and write its card with scores on test.

    Raises DataError if train, dev or test has no sentences.
    """
    prepare_stanza(DEVICE)
    from stanza.models import ner_tagger as program

    with work_folder(chunker) as folder:
        parts = train_and_dev(read_chunked, train, dev, settings.sentences)
        for name, sentences in zip(("train", "dev"), parts, strict=True):
            document = [
                [{"text": token, "ner": tag} for token, tag in zip(*sentence, strict=True)] for sentence in sentences
            ]
            write_text(folder / name, json.dumps(document))
        train_by_updates(
            program, folder, chunker, log, "F1", vectors=vectors, settings=settings, updates=settings.updates,
            optim="adam", lr=0.002, patience=1, dropout=0.4, scheme="bioes",
        )  # fmt: skip
    files = {"chunker": chunker, "vectors": vectors}
    gold = read_chunked(test)
    annotations = ChunkerAnnotator(files, device=DEVICE).annotate([tokens for tokens, _ in gold])
    # A sentence that is too long for the chunker counts as a sentence without chunks.
    predicted = [
        annotation.text.split(" ") if annotation.text else ["O"] * len(tokens)
        for annotation, (tokens, _) in zip(annotations, gold, strict=True)
    ]
    scores = chunk_scores([tags for _, tags in gold], predicted)
    log.info("train_chunker: test F1 %s", f"{scores.f1:.1%}")
    card = Card.of_files(
        kind="chunks", origin="trained", language=settings.language, files=files, scores=scores.as_dict()
    )
    card.write(annotator)
