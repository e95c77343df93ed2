"""The stages that translate and force, on two model families with random weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from stage_settings import of_model

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.artefacts.vocabulary import Vocabularies, Vocabulary
from phrasemt.batching.pack import pack_examples
from phrasemt.batching.reader import BatchReader, SourceCollator
from phrasemt.decoding.attention import analyse_attention
from phrasemt.decoding.beam import beam_search
from phrasemt.decoding.contrasts import score_contrasts
from phrasemt.decoding.decode import translate_split
from phrasemt.decoding.forced import forced_scores
from phrasemt.decoding.translate import translate_examples
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, save_tensors, weights_of
from phrasemt.stages.decoding import AnalyseAttention, ScoreContrasts, TranslateExamples
from phrasemt.stages.subwords import BuildVocabulary, LearnSubwords, PackExamples
from phrasemt.study.architectures import PhraseRepresentationModel, TransformerModel
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import learn_subwords
from phrasemt.text.vocab import build_vocabulary

SIZE = {"encoder_layers": 2, "decoder_layers": 2, "width": 32, "heads": 4, "ffn_width": 48}
FAMILIES = [TransformerModel(**SIZE), PhraseRepresentationModel(**SIZE, pool="attn", ta="on")]


@pytest.fixture(params=FAMILIES, ids=["transformer", "max-attn-ta"])
def settings(request):
    return request.param


@pytest.fixture
def words(tiny_data):
    return Vocabulary.read(tiny_data.target_vocabulary)


@pytest.fixture
def model(settings, words):
    """Random weights, scaled up so that translations differ from each other and end before the length limit."""
    torch.manual_seed(11)
    model = build_model(settings, source_vocabulary=len(words), target_vocabulary=len(words)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


@pytest.fixture
def reader(tiny_data, settings):
    return BatchReader(Examples.open(tiny_data.dev), settings.model_inputs)


DECODING = Decoding(beam=3, n_best=3, max_length_extra=10)


def test_a_blank_source_has_an_empty_translation(model, settings, words, tiny_data, tmp_path):
    source = [" ".join(words.tokens([7, 9, 8])), "", " ".join(words.tokens([11, 6]))]
    files = {"rows": ["0", "1", "2"], "source": source, "target": source}
    for name, lines in files.items():
        write_lines(tmp_path / name, lines)
    vocabularies = {"source_vocabulary": tiny_data.source_vocabulary, "target_vocabulary": tiny_data.target_vocabulary}
    paths = {name: tmp_path / name for name in files}
    pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=tmp_path / "examples")
    reader = BatchReader(Examples.open(tmp_path / "examples"), settings.model_inputs)
    first, blank, last = translate_split(model, reader, DECODING)
    assert [hypothesis.tokens for hypothesis in blank] == [()]
    for hypotheses, row in ((first, 0), (last, 2)):
        (alone,) = beam_search(model, reader.source([row]), DECODING)
        assert [hypothesis.tokens for hypothesis in hypotheses] == [hypothesis.tokens for hypothesis in alone]


@pytest.fixture
def weights(model, settings, words, tmp_path):
    path = tmp_path / "weights.safetensors"
    save_tensors(path, weights_of(model), describe_weights(settings, Vocabularies(words, words)))
    return path


def test_nats_of_each_reference_are_those_of_forced_decoding(model, settings, weights, reader, tiny_data, tmp_path):
    """float32 with recorded attention against the fused one: 1e-3 on sums of up to 8 log-probabilities."""
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
    rows = range(len(reader.examples))
    sides = [[side(row) for row in rows] for side in (reader.examples.source, reader.examples.target)]
    expected = forced_scores(model, SourceCollator(settings.model_inputs), *sides, list(rows))
    assert found.sentence_nats == pytest.approx([-score for score in expected.tolist()], abs=1e-3)
    assert found.sentence_tokens == [len(target) + 1 for target in sides[1]]
    assert sum(found.sentence_nats) / found.tokens == pytest.approx(np.log(found.perplexity), abs=1e-4)


def _settings_of(model):
    reads = model.model_inputs
    return TranslateExamples(
        model=model,
        trained=model.trained_part,
        reads=reads,
        decoding=DECODING,
        target_tokenizer=Tokenizer.for_language("de"),
    )


def test_the_stage_writes_every_pair_in_order(model, reader, settings, words, weights, tiny_data, tmp_path):
    outputs = {name: tmp_path / name for name in ("translations", "tokens", "text")}
    stage_settings = _settings_of(settings)
    inputs = {name: getattr(tiny_data, name) for name in ("source_vocabulary", "target_vocabulary")}
    paths = {**inputs, **outputs, "phrases": []}
    translate_examples(settings=stage_settings, cores=1, weights=weights, examples=tiny_data.dev, **paths)
    lines = [json.loads(line) for line in read_lines(outputs["translations"])]
    assert [line["row"] for line in lines] == list(range(len(reader.examples)))
    expected = translate_split(model, reader, DECODING)
    for line, hypotheses in zip(lines, expected, strict=True):
        assert [entry["subwords"].split() for entry in line["n_best"]] == [words.tokens(h.tokens) for h in hypotheses]
        assert (line["subwords"], line["score"]) == (line["n_best"][0]["subwords"], line["n_best"][0]["score"])
    assert len(list(read_lines(outputs["text"]))) == len(list(read_lines(outputs["tokens"]))) == len(lines)


HEADER = "row\tsource\tright\twrong\tdistance\tkind"


@pytest.fixture
def contrast_files(tmp_path):
    """Codes, counts and vocabularies of a few sentences, and the weights of a model for them."""
    text = {
        "source": ["the dog sleeps .", "the dogs sleep ."] * 5,
        "target": ["der Hund schläft .", "die Hunde schlafen ."] * 5,
    }
    for side, lines in text.items():
        write_lines(tmp_path / side, lines)
    names = ("codes", "source_counts", "target_counts")
    learn_subwords(
        settings=LearnSubwords(merges=20),
        cores=1,
        source=tmp_path / "source",
        target=tmp_path / "target",
        **{name: tmp_path / name for name in names},
    )
    vocabularies = {name: tmp_path / name for name in ("source_vocabulary", "target_vocabulary")}
    build_vocabulary(
        settings=BuildVocabulary(shared=False),
        cores=1,
        source=tmp_path / "source",
        target=tmp_path / "target",
        **vocabularies,
    )
    return {**{name: tmp_path / name for name in names}, **vocabularies}


def contrasts_of(contrast_files, tmp_path, lines, *, whole_words=False):
    source_words, target_words = (
        Vocabulary.read(contrast_files[f"{side}_vocabulary"]) for side in ("source", "target")
    )
    settings = TransformerModel(**SIZE)
    torch.manual_seed(2)
    model = build_model(settings, source_vocabulary=len(source_words), target_vocabulary=len(target_words)).eval()
    weights = tmp_path / "contrast-weights"
    save_tensors(weights, weights_of(model), describe_weights(settings, Vocabularies(source_words, target_words)))
    write_lines(tmp_path / "contrasts", lines)
    files = {name: path if "vocabulary" in name else [path] for name, path in contrast_files.items()}
    if whole_words:
        files |= {"codes": [], "source_counts": [], "target_counts": []}
    score_contrasts(
        settings=ScoreContrasts(
            dataset="demo",
            contrast_set="test",
            system="base",
            seed=1,
            **of_model(settings),
            source_tokenizer=Tokenizer.for_language("en"),
            target_tokenizer=Tokenizer.for_language("de"),
            vocabulary_threshold=0,
        ),
        cores=1,
        weights=weights,
        contrasts=tmp_path / "contrasts",
        **files,
        phrases=[],
        accuracy=tmp_path / "accuracy",
    )
    return json.loads((tmp_path / "accuracy").read_text())


@pytest.mark.parametrize("whole_words", [False, True])
def test_exactly_one_side_of_a_contrast_wins(contrast_files, tmp_path, whole_words):
    right, wrong = "der Hund schläft .", "der Hund schlafen ."
    lines = [
        HEADER,
        f"0\tthe dog sleeps .\t{right}\t{wrong}\t1\tnumber",
        f"1\tthe dog sleeps .\t{wrong}\t{right}\t12\tnumber",
        f"2\tthe dog sleeps .\t{right}\t{right}\t40\tnumber",
        f"2\tthe dog sleeps .\t{right}\t{right}\t\tword",
    ]
    result = contrasts_of(contrast_files, tmp_path, lines, whole_words=whole_words)
    number, word = result["kinds"]
    by_low = {group["low"]: group for group in number["by_distance"]}
    assert list(by_low) == [1, 11, 16]
    assert by_low[1]["right"] + by_low[11]["right"] == 1  # the same pair, once each way round
    assert by_low[16] == {"pairs": 1, "right": 0, "low": 16}  # a tie is not a preference
    assert (number["kind"], number["pairs"], number["right"]) == ("number", 3, 1)
    assert word == {"pairs": 1, "right": 0, "kind": "word", "by_distance": []}
