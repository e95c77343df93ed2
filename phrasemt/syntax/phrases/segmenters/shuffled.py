"""Mode `shuffled`: the phrase lengths of mode `parse` in random order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from phrasemt.study.architectures import PhraseSegmentation
from phrasemt.syntax.phrases.segmenters import parse
from phrasemt.syntax.phrases.source_sentence import SourceSentence


def segment(sentence: SourceSentence, settings: PhraseSegmentation) -> Sequence[int]:
    ends = parse.segment(sentence, settings)
    lengths = [end - start for start, end in itertools.pairwise([0, *ends])]
    # Python keeps only the numbers of random() the same in every version.
    numbers = sentence.random(settings)
    return list(itertools.accumulate(sorted(lengths, key=lambda _: numbers.random())))
