"""Scores on dev during training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.artefacts.training import Evaluation
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.beam import Search, search_batches
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.models.interface import TranslationModel
from phrasemt.scoring.multi_bleu import standard_bleu, tokenised_bleu
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import BleuTokenizer
from phrasemt.text.subwords import join_subwords
from phrasemt.text.tokenize import join_unspaced
from phrasemt.training.process_group import ALONE, ProcessGroup

# Positions of a batch, padding included. Without gradients it needs little memory.
_POSITIONS = 4_096


class Evaluator:
    """Computes the scores of a model on dev.

    Perplexity and further losses of the model are per subword. dev BLEU: `dev_bleu`.
    The processes of a group divide the batches among themselves (`ProcessGroup.map`). Batches and the order of sums are
    those of one process, so the scores are, too, to the bit.
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
        batches = list(self._reader.batches(_POSITIONS, model.device))  # measurements may pass over them again
        losses, measurements = model.measure(batches, map_batches=self._group.map)
        scores = None
        if self._group.is_first:
            measured = {name: value / losses.tokens for name, value in losses.parts.items()} | measurements
            bleu = None
            if translations is not None and self._references is not None:
                bleu = dev_bleu(translations, self._references, self._words, self._bleu)
            scores = Evaluation(
                update=update,
                dev_bleu=bleu,
                dev_perplexity=round(losses.perplexity, 6),
                measurements={f"dev_{name}": round(value, 6) for name, value in measured.items()},
            ).model_dump()
        return Evaluation.model_validate(self._group.broadcast(scores))

    def _translate(self, model: TranslationModel[Any, Any]) -> list[list[int]]:
        """Return the translations of dev, subword ids without `</s>`. A source without subwords has an empty one."""
        search = Search(model, self._reader, self._SEARCH)
        batches = search_batches(self._reader, self._SEARCH, model.device)
        translated = self._group.map(lambda rows: [[*best.tokens] for best, *_ in search.translate(rows)], batches)
        translations: list[list[int]] = [[] for _ in range(len(self._reader.examples))]
        for rows, of_rows in zip(batches, translated, strict=True):
            for row, tokens in zip(rows, of_rows, strict=True):
                translations[row] = tokens
        return translations


def read_dev_references(path: Path, sentences: int) -> list[str]:
    """The tokenised references of dev, line by line. Raises MismatchError unless there is one for each sentence."""
    references = list(read_lines(path))
    what = "the references do not belong to the examples of dev"
    check_equal(sentences, len(references), what, where=path, next_step="run the study again")
    return references


def dev_bleu(
    translations: Sequence[Sequence[int]], references: Sequence[str], words: Vocabulary, bleu: BleuTokenizer
) -> float:
    """Return BLEU of translations, subword ids without `</s>`, from 0 to 100, with four digits.

    On tokens with `13a`. For a language for which sacreBLEU has a tokeniser of its own, sacreBLEU on text, because
    tokens may be characters. references: tokens, line by line. bleu: sacreBLEU's tokeniser for the target language.
    """
    lines = [join_subwords(" ".join(words.tokens(tokens))) for tokens in translations]
    if bleu == "13a":
        return round(tokenised_bleu(lines, references), 4)
    return round(standard_bleu(bleu, [*map(join_unspaced, lines)], [*map(join_unspaced, references)]), 4)
