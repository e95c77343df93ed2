"""What taggers, parsers, chunkers and their trainings use: Stanza's setup, batches, failures, close decisions.

Annotators sort sentences by length and pass them to the model in batches, which makes Stanza fast, and return the
annotations in the order of the sentences. If the model fails for a sentence, only that sentence gets a failure.

Close decisions are choices between scores that are almost equal. The sums in a model differ in their last digits
between batches (measured: by up to 2e-5), and so may such a choice. The annotators annotate a sentence with one again,
alone, so an annotation never depends on the other sentences. About one sentence in a thousand has a close decision.

Shapes: S parser states, D parser decisions, N tokens, K tags, B sentences, T positions.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from phrasemt.artefacts.syntax import LONGEST
from phrasemt.errors import DataError
from phrasemt.files.lines import errors_of
from phrasemt.files.parallel import batched
from phrasemt.machine.gpus import torch_has_gpu
from phrasemt.syntax.annotations import Annotation

Device = Literal["cpu", "cuda"]
# torch has no error type of its own for some failures of memory and GPU libraries; their messages contain these words.
_MACHINE_MESSAGE = re.compile(r"memory|alloc|CUDA|cuDNN|cuBLAS", re.IGNORECASE)


def prepare_stanza(device: Device | None = None) -> Device:
    """Import Stanza without log messages and network, and set torch to one thread.

    Returns the device: the given one, else `cuda` if torch can use a GPU, else `cpu`. Raises PhrasemtError when the
    process was given a GPU that torch cannot use.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import stanza  # noqa: F401
    import torch

    logging.getLogger("stanza").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)  # several threads slow these small models down
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa would make many more decisions close
    return device or ("cuda" if torch_has_gpu() else "cpu")


@contextlib.contextmanager
def loading(files: Mapping[str, Path]) -> Iterator[None]:
    """Turn Stanza's errors about unusable model files into a DataError that names the files."""
    try:
        yield
    except Exception as error:
        if is_machine_error(error):
            raise
        raise DataError(
            "Stanza cannot use the model files",
            where=", ".join(map(str, files.values())),
            found=f"{type(error).__name__}: {str(error)[:300]}",
            next_step="give model files of this version of Stanza, and every file that the models were trained with",
        ) from error


def is_machine_error(error: Exception) -> bool:
    """Whether an error comes from the machine or the libraries, and so says nothing about the sentence."""
    import torch

    if isinstance(error, (MemoryError, OSError, ImportError, torch.OutOfMemoryError, torch.AcceleratorError)):
        return True
    return isinstance(error, RuntimeError) and bool(_MACHINE_MESSAGE.search(str(error)))


Tokens = Sequence[str]

# Moses writes @-@ for a hyphen between letters; the models have never seen it. Stanza cannot read an empty token.
_REPLACED = {"": "_", "@-@": "-"}


def visible_tokens(tokens: Tokens) -> list[str]:
    """The tokens of a sentence as the models see them."""
    return [_REPLACED.get(token, token) for token in tokens]


def batches_by_length(
    sentences: Sequence[Sequence[object]], most: int, most_tokens: int, *, refilled: bool = False
) -> Iterator[tuple[int, range]]:
    """Cut sentences of decreasing length into batches of at most `most` sentences and `most_tokens` padded tokens.

    Yields the batch size and the numbers of the sentences. With `refilled` the model refills its batch whenever a
    sentence is done: then the numbers are those of all neighbouring sentences with the same batch size.
    """
    start = 0
    while start < len(sentences):
        size = min(most, max(1, most_tokens // len(sentences[start])))
        end = start + size
        while refilled and end < len(sentences) and min(most, max(1, most_tokens // len(sentences[end]))) == size:
            end += 1
        yield size, range(start, min(end, len(sentences)))
        start = end


class TokenDocument:
    """The part of Stanza's Document that its data readers use: the tokens, without tags."""

    def __init__(self, sentences: Sequence[Tokens]) -> None:
        self._sentences = sentences

    def get(self, fields: Sequence[str], as_sentences: bool, from_token: bool = False) -> list[list[list[str | None]]]:
        tags: list[str | None] = [None] * (len(fields) - 1)
        return [[[token, *tags] for token in sentence] for sentence in self._sentences]


# Sentences that are sorted together. More need more memory; with fewer, the fixed costs of the models count.
_SORTED_TOGETHER = 2000
# Sentences that every model can annotate.
HARMLESS = [["a", "."], ["."]]


class GaveUpError(Exception):
    """The parser found no tree for a sentence, or a tree over other tokens."""


class StanzaAnnotator(ABC):
    """A parser or a chunker."""

    name: str

    def __init__(self, files: Mapping[str, Path], longest: int = LONGEST, device: Device | None = None) -> None:
        """files: model files by role, such as `constituency` and `vectors`.

        longest: largest number of tokens; a longer sentence gets a failure. Raises DataError if Stanza cannot use the
        files, MismatchError if they do not fit together or give other annotations.
        """
        self._longest = longest
        with loading(files):
            self._load({role: str(path) for role, path in files.items()}, prepare_stanza(device))
        self._check_tags(files)
        with loading(files):
            self._annotate(HARMLESS)

    @abstractmethod
    def _load(self, paths: Mapping[str, str], device: Device) -> None:
        """Load the models, offline."""

    @abstractmethod
    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """Raise MismatchError for models with other tags."""

    def annotate(self, sentences: Sequence[Tokens]) -> list[Annotation]:
        """One annotation for each sentence, in order. A sentence that cannot be annotated gets a failure.

        Raises only errors of the machine and of the libraries.
        """
        annotations = [
            Annotation(None, f"longer than {self._longest} tokens" if tokens else "no tokens") for tokens in sentences
        ]
        fit = [number for number, tokens in enumerate(sentences) if 0 < len(tokens) <= self._longest]
        for part in batched(fit, _SORTED_TOGETHER):
            part.sort(key=lambda number: len(sentences[number]), reverse=True)
            of_part = self._with_failures([visible_tokens(sentences[number]) for number in part])
            for number, annotation in zip(part, of_part, strict=True):
                annotations[number] = annotation
        return annotations

    @abstractmethod
    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        """The texts of the annotations of sentences in decreasing length. Raises if one sentence fails."""

    def _with_failures(self, sentences: list[list[str]]) -> list[Annotation]:
        """Annotations of all sentences. If the model raises, halve the sentences until the failing one is alone."""
        try:
            return [Annotation(text, None) for text in self._annotate(sentences)]
        except Exception as error:
            if is_machine_error(error):
                raise
            if len(sentences) == 1:
                return [Annotation(None, f"the {self.name} {self._reason(error)}")]
        half = len(sentences) // 2
        return self._with_failures(sentences[:half]) + self._with_failures(sentences[half:])

    def _reason(self, error: Exception) -> str:
        """The text of a failure. Raises the error if the sentence did not cause it.

        Failures are stored and used by all later studies, so a defect of the machine or the libraries must not become
        one. With such a defect the model also fails for sentences that it could annotate when it was loaded.
        """
        if isinstance(error, GaveUpError):
            return "gave up"
        try:
            self._annotate(HARMLESS)
        except Exception:
            raise error from None
        return f"failed ({type(error).__name__})"


CLOSE = 1e-3  # largest difference of scores in a close decision


def close_states(scores_SD: Any, chosen_S: Any) -> Any:
    """Parser states in which another decision scores almost as much as the chosen one, bool [S]."""
    return ((scores_SD - chosen_S.unsqueeze(1)).abs_() < CLOSE).sum(1) > 1


def close_tokens(scores_NK: Any) -> Any:
    """Tokens whose two best tags have almost the same score, bool [N]."""
    best_N2 = scores_NK.topk(2).values
    return best_N2[:, 0] - best_N2[:, 1] < CLOSE


def close_sequences(scores_BTK: Any, transitions_KK: Any, lengths_B: Any) -> Any:
    """Sentences whose two best tag sequences have almost the same score, bool [B]."""
    return margins(scores_BTK, transitions_KK, lengths_B) < CLOSE


def margins(scores_BTK: Any, transitions_KK: Any, lengths_B: Any) -> Any:
    """Score of the best tag sequence minus score of the second-best one, float [B].

    scores_BTK: scores of the tags at each position; transitions_KK: scores of a tag (column) after a tag (row). The
    margin is the smallest difference, over positions, between the two best tags of a position, where a tag counts with
    the best sequence through it.
    """
    import torch

    positions = scores_BTK.shape[1]
    lengths_B1 = lengths_B.to(scores_BTK.device).unsqueeze(1)
    best_up_to = [scores_BTK[:, 0]]  # [B, K]: score of the best sequence up to a position that ends with each tag
    for t in range(1, positions):
        best_up_to.append(scores_BTK[:, t] + (best_up_to[-1].unsqueeze(2) + transitions_KK).amax(1))
    after_BK = torch.zeros_like(scores_BTK[:, 0])  # score of the best sequence after each tag; 0 at the last position
    margins_B = torch.full_like(after_BK[:, 0], torch.inf)
    for t in reversed(range(positions)):
        best_B2 = (best_up_to[t] + after_BK).topk(2).values
        margins_B = torch.where(lengths_B1[:, 0] > t, margins_B.minimum(best_B2[:, 0] - best_B2[:, 1]), margins_B)
        before_BK = (transitions_KK + (scores_BTK[:, t] + after_BK).unsqueeze(1)).amax(2)
        after_BK = torch.where(lengths_B1 > t, before_BK, after_BK)
    return margins_B


def save_model(content: dict[str, Any], path: Path) -> None:
    """Save the content of a model file so that equal contents give equal bytes."""
    import torch

    stream = io.BytesIO()  # torch would write the name of a path into the file, and hide the error of a full disk
    torch.save(content, stream)
    with errors_of(path):
        path.write_bytes(stream.getbuffer())
