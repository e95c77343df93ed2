"""The base of parser and chunker: the order of sentences, and failures of single sentences.

The base sorts sentences by length and passes them to the model in batches, which makes Stanza fast, and returns the
annotations in the order of the sentences. If the model fails for a sentence, only that sentence gets a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from phrasemt.files.parallel import batched
from phrasemt.syntax.annotations import Annotation
from phrasemt.syntax.stanza.batches import Tokens, visible_tokens
from phrasemt.syntax.stanza.runtime import is_machine_error

Item = TypeVar("Item", bound=Sequence[object])

# Sentences that are sorted together. More need more memory; with fewer, the fixed costs of the models count.
_SORTED_TOGETHER = 2000
# Sentences that every model can annotate.
HARMLESS = [["a", "."], ["."]]


class GaveUpError(Exception):
    """The parser found no tree for a sentence, or a tree over other tokens."""


class StanzaAnnotator(ABC):
    """A parser or a chunker."""

    name: str

    def __init__(self, longest: int) -> None:
        """longest: largest number of tokens; a longer sentence gets a failure."""
        self._longest = longest

    def annotate(self, sentences: Sequence[Tokens]) -> list[Annotation]:
        """One annotation for each sentence, in order. A sentence that cannot be annotated gets a failure.

        Raises only errors of the machine and of the libraries.
        """
        return self._run(sentences, lambda part: self._annotate([visible_tokens(tokens) for tokens in part]))

    @abstractmethod
    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        """The texts of the annotations of sentences in decreasing length. Raises if one sentence fails."""

    def _run(self, sentences: Sequence[Item], annotate: Callable[[list[Item]], list[str]]) -> list[Annotation]:
        annotations = [Annotation(None, self._unfit(sentence)) for sentence in sentences]
        fit = [number for number, annotation in enumerate(annotations) if annotation.failure is None]
        for part in batched(fit, _SORTED_TOGETHER):
            part.sort(key=lambda number: len(sentences[number]), reverse=True)
            found = self._with_failures([sentences[number] for number in part], annotate)
            for number, annotation in zip(part, found, strict=True):
                annotations[number] = annotation
        return annotations

    def _unfit(self, sentence: Sequence[object]) -> str | None:
        """The reason why a sentence is not given to the model; None if it is."""
        if not sentence:
            return "no tokens"
        return f"longer than {self._longest} tokens" if len(sentence) > self._longest else None

    def _with_failures(self, sentences: list[Item], annotate: Callable[[list[Item]], list[str]]) -> list[Annotation]:
        """Annotations of all sentences. If annotate raises, halve the sentences until the failing one is alone."""
        try:
            return [Annotation(text, None) for text in annotate(sentences)]
        except Exception as error:
            if is_machine_error(error):
                raise
            if len(sentences) == 1:
                return [Annotation(None, f"the {self.name} {self._reason(error)}")]
        half = len(sentences) // 2
        return self._with_failures(sentences[:half], annotate) + self._with_failures(sentences[half:], annotate)

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
