"""Each tensor of a batch against its definition, filled in one element at a time."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from phrasemt.batching.batch import collate_phrases, collate_source, collate_target
from phrasemt.symbols import BOS, EOS, PAD

# Phrase sizes of each sentence.
SEGMENTATIONS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=5)
SENTENCES = st.lists(st.lists(st.integers(3, 1000), max_size=7), min_size=1, max_size=5)


def arrays(sentences: list[list[int]]) -> list[np.ndarray]:
    return [np.array(sentence, dtype=np.int32) for sentence in sentences]


@given(SEGMENTATIONS)
def test_collate_phrases(segmentations):
    most_phrases = max(len(sizes) for sizes in segmentations)
    longest = max(max(sizes) for sizes in segmentations)
    index = [[[0] * longest for _ in range(most_phrases)] for _ in segmentations]
    mask = [[[False] * longest for _ in range(most_phrases)] for _ in segmentations]
    real = [[False] * most_phrases for _ in segmentations]
    for sentence, sizes in enumerate(segmentations):
        position = 0
        for phrase, size in enumerate(sizes):
            real[sentence][phrase] = True
            for token in range(size):
                index[sentence][phrase][token] = position
                mask[sentence][phrase][token] = True
                position += 1
    phrases = collate_phrases([np.cumsum(sizes) for sizes in segmentations])
    assert phrases.token_index_BPM.tolist() == index
    assert phrases.token_mask_BPM.tolist() == mask
    assert phrases.phrase_mask_BP.tolist() == real
    for sentence, sizes in enumerate(segmentations):
        slots = phrases.slot_BS[sentence]
        assert phrases.token_index_BPM[sentence].flatten()[slots[: sum(sizes)]].tolist() == list(range(sum(sizes)))
        assert phrases.token_mask_BPM[sentence].flatten()[slots[: sum(sizes)]].all()
        assert (slots[sum(sizes) :] == -1).all()
    assert phrases.token_index_BPM.dtype == torch.int64


@given(SENTENCES)
def test_collate_source(sentences):
    source = collate_source(arrays(sentences))
    longest = max(len(sentence) for sentence in sentences) + 1
    assert source.ids_BS.shape == source.mask_BS.shape == (len(sentences), longest)
    for row, sentence in enumerate(sentences):
        assert source.ids_BS[row].tolist() == [*sentence, EOS] + [PAD] * (longest - len(sentence) - 1)
        assert source.mask_BS[row].tolist() == [position <= len(sentence) for position in range(longest)]
    assert source.ids_BS.dtype == torch.int64
    assert source.phrases is None


@given(SENTENCES)
def test_collate_target(sentences):
    target = collate_target(arrays(sentences))
    longest = max(len(sentence) for sentence in sentences) + 1
    for row, sentence in enumerate(sentences):
        filling = [PAD] * (longest - len(sentence) - 1)
        assert target.inputs_BT[row].tolist() == [BOS, *sentence, *filling]
        assert target.outputs_BT[row].tolist() == [*sentence, EOS, *filling]
        assert target.mask_BT[row].tolist() == [position <= len(sentence) for position in range(longest)]
