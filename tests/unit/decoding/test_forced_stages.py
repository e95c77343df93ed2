"""The stages that force references and contrastive pairs, on models with random weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from stage_settings import of_model

from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.batching.reader import SourceCollator
from phrasemt.decoding.attention import analyse_attention
from phrasemt.decoding.contrasts import score_contrasts
from phrasemt.decoding.forced import forced_scores
from phrasemt.files.lines import write_lines
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, save_tensors, weights_of
from phrasemt.stages.decoding import AnalyseAttention, ScoreContrasts
from phrasemt.stages.subwords import BuildVocabulary, LearnSubwords
from phrasemt.study.architectures import PhraseRepresentationModel, TransformerModel
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import build_vocabulary, learn_subwords

SIZE = {"encoder_layers": 2, "decoder_layers": 2, "width": 32, "heads": 4, "ffn_width": 48}


@pytest.mark.parametrize(
    "settings",
    [TransformerModel(**SIZE), PhraseRepresentationModel(**SIZE, pool="attn", ta="on")],
    ids=["transformer", "max-attn-ta"],
)
def test_nats_of_each_reference_are_those_of_forced_decoding(settings, tiny_data, tmp_path):
    """float32 with recorded attention against the fused one: 1e-3 on sums of up to 8 log-probabilities."""
    words, examples = Vocabulary.read(tiny_data.target_vocabulary), Examples.open(tiny_data.dev)
    torch.manual_seed(11)
    model = build_model(settings, source_vocabulary=len(words), target_vocabulary=len(words)).eval()
    weights = tmp_path / "weights.safetensors"
    save_tensors(weights, weights_of(model), describe_weights(settings, Vocabularies(words, words)))
    analyse_attention(
        settings=AnalyseAttention(dataset="d", test_set="test", system="s", seed=1, **of_model(settings)),
        cores=1,
        weights=weights,
        examples=tiny_data.dev,
        source_vocabulary=tiny_data.target_vocabulary,
        target_vocabulary=tiny_data.target_vocabulary,
        phrases=[],
        chunks=[],
        attention=tmp_path / "attention.arrow",
        analysis=tmp_path / "analysis.json",
    )
    found = AttentionAnalysis.read(tmp_path / "analysis.json")
    rows = range(len(examples))
    sides = [[side(row) for row in rows] for side in (examples.source, examples.target)]
    expected = forced_scores(model, SourceCollator(settings.model_inputs), *sides, list(rows))
    assert found.sentence_nats == pytest.approx([-score for score in expected.tolist()], abs=1e-3)
    assert found.sentence_tokens == [len(target) + 1 for target in sides[1]]
    assert sum(found.sentence_nats) / found.tokens == pytest.approx(np.log(found.perplexity), abs=1e-4)


@pytest.mark.parametrize("whole_words", [False, True])
def test_exactly_one_side_of_a_contrast_wins(tmp_path, whole_words):
    sides = {side: tmp_path / side for side in ("source", "target")}
    write_lines(sides["source"], ["the dog sleeps .", "the dogs sleep ."] * 5)
    write_lines(sides["target"], ["der Hund schläft .", "die Hunde schlafen ."] * 5)
    learned = {name: tmp_path / name for name in ("codes", "source_counts", "target_counts")}
    learn_subwords(settings=LearnSubwords(merges=20), cores=1, **sides, **learned)
    vocabularies = {f"{side}_vocabulary": tmp_path / f"{side}_vocabulary" for side in sides}
    build_vocabulary(settings=BuildVocabulary(shared=False), cores=1, **sides, **vocabularies)
    words = Vocabularies.read(*vocabularies.values())
    settings = TransformerModel(**SIZE)
    torch.manual_seed(2)
    model = build_model(settings, source_vocabulary=len(words.source), target_vocabulary=len(words.target))
    save_tensors(tmp_path / "weights", weights_of(model), describe_weights(settings, words))
    right, wrong = "der Hund schläft .", "der Hund schlafen ."
    lines = [
        "row\tsource\tright\twrong\tdistance\tkind",
        f"0\tthe dog sleeps .\t{right}\t{wrong}\t1\tnumber",
        f"1\tthe dog sleeps .\t{wrong}\t{right}\t12\tnumber",
        f"2\tthe dog sleeps .\t{right}\t{right}\t40\tnumber",
        f"2\tthe dog sleeps .\t{right}\t{right}\t\tword",
    ]
    write_lines(tmp_path / "contrasts", lines)
    about = {"dataset": "demo", "contrast_set": "test", "system": "base", "seed": 1, "vocabulary_threshold": 0}
    about |= {"source_tokenizer": Tokenizer.for_language("en"), "target_tokenizer": Tokenizer.for_language("de")}
    score_contrasts(
        settings=ScoreContrasts(**about, **of_model(settings)),
        cores=1,
        weights=tmp_path / "weights",
        contrasts=tmp_path / "contrasts",
        **{name: [] if whole_words else [path] for name, path in learned.items()},
        **vocabularies,
        phrases=[],
        accuracy=tmp_path / "accuracy",
    )
    number, word = json.loads((tmp_path / "accuracy").read_text())["kinds"]
    by_low = {group["low"]: group for group in number["by_distance"]}
    assert list(by_low) == [1, 11, 16]
    assert by_low[1]["right"] + by_low[11]["right"] == 1  # the same pair, once each way round
    assert by_low[16] == {"pairs": 1, "right": 0, "low": 16}  # a tie is not a preference
    assert (number["kind"], number["pairs"], number["right"]) == ("number", 3, 1)
    assert word == {"pairs": 1, "right": 0, "kind": "word", "by_distance": []}
