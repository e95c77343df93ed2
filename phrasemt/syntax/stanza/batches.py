"""Sentences in the batches and in the form that Stanza's models read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
