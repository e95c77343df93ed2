"""Ways to cut a sentence into phrases: a module for each `phrase.mode`, with one function `segment`.

A module is found by its name, so that adding one changes no code that others depend on, and reruns nothing of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from phrasemt.study.architectures import PhraseSegmentation


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a segmenter may look at.

    offsets: position of each word's first subword, then that of `</s>`; key: of its tokens; tree: its parse, if the
    segmentation needs one; given: the user's ends of phrases in words, if there are any.
    """

    offsets: list[int]
    key: bytes
    tree: str
    given: Sequence[int]

    @property
    def words(self) -> int:
        return len(self.offsets) - 1

    @property
    def length(self) -> int:
        """Encoder positions, `</s>` included."""
        return self.offsets[-1] + 1

    def random(self, settings: PhraseSegmentation) -> Random:
        """Random numbers of the seed and of what the sentence says, wherever it stands."""
        digest = blake2b(self.key, key=settings.seed.to_bytes(8, "big"), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))


Segmenter = Callable[[Sentence, PhraseSegmentation], Sequence[int]]


def segmenter(mode: str) -> Segmenter:
    """`segment` of the module of that name: increasing ends of phrases, the last of them `sentence.length`."""
    segment: Segmenter = importlib.import_module(f"{__name__}.{mode}").segment
    return segment
