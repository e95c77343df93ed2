"""Scores on dev during training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from phrasemt.artefacts.training import Evaluation
from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.batching.batch import Batch
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.decode import translate_split
from phrasemt.decoding.dev_bleu import dev_bleu
from phrasemt.models.interface import TranslationModel
from phrasemt.nn.losses import Loss
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import BleuTokenizer
from phrasemt.training.process_group import ALONE, ProcessGroup

# Positions of a batch, padding included. Without gradients it needs little memory.
_POSITIONS = 4_096


class Evaluator:
    """Computes the scores of a model on dev.

    Perplexity and further losses of the model are per subword. dev BLEU: `phrasemt.decoding.dev_bleu`.
    The processes of a group share the search, which takes most of the time; the first one computes the losses. Batches
    are those of one process, so the scores are, too.
    references: tokenised references, or None for a model that does not translate, which then has no dev_bleu.
    bleu: sacreBLEU's tokeniser for the target language.
    """

    _SEARCH = Decoding(beam=1, length_penalty=0.0)

    def __init__(
        self,
        reader: BatchReader,
        references: Sequence[str] | None,
        words: Vocabulary,
        bleu: BleuTokenizer,
        group: ProcessGroup = ALONE,
    ) -> None:
        self._reader = reader
        self._references = references
        self._words = words
        self._bleu = bleu
        self._group = group

    @torch.inference_mode()
    def __call__(self, model: TranslationModel[Any, Any], update: int) -> Evaluation:
        """Return the scores of a model after an update, in all processes. Raises LostProcessError."""
        model.eval()
        translations = None if self._references is None else self._translate(model)
        scores = None
        if self._group.is_first:
            scores = self._scores(model, update, translations).model_dump()
        return Evaluation.model_validate(self._group.broadcast(scores))

    def _translate(self, model: TranslationModel[Any, Any]) -> list[list[int]]:
        """Return the translations of dev, subword ids without `</s>`; each process computes a part of them."""
        part = self._group.rank, self._group.size
        results = translate_split(
            model, self._reader, self._SEARCH, part=part, on_progress=lambda _: self._group.progress()
        )
        parts = self._group.gather([[*hypotheses[0].tokens] if hypotheses else None for hypotheses in results])
        return [next(tokens for tokens in of_pair if tokens is not None) for of_pair in zip(*parts, strict=True)]

    def _scores(
        self, model: TranslationModel[Any, Any], update: int, translations: list[list[int]] | None
    ) -> Evaluation:
        nll, tokens = 0.0, 0
        parts: dict[str, float] = defaultdict(float)

        def loss_of(batch: Batch) -> Loss:
            self._group.progress()
            return model.plain_loss(batch)

        losses, measurements = model.measure(list(self._reader.batches(_POSITIONS, model.device)), loss_of)
        for loss in losses:
            nll += float(loss.nll)
            for name, value in loss.parts.items():
                parts[name] += float(value)
            tokens += loss.tokens
        measured = {f"dev_{name}": round(value / tokens, 6) for name, value in parts.items()}
        measured |= {f"dev_{name}": round(value, 6) for name, value in measurements.items()}
        bleu = None
        if translations is not None and self._references is not None:
            bleu = dev_bleu(translations, self._references, self._words, self._bleu)
        perplexity = round(math.exp(min(nll / tokens, 100.0)), 6)
        return Evaluation(update=update, dev_bleu=bleu, dev_perplexity=perplexity, measurements=measured)
