"""The stages that force references and contrastive pairs: against steps of a search and examples by hand."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stage_settings import of_model
from torch import nn

import phrasemt.decoding.forced_scores as chunks_stage
from phrasemt.artefacts.columns import Examples, Vocabularies, Vocabulary
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.batching.batch import Chunks
from phrasemt.batching.pack import pack_examples
from phrasemt.batching.reader import LONGEST_SENTENCE, BatchReader, SourceCollator
from phrasemt.decoding.attention import AttentionStatistics, analyse_attention, evenly
from phrasemt.decoding.contrasts import score_contrasts
from phrasemt.decoding.forced import forced_scores
from phrasemt.decoding.forced_scores import score_perplexity
from phrasemt.files.columns import ColumnFile, RaggedArray, write_columns
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.models.interface import ChunkingModel, ChunkLogProbs, build_model
from phrasemt.models.weights import describe_weights, load_model, save_tensors, weights_of
from phrasemt.nn.attention import Attention
from phrasemt.stages.decoding import AnalyseAttention, ScoreChunks, ScoreContrasts, ScorePerplexity
from phrasemt.stages.subwords import BuildVocabulary, LearnSubwords, PackExamples
from phrasemt.study.architectures import BiscaleModel, LanguageModel, PhraseRepresentationModel, TransformerModel
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import BOS, CHUNK_LABELS, EOS
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
def test_exactly_one_side_of_a_contrast_wins(tmp_path, whole_words, caplog):
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
        "row\tsource\tright\twrong\tdistance\tkind\tcluster",
        f"0\tthe dog sleeps .\t{right}\t{wrong}\t1\tnumber\tdog",
        f"1\tthe dog sleeps .\t{wrong}\t{right}\t12\tnumber\t",
        f"2\tthe dog sleeps .\t{right}\t{right}\t40\tnumber\tdog",
        f"2\tthe dog sleeps .\t{right}\t{right}\t\tword\t",
        f"2\tthe dog sleeps .\t{right}\t{wrong}\t\tword\t",
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
    accuracy = json.loads((tmp_path / "accuracy").read_text())
    assert accuracy["decisions"]["clusters"] == [0, 1, 0, 2, 2]  # a name, or one source and translation
    number, word = accuracy["kinds"]
    by_low = {group["low"]: group for group in number["by_distance"]}
    assert list(by_low) == [1, 11, 16]
    assert by_low[1]["right"] + by_low[11]["right"] == 1  # the same pair, once each way round
    assert by_low[16] == {"pairs": 1, "right": 0, "low": 16}  # a tie is not a preference
    assert (number["kind"], number["pairs"], number["right"]) == ("number", 3, 1)
    assert (word["kind"], word["pairs"], word["right"]) == ("word", 2, by_low[1]["right"])
    assert word["by_distance"] == []
    assert "2 of 5 pairs differ only in what the vocabulary does not have, and count as wrong" in caplog.text


MODEL = LanguageModel(family="language_model", layers=1, width=16, heads=2, ffn_width=20)


@pytest.fixture
def weights(tiny_data, tmp_path):
    words = Vocabulary.read(tiny_data.source_vocabulary)
    torch.manual_seed(4)
    model = build_model(MODEL, source_vocabulary=len(words), target_vocabulary=len(words))
    save_tensors(tmp_path / "weights", weights_of(model), describe_weights(MODEL, Vocabularies(words, words)))
    return tmp_path / "weights"


def scored(tiny_data, weights, folder, text, examples=None):
    score_perplexity(
        settings=ScorePerplexity(
            **of_model(MODEL), dataset="d", system="lm", seed=1, test_sets=["dev"], words_are_cut=True
        ),
        cores=1,
        weights=weights,
        examples=[examples or tiny_data.dev],
        text=[text],
        source_vocabulary=tiny_data.source_vocabulary,
        target_vocabulary=tiny_data.target_vocabulary,
        perplexity=folder / "perplexity.json",
    )
    return json.loads((folder / "perplexity.json").read_text())["test_sets"]["dev"]


def nll_by_steps(tiny_data, weights):
    words = Vocabulary.read(tiny_data.source_vocabulary)
    model = load_model(weights, MODEL, Vocabularies(words, words))
    examples = Examples.open(tiny_data.dev)
    reader, nll = BatchReader(examples, MODEL.model_inputs), 0.0
    for row in range(len(examples)):
        memory = model.encode(reader.source([row]))
        state, last = model.start(memory, 1), BOS
        for token in [*examples.target(row).tolist(), EOS]:
            log_probs_BKV, state = model.step(memory, state, torch.tensor([[last]]))
            nll -= float(log_probs_BKV[0, 0, token])
            last = token
    return nll


@torch.inference_mode()
def test_both_perplexities_equal_those_of_single_steps(tiny_data, weights, tmp_path):
    """float32 sums in another order differ by a few times 1e-7 of a value."""
    lines = list(read_lines(tiny_data.dev_reference))
    tokens = sum(len(line.split()) + 1 for line in lines)
    write_lines(tmp_path / "words", [line.replace(" ", "@@ ") for line in lines])  # as if a sentence were one word
    words = len(lines)
    nll = nll_by_steps(tiny_data, weights)
    result = scored(tiny_data, weights, tmp_path, tmp_path / "words")
    assert (result["sentences"], result["tokens"], result["words"]) == (len(lines), tokens, words)
    assert result["nll"] == pytest.approx(nll, rel=1e-5)
    assert result["per_token"] == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    assert result["per_word"] == pytest.approx(math.exp(nll / (words + len(lines))), rel=1e-5)


def test_words_that_the_model_does_not_read_do_not_count(tiny_data, weights, tmp_path):
    """Two sentences that begin alike, one of them longer than models read, have the same perplexity per word."""
    words = ("a@@ b c " * LONGEST_SENTENCE).split()
    ids = Vocabulary.read(tiny_data.source_vocabulary).ids(["<unk>"])[0]
    results = []
    for length in (LONGEST_SENTENCE, LONGEST_SENTENCE + 300):
        folder = tmp_path / str(length)
        folder.mkdir()
        write_lines(folder / "text", [" ".join(words[:length])])
        description = ColumnFile(tiny_data.dev, Examples.sides).description
        side = RaggedArray(np.array([length], np.int32), np.full(length, ids, np.int32))
        batch = np.array([0]), dict.fromkeys(Examples.sides, side)
        write_columns(folder / "examples", columns=Examples.sides, texts={}, description=description, batches=[batch])
        results.append(scored(tiny_data, weights, folder, folder / "text", folder / "examples"))
    assert results[0] == results[1]
    assert results[0]["words"] == sum(not word.endswith("@@") for word in words[:LONGEST_SENTENCE])


NP, VP, END, NULL, PP = (CHUNK_LABELS.index(label) for label in ("NP", "VP", "eos", "NULL", "PP"))
TARGETS = ["the do@@ g sleeps", "a cat"]
GOLD = {"starts": [[0, 3, 4], [0, 2]], "labels": [[NP, VP, END], [NP, END]]}
# The third position of the first sentence is within a word. Decisions there and after </s> must not count.
STARTS = [[True, True, True, False, True], [True, False, True, True, True]]
LABELS = [[NP, NP, PP, VP, END], [VP, NULL, END, PP, PP]]


class FixedDecisions(ChunkingModel):
    """A model with fixed decisions. shown: the chunks of the last batch that it was given."""

    for name in ("encode", "decode", "start", "step"):
        vars()[name] = None
    device = torch.device("cpu")

    def chunk_log_probs(self, batch):
        decided = [list(batch.rows).index(row) for row in range(2)]
        self.shown = batch.target.chunks
        boundary_BT2 = F.one_hot(torch.tensor(STARTS)[decided].long(), 2)
        label_BTL = F.one_hot(torch.tensor(LABELS)[decided], len(CHUNK_LABELS))
        return ChunkLogProbs(boundary_BT2=boundary_BT2.float().log(), label_BTL=label_BTL.float().log())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    paths = {name: tmp_path / name for name in ("source", "target", "rows")}
    write_lines(paths["source"], ["x y", "x"])
    write_lines(paths["target"], TARGETS)
    write_lines(paths["rows"], ["0", "1"])
    vocabularies = {name: tmp_path / f"{name}.tsv" for name in ("source_vocabulary", "target_vocabulary")}
    sides = {side: paths[side] for side in ("source", "target")}
    build_vocabulary(settings=BuildVocabulary(shared=False), cores=1, **sides, **vocabularies)
    examples, chunks = tmp_path / "examples.arrow", tmp_path / "chunks.arrow"
    pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=examples)
    write_columns(
        chunks,
        columns=["starts", "labels"],
        texts={},
        description={"origin": "gold", "labels": CHUNK_LABELS},
        batches=[(np.arange(2), {name: RaggedArray.of(column) for name, column in GOLD.items()})],
    )
    return {"examples": [examples], "chunks": [chunks], **vocabularies}


def test_an_example_worked_out_by_hand(files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven positions count: the, do@@, sleeps, </s>; a, cat, </s>. Five of them start a chunk."""
    monkeypatch.setattr(chunks_stage, "load_model", lambda *_: FixedDecisions())
    chunks_stage.score_chunks(
        settings=ScoreChunks(
            **of_model(BiscaleModel(family="biscale")), dataset="d", system="s", seed=1, test_sets=["test", "again"]
        ),
        cores=1,
        weights=tmp_path,
        **files | {name: 2 * files[name] for name in ("examples", "chunks")},
        scores=tmp_path / "scores.json",
    )
    file = json.loads((tmp_path / "scores.json").read_text())
    assert [file[key] for key in ("format", "dataset", "system", "seed")] == [3, "d", "s", 1]
    assert file["test_sets"]["test"] == file["test_sets"].pop("again")  # each is counted by itself
    assert file["test_sets"].pop("test") == {
        "sentences": 2,
        "positions": 7,
        "chunks": 5,
        "boundary_acc": 5 / 7,  # wrong: do@@ starts a chunk, sleeps does not
        "boundary_precision": 4 / 5,  # the, (do@@), </s>, a, </s>
        "boundary_recall": 4 / 5,  # the, (sleeps), </s>, a, </s>
        "boundary_f1": 4 / 5,
        "label_acc_paper": 4 / 7,  # the, </s>, cat (NULL), </s>; sleeps has the right label but no boundary
        "label_acc": 4 / 5,  # the, sleeps, </s>, </s>; "a" is not a VP
        "majority": {
            "boundary_acc": 5 / 7,
            "boundary_precision": 5 / 7,
            "boundary_recall": 1.0,
            "boundary_f1": 10 / 12,
            "label_acc_paper": 2 / 7,  # two of the five are NP
            "label_acc": 2 / 5,
        },
    }
    assert file["test_sets"] == {}


def test_no_decided_start_gives_zero_and_no_division_by_zero() -> None:
    gold = Chunks(starts_BT=torch.tensor([[True, True]]), labels_BT=torch.tensor([[NP, END]]))
    counts = chunks_stage.ChunkCounts()
    decided = dataclasses.replace(gold, starts_BT=torch.tensor([[False, False]]))
    counts.add(gold, decided, torch.tensor([[True, True]]))
    found = counts.accuracy(1)
    assert (found.boundary_precision, found.boundary_f1, found.label_acc) == (0.0, 0.0, 1.0)


def test_means_over_real_queries() -> None:
    """Two heads, tokens and bigrams over two keys; the second query of the second sentence is padding.

    Head 1 divides its weight equally over all four keys, head 2 gives all of it to one bigram.
    """
    equal, decided = torch.full((2, 2), 0.25), torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    weights_BhQNK = torch.stack([equal, decided]).unsqueeze(1).expand(2, 2, 2, 2, 2).clone()
    weights_BhQNK[1, :, 1] = 9.0
    statistics = AttentionStatistics(Attention(place="cross", layer=3, module=nn.Identity()))
    statistics.add(weights_BhQNK[:1], torch.tensor([[True, True]]))
    statistics.add(weights_BhQNK[1:], torch.tensor([[True, False]]))
    found = statistics.means()
    assert (found.place, found.layer) == ("cross", 3)
    assert found.heads == [[0.5, 0.5], [0.0, 1.0]]
    assert found.mass == [0.25, 0.75]
    assert found.entropy == pytest.approx(math.log(4) / 2)
    assert found.keys == 2.5
    assert found.even == pytest.approx([0.4, 0.6])  # of 1 token and 1.5 bigrams with a weight, mean over the heads


@pytest.mark.parametrize(("count", "wanted", "chosen"), [(10, 3, [0, 3, 6]), (2, 5, [0, 1]), (5, 0, [])])
def test_kept_sentences_are_spread_evenly(count: int, wanted: int, chosen: list[int]) -> None:
    assert evenly(count, wanted) == chosen
