"""The stage `tune_length_penalty`: choose the length penalty of a search by BLEU on dev."""

from __future__ import annotations

import logging

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.columns import Examples, PhraseColumns
from phrasemt.artefacts.text import Tokens
from phrasemt.artefacts.training import Weights
from phrasemt.artefacts.translations import LengthPenaltyScore, LengthPenaltyScores
from phrasemt.artefacts.vocabulary import Vocabularies, Vocabulary
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.decode import prefix_ids, translate_split
from phrasemt.decoding.dev_bleu import dev_bleu, read_dev_references
from phrasemt.decoding.ensemble import load_members
from phrasemt.nn.device import choose_device
from phrasemt.stages.decoding import TuneLengthPenalty

log = logging.getLogger("phrasemt.tune_length_penalty")


def tune_length_penalty(
    *,
    settings: TuneLengthPenalty,
    cores: int,
    weights: list[In[Weights]],
    dev: In[Examples],
    dev_reference: In[Tokens],
    source_vocabulary: In[Vocabulary],
    target_vocabulary: In[Vocabulary],
    dev_phrases: list[In[PhraseColumns]],
    scores: Out[LengthPenaltyScores],
) -> None:
    """Translate dev with each length penalty, and write a `LengthPenaltyScores`.

    Between equal scores the first one decides: the length penalty of the settings, then the others in their order.
    weights: of each member of the ensemble, or of the one model. dev_reference: tokens.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_members(settings.members, weights, words).to(choose_device(cores))
    reader = BatchReader.open(dev, words, settings.reads, dev_phrases)
    references = read_dev_references(dev_reference, len(reader.examples))
    found = []
    for alpha in (settings.decoding.length_penalty, *(settings.decoding.length_penalties or ())):
        decoding = settings.decoding.model_copy(update={"length_penalty": alpha})
        prefix = prefix_ids(decoding, words.target)
        results = translate_split(model, reader, decoding, prefix=prefix, processes=cores)
        bleu = dev_bleu([hypotheses[0].tokens for hypotheses in results], references, words.target, settings.dev_bleu)
        log.info("tune_length_penalty: alpha %g: dev BLEU %.2f", alpha, bleu)
        found.append(LengthPenaltyScore(length_penalty=alpha, dev_bleu=bleu))
    chosen = max(found, key=lambda score: score.dev_bleu)
    content = LengthPenaltyScores(
        dataset=settings.dataset,
        system=settings.system,
        seed=settings.seed,
        sentences=len(reader.examples),
        beam=settings.decoding.beam,
        dev_bleu_tokenizer=settings.dev_bleu,
        scores=found,
        chosen=chosen,
    )
    content.write(scores)
