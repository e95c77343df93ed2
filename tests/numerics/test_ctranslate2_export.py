"""An exported Transformer, run by CTranslate2's own beam search, translates as ours does.

Witness: CTranslate2, which shares no code with phrasemt. A translation may differ only where the two best scores are
nearly equal, so that rounding decides.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.batching.reader import BatchReader, SourceCollator
from phrasemt.decoding.beam import translate_split
from phrasemt.decoding.contrasts import forced_scores
from phrasemt.errors import PhrasemtError
from phrasemt.models.ctranslate2_export import export_ctranslate2
from phrasemt.models.interface import build_model
from phrasemt.study.architectures import PhraseRepresentationModel, TransformerModel
from phrasemt.study.schema import Decoding

SIZE = {"encoder_layers": 2, "decoder_layers": 2, "width": 32, "heads": 4, "ffn_width": 48}
SYSTEMS = {
    "post-norm": TransformerModel(**SIZE),
    "pre-norm, normalised embeddings": TransformerModel(
        **SIZE, norm="pre", tie="all", softmax_bias=False, embed_ln=True
    ),
}
LIMIT = 30  # longest output; CTranslate2 cuts longer ones off, and we close them with `</s>`
ROUNDING = 1e-4  # of a sum of ten log-probabilities in float32


@pytest.fixture(scope="module")
def words(tiny_data):
    return Vocabulary.read(tiny_data.target_vocabulary)


@pytest.fixture(scope="module", params=SYSTEMS.values(), ids=list(SYSTEMS))
def trained(request, tiny_data, words):
    """Settings and a model after 120 updates: it knows lengths and a part of the words, so beams hold alternatives."""
    settings = request.param
    torch.manual_seed(5)
    model = build_model(settings, source_vocabulary=len(words), target_vocabulary=len(words))
    reader = BatchReader(Examples.open(tiny_data.train), settings.model_inputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for update in range(120):
        batch = reader(np.arange(update * 20, update * 20 + 60) % 1500)
        loss = model.loss(batch, label_smoothing=0.1)
        (loss.objective / loss.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    return settings, model.eval()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_finds_the_same_translations(trained, words, tiny_data, tmp_path, beam, alpha):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the optional package ctranslate2 is not installed")
    settings, model = trained
    export_ctranslate2(model, settings, Vocabularies(words, words), tmp_path)
    theirs = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1, inter_threads=1)
    reader = BatchReader(Examples.open(tiny_data.dev), settings.model_inputs)
    decoding = Decoding(
        beam=beam, length_penalty=alpha, length_penalty_form="length", max_length_factor=0, max_length_extra=LIMIT
    )
    found = translate_split(model, reader, decoding)
    sources = [reader.examples.source(row) for row in range(len(reader.examples))]
    results = theirs.translate_batch(
        [words.tokens(source) for source in sources],
        beam_size=beam,
        length_penalty=alpha,
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        return_scores=True,
    )
    differences, cut = [], 0
    for row, ((ours, *_), result) in enumerate(zip(found, results, strict=True)):
        tokens = words.tokens(ours.tokens)
        if max(len(tokens), len(result.hypotheses[0])) >= LIMIT:
            cut += 1
            continue
        if tokens == result.hypotheses[0]:
            assert ours.score == pytest.approx(result.scores[0], abs=ROUNDING)
            continue
        targets = [np.array(ours.tokens, dtype=np.int32), words.ids(result.hypotheses[0])]
        forced = forced_scores(model, SourceCollator(settings.model_inputs), [sources[row]] * 2, targets, [row] * 2)
        differences.append((row, tokens, result.hypotheses[0], forced.tolist()))
        margin = abs(ours.score - float(forced[1]) / (len(targets[1]) + 1) ** alpha)
        assert margin < 1e-3, f"{differences[-1]}: not a matter of rounding"
    print("differences:", differences)
    assert len(differences) + cut <= len(sources) // 20


OTHERS = {
    "family phrase_representation": PhraseRepresentationModel(**SIZE),
    "family transformer with attention: relative": TransformerModel(**SIZE, attention="relative"),
    "family transformer with attention: ngrams": TransformerModel(**SIZE, attention="ngrams"),
}


@pytest.mark.parametrize("found", OTHERS)
def test_ctranslate2_cannot_run_other_models(found, words, tmp_path):
    settings = OTHERS[found]
    model = build_model(settings, source_vocabulary=len(words), target_vocabulary=len(words))
    expected = "family transformer with attention: tokens"
    with pytest.raises(
        PhrasemtError, match=rf"CTranslate2 cannot run this model \(expected {expected}, found {found}\)"
    ):
        export_ctranslate2(model, settings, Vocabularies(words, words), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_the_message_says_how_to_install_it(words, tmp_path, monkeypatch):
    for name in ("ctranslate2", "ctranslate2.specs"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it then fails
    settings = TransformerModel(**SIZE)
    model = build_model(settings, source_vocabulary=len(words), target_vocabulary=len(words))
    with pytest.raises(PhrasemtError, match=r"needs the package ctranslate2 .* Next: pip install"):
        export_ctranslate2(model, settings, Vocabularies(words, words), tmp_path)
