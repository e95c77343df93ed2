"""A source sentence as the segmenters see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from phrasemt.study.architectures import PhraseSegmentation


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """Everything that a segmenter may use.

    offsets: position of the first subword of each word, then the position of `</s>`. key: digest of the tokens
    (`phrasemt.syntax.sentences`). tree: the parse in the short text of `phrasemt.syntax.trees`, empty if the
    segmentation needs no parse. given: the user's phrase ends in words, empty if the user gave none.
    """

    offsets: list[int]
    key: bytes
    tree: str
    given: Sequence[int]

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.offsets) - 1

    @property
    def length(self) -> int:
        """Number of encoder positions, `</s>` included."""
        return self.offsets[-1] + 1

    def random(self, settings: PhraseSegmentation) -> Random:
        """A generator seeded with the segmentation's seed and the tokens: equal for the same sentence in any corpus."""
        digest = blake2b(self.key, key=settings.seed.to_bytes(8, "big"), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))
