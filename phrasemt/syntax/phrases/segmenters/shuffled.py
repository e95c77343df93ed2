"""The phrases of the parse in random order of their lengths: as long, elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.segmenters import Sentence, parse


def segment(sentence: Sentence, settings: PhraseSegmentation) -> Sequence[int]:
    ends = parse.segment(sentence, settings)
    lengths = [end - start for start, end in itertools.pairwise([0, *ends])]
    # Of Python's generators only random() gives the same numbers in every version.
    numbers = sentence.random(settings)
    return list(itertools.accumulate(sorted(lengths, key=lambda _: numbers.random())))
