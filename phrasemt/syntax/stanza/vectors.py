"""The stage `train_vectors`: word vectors (skip-gram, Mikolov et al. 2013) for Stanza's parsers and chunkers."""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.files.system import work_folder
from phrasemt.stages.syntax import TrainVectors
from phrasemt.syntax.chunks.conll import read_conll
from phrasemt.syntax.stanza.runtime import ProgressLog, save_model
from phrasemt.syntax.trees import read_treebank, words

log = logging.getLogger("phrasemt.train_vectors")

WINDOW, NEGATIVE, EPOCHS = 3, 8, 8
LEAST_COUNT = 2
MOST_WORDS = 200_000


def train_vectors(
    *, settings: TrainVectors, cores: int, texts: list[Path], trees: list[Path], chunks: list[Path], vectors: Path
) -> None:
    """Learn vectors from texts (one sentence per line), and from the words of trees and of CoNLL columns.

    With width 0 the stage writes only the file that Stanza requires: two words with vectors of a single zero. It uses
    one core, so that equal texts give equal bytes. Raises DataError if no word occurs twice.
    """
    if settings.vectors == 0:
        _save(["the", "of"], None, vectors)
        log.info("train_vectors: the study sets vectors: 0")
        return
    with work_folder(vectors) as folder:
        sentences = itertools.chain(
            _tokenised(texts, settings.language),
            (words(tree) for path in trees for tree in read_treebank(path)),
            (tokens for path in chunks for tokens, _ in read_conll(path) if tokens),
        )
        # Tokenise once, because the text is read several times. No token contains a line feed; spaces are replaced.
        count = write_lines(folder / "text", (" ".join(token.replace(" ", "_") for token in s) for s in sentences))
        known, matrix = _learn(_Sentences(folder / "text"), settings)
    if not known:
        raise DataError(
            "no words to learn vectors from",
            where=", ".join(map(str, [*texts, *trees, *chunks])),
            expected=f"words that occur {LEAST_COUNT} times",
            next_step="give more text, or set vectors: 0",
        )
    _save(known, matrix, vectors)
    log.info("train_vectors: %s words from %s sentences", f"{len(known):,}", f"{count:,}")


def _tokenised(texts: list[Path], language: str) -> Iterator[list[str]]:
    """The tokens of raw texts as parsers see them: Moses tokens without escapes."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(language)
    for path in texts:
        for line in read_lines(path):
            yield moses.tokenize(line, escape=False)


class _Sentences:
    """The sentences of a token file; each iteration reads the file again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[list[str]]:
        return (line.split(" ") for line in read_lines(self._path) if line)


def _learn(sentences: Iterable[list[str]], settings: TrainVectors) -> tuple[list[str], Any]:
    """The words by decreasing frequency, and their vectors, float32 [words, width]."""
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    class Report(CallbackAny2Vec):  # type: ignore[misc]
        def __init__(self) -> None:
            self._progress = ProgressLog(log, "epoch", EPOCHS)
            self._done = 0

        def on_epoch_end(self, model: Word2Vec) -> None:
            self._done += 1
            self._progress.report(self._done)

    model = Word2Vec(
        vector_size=settings.vectors,
        window=WINDOW,
        sg=1,
        negative=NEGATIVE,
        min_count=LEAST_COUNT,
        max_final_vocab=MOST_WORDS,
        workers=1,  # with several workers, chance would decide the order of updates
        seed=settings.seed,
        hashfxn=lambda text: zlib.crc32(text.encode()),  # Python's own hash differs between processes
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        return [], None
    model.train(sentences, total_examples=model.corpus_count, epochs=EPOCHS, callbacks=[Report()])
    return model.wv.index_to_key, model.wv.vectors


def _save(known: list[str], matrix: Any, path: Path) -> None:
    """Write vectors in the format of Stanza's Pretrain: special words first, with zero vectors."""
    import torch
    from stanza.models.common.pretrain import PretrainedWordVocab
    from stanza.models.common.vocab import VOCAB_PREFIX_SIZE

    learned = torch.zeros(len(known), 1) if matrix is None else torch.from_numpy(matrix)
    vectors = torch.cat([torch.zeros(VOCAB_PREFIX_SIZE, learned.shape[1]), learned])
    save_model({"vocab": PretrainedWordVocab(known).state_dict(), "emb": vectors}, path)
