"""Translation of a whole split by beam search, in batches of similar length, and BLEU of translations of dev."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.batching.reader import BatchReader
from phrasemt.batching.sampler import micro_batches
from phrasemt.decoding.beam import Hypothesis, beam_search
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.files.parallel import map_in_order
from phrasemt.models.interface import SearchableModel
from phrasemt.nn.precision import usable_precision
from phrasemt.scoring.multi_bleu import standard_bleu, tokenised_bleu
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import BleuTokenizer
from phrasemt.text.subwords import join_subwords
from phrasemt.text.tokenize import join_unspaced

# Source positions of a batch times hypotheses. On a CPU more make no product faster. A GPU has room for many more; a
# batch that does not fit into its memory is divided.
_BATCH_POSITIONS = {"cpu": 8_000, "cuda": 200_000}
# A short sentence counts as this many positions, because a step needs the same memory for each sentence.
_LEAST_POSITIONS = 8


def translate_split(
    model: SearchableModel[Any, Any],
    reader: BatchReader,
    settings: Decoding,
    *,
    processes: int = 1,
    on_progress: Callable[[int], object] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every pair of the example store, in its order; for each pair the best first.

    A source without subwords has one hypothesis, the empty one: a model would invent a translation.
    processes: number of processes that share the batches on a CPU; more than one have one thread each, so that results
    are those of one process with one thread, to the last bit.
    on_progress: called with the number of sentences of each translated batch.
    Raises PhrasemtError if a process is killed.
    """
    device = model.device
    settings = settings.model_copy(update={"precision": usable_precision(settings.precision, device)})
    batches = search_batches(reader, settings, device)
    shared = processes > 1 and device.type == "cpu"
    arguments = in_precision(model, settings), reader, settings
    results: dict[int, list[Hypothesis]] = {}
    with _threads(1 if shared else torch.get_num_threads()):
        # Forked processes share the weights; nothing of `arguments` is copied.
        jobs = max(1, min(processes, len(batches))) if shared else 1
        translated = map_in_order(Search.translate, batches, jobs=jobs, prepare=Search, arguments=arguments)
        for rows, hypotheses in zip(batches, translated, strict=True):
            results.update(zip(rows, hypotheses, strict=True))
            on_progress(len(rows))
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    blank = np.flatnonzero(lengths == 0).tolist()
    results.update((row, [Hypothesis(tokens=(), log_prob=0.0, score=0.0)]) for row in blank)
    on_progress(len(blank))
    return [results[row] for row in range(len(reader.examples))]


def search_batches(reader: BatchReader, settings: Decoding, device: torch.device) -> list[list[int]]:
    """Return the rows that have subwords in batches of similar length, the longest sentences first.

    So processes that share the batches end at about the same time.
    """
    lengths = reader.examples.source_lengths[np.arange(len(reader.examples))]
    counted = np.maximum(lengths, _LEAST_POSITIONS)
    capacity = max(1, _BATCH_POSITIONS[device.type] // settings.beam)
    batches = micro_batches(np.flatnonzero(lengths), counted, counted, capacity=capacity, device=device.type)
    return [rows.tolist() for rows in reversed(batches)]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Give torch this number of threads within a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_precision(model: SearchableModel[Any, Any], settings: Decoding) -> SearchableModel[Any, Any]:
    """Return the model with weights of the type that the settings name: itself, or a copy.

    With bfloat16 the caller turns autocast on.
    """
    return model if settings.precision == "float32" else copy.deepcopy(model).to(torch.bfloat16)


@dataclass(frozen=True)
class Search:
    """A search over a split. The fields are the arguments of `translate_split`, in their precision."""

    model: SearchableModel[Any, Any]
    reader: BatchReader
    settings: Decoding

    def translate(self, rows: list[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each of these rows, which have subwords. Without memory for all, it divides them."""
        device = self.model.device
        source = self.reader.source(np.array(rows)).to(device)
        try:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                return beam_search(self.model, source, self.settings)
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise
        middle = len(rows) // 2
        return [*self.translate(rows[:middle]), *self.translate(rows[middle:])]


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
