"""BLEU of a search on dev, as training and the choice of the length penalty compute it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.errors import check_equal
from phrasemt.files.lines import read_lines
from phrasemt.scoring.multi_bleu import standard_bleu, tokenised_bleu
from phrasemt.study.tokenization import BleuTokenizer
from phrasemt.text.subwords import join_subwords
from phrasemt.text.unspaced import join_unspaced


def read_dev_references(path: Path, sentences: int) -> list[str]:
    """The tokenised references of dev, line by line. Raises MismatchError unless there is one for each sentence."""
    references = list(read_lines(path))
    what = "the references do not belong to the examples of dev"
    check_equal(sentences, len(references), what, where=path, next_step="run the study again")
    return references


def dev_bleu(
    found: Sequence[Sequence[int]], references: Sequence[str], words: Vocabulary, bleu: BleuTokenizer
) -> float:
    """Return BLEU of translations, subword ids without `</s>`, from 0 to 100, with four digits.

    On tokens with `13a`. For a language for which sacreBLEU has a tokeniser of its own, sacreBLEU on text, because
    tokens may be characters. references: tokens, line by line. bleu: sacreBLEU's tokeniser for the target language.
    """
    lines = [join_subwords(" ".join(words.tokens(tokens))) for tokens in found]
    if bleu == "13a":
        return round(tokenised_bleu(lines, references), 4)
    return round(standard_bleu(bleu, [*map(join_unspaced, lines)], [*map(join_unspaced, references)]), 4)
