"""Scores on dev during training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from phrasemt.artefacts.training import Evaluation
from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.decode import translate_split
from phrasemt.decoding.dev_bleu import dev_bleu
from phrasemt.models.interface import TranslationModel
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import BleuTokenizer

# Positions of a batch, padding included. Without gradients it needs little memory.
_POSITIONS = 4_096


class Evaluator:
    """Computes the scores of a model on dev.

    Perplexity and further losses of the model are per subword. dev BLEU: `phrasemt.decoding.dev_bleu`.
    references: tokenised references, or None for a model that does not translate, which then has no dev_bleu.
    bleu: sacreBLEU's tokeniser for the target language.
    """

    _SEARCH = Decoding(beam=1, length_penalty=0.0)

    def __init__(
        self, reader: BatchReader, references: Sequence[str] | None, words: Vocabulary, bleu: BleuTokenizer
    ) -> None:
        self._reader = reader
        self._references = references
        self._words = words
        self._bleu = bleu

    @torch.inference_mode()
    def __call__(self, model: TranslationModel[Any, Any], update: int) -> Evaluation:
        """The scores of a model after an update."""
        model.eval()
        nll, tokens = 0.0, 0
        parts: dict[str, float] = defaultdict(float)
        batches = list(self._reader.batches(_POSITIONS, model.device))
        losses, measurements = model.measure(batches)
        for loss in losses:
            nll += float(loss.nll)
            for name, value in loss.parts.items():
                parts[name] += float(value)
            tokens += loss.tokens
        measured = {f"dev_{name}": round(value / tokens, 6) for name, value in parts.items()}
        measured |= {f"dev_{name}": round(value, 6) for name, value in measurements.items()}
        bleu = None
        if self._references is not None:
            results = translate_split(model, self._reader, self._SEARCH)
            bleu = dev_bleu(results, self._references, self._words, self._bleu)
        perplexity = round(math.exp(min(nll / tokens, 100.0)), 6)
        return Evaluation(update=update, dev_bleu=bleu, dev_perplexity=perplexity, measurements=measured)
