"""The stage `translate_examples`: translate a split; write n-best lists, tokens and plain text."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.artefacts.translations import TranslatedHypothesis, TranslatedSentence, Translations
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.beam import Hypothesis, translate_split
from phrasemt.files.lines import write_lines
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.stages.decoding import TranslateExamples
from phrasemt.text.subwords import join_subwords
from phrasemt.text.tokenize import line_detokenizer

log = logging.getLogger("phrasemt.translate_examples")


def translate_examples(
    *,
    settings: TranslateExamples,
    cores: int,
    weights: Path,
    examples: Path,
    source_vocabulary: Path,
    target_vocabulary: Path,
    phrases: list[Path],
    translations: Path,
    tokens: Path,
    text: Path,
) -> None:
    """Translate every pair of an example store.

    translations: one JSON object per pair (row, score, subwords, n_best).
    tokens: the best translations as tokens, with subwords joined.
    text: the best translations, detokenised.
    phrases: phrase columns of the split, or none for a model that does not read them.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    reader = BatchReader.open(examples, words, settings.reads, phrases)
    store = reader.examples
    with tqdm(total=len(store), unit="sentence", disable=None, leave=False) as bar:
        results = translate_split(model, reader, settings.decoding, processes=cores, on_progress=bar.update)
    best = [" ".join(words.target.tokens(hypotheses[0].tokens)) for hypotheses in results]
    joined = [join_subwords(line) for line in best]
    Translations.write(translations, _sentences(store.rows.tolist(), results, words.target))
    write_lines(tokens, joined)
    write_lines(text, map(line_detokenizer(settings.target_tokenizer), joined))
    subwords = sum(len(hypotheses[0].tokens) for hypotheses in results)
    log.info("translate_examples: %d sentences, %d subwords", len(results), subwords)


def _sentences(
    rows: Sequence[int], results: Sequence[Sequence[Hypothesis]], words: Vocabulary
) -> Iterator[TranslatedSentence]:
    for row, hypotheses in zip(rows, results, strict=True):
        n_best = [
            TranslatedHypothesis(score=hypothesis.score, subwords=" ".join(words.tokens(hypothesis.tokens)))
            for hypothesis in hypotheses
        ]
        yield TranslatedSentence(row=row, **dict(n_best[0]), n_best=n_best)
