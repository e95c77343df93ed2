"""Dev chooses the length penalty: scores against sacreBLEU, the choice, the search that follows it, and its block."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu
import torch
from pydantic import ValidationError

from phrasemt.artefacts.sidecar import Origin, produce
from phrasemt.artefacts.translations import LengthPenaltyScores
from phrasemt.artefacts.vocabulary import Vocabularies, Vocabulary
from phrasemt.decoding.translate import translate_examples
from phrasemt.decoding.tune_length_penalty import tune_length_penalty
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, save_tensors, weights_of
from phrasemt.report.blocks.length_penalties import length_penalty_blocks
from phrasemt.scoring.length_penalties import chosen_decoding
from phrasemt.stages.decoding import TranslateExamples, TuneLengthPenalty
from phrasemt.stages.report import MakeTable
from phrasemt.study.schema import Decoding, Study
from phrasemt.symbols import EOS
from phrasemt.workflow.flow import Flow

TEXTS = [{"corpus": "multi30k", "part": "train"}]
SIZE = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn_width": 32, "softmax_bias": True}
STUDY = Study.model_validate(
    {
        "study": "tuned",
        "datasets": {
            "a": {
                "source_language": "en",
                "target_language": "de",
                "splits": {"train": TEXTS, "dev": TEXTS, "test": {"t": TEXTS}},
            }
        },
        "systems": {
            "base": {"model": {"family": "transformer", **SIZE}, "decoding": {"beam": 3, "length_penalty": 0.0}},
            "tuned": {"weights_of": ["base"], "decoding": {"length_penalties": [0.6, 1.5, 4.0]}},
        },
    }
)
NAMES = {"dataset": "a", "source": "en", "target": "de", "system": "tuned", "seed": "1", "split": "dev"}


def _translated(tiny_data, weights: Path, folder: Path, decoding: Decoding, penalties: list[Path]) -> list[str]:
    outputs = {name: folder / name for name in ("translations", "tokens", "text")}
    settings = TranslateExamples.from_study(STUDY, NAMES).model_copy(update={"decoding": decoding})
    translate_examples(
        settings=settings,
        cores=1,
        weights=[weights],
        examples=tiny_data.dev,
        source_vocabulary=tiny_data.source_vocabulary,
        target_vocabulary=tiny_data.target_vocabulary,
        phrases=[],
        length_penalties=penalties,
        **outputs,
    )
    return list(read_lines(outputs["tokens"]))


def test_dev_chooses_and_the_search_follows(tiny_data, tmp_path: Path) -> None:
    model = STUDY.models["tuned"].model
    words = Vocabulary.read(tiny_data.source_vocabulary)
    torch.manual_seed(4)
    built = build_model(model, source_vocabulary=len(words), target_vocabulary=len(words))
    with torch.no_grad():
        built.words.softmax_bias_V[EOS] += 1.5  # so that a search finds outputs of several lengths
    weights = tmp_path / "weights"
    save_tensors(weights, weights_of(built), describe_weights(model, Vocabularies(words, words)))
    # The references are what the search finds with 1.5, so that one has 100 BLEU and the others have less.
    references = _translated(tiny_data, weights, tmp_path, Decoding(beam=3, length_penalty=1.5), [])
    write_lines(tmp_path / "references", references)
    file = tmp_path / "scores.json"
    settings = TuneLengthPenalty.from_study(STUDY, NAMES)
    tune_length_penalty(
        settings=settings,
        cores=1,
        weights=[weights],
        dev=tiny_data.dev,
        dev_reference=tmp_path / "references",
        source_vocabulary=tiny_data.source_vocabulary,
        target_vocabulary=tiny_data.target_vocabulary,
        dev_phrases=[],
        scores=file,
    )
    found = LengthPenaltyScores.read(file)
    expected = {}
    for alpha in (0.0, 0.6, 1.5, 4.0):
        decoding = Decoding(beam=3, length_penalty=alpha)
        lines = _translated(tiny_data, weights, tmp_path, decoding, [])
        bleu = sacrebleu.corpus_bleu(lines, [references], tokenize="none", smooth_method="none", force=True)
        expected[alpha] = round(bleu.score, 4)
    assert {score.length_penalty: score.dev_bleu for score in found.scores} == expected
    assert found.chosen.length_penalty == 1.5
    assert expected[1.5] == 100 > max(expected[0.0], expected[0.6])
    best = Decoding(beam=3, length_penalty=found.chosen.length_penalty)
    assert chosen_decoding(settings.decoding, [file]) == best
    assert _translated(tiny_data, weights, tmp_path, settings.decoding, [file]) == _translated(
        tiny_data, weights, tmp_path, best, []
    )


def test_rules_ask_for_the_scores_of_tuned_rows_only() -> None:
    flow = Flow(STUDY)
    assert flow.every(flow.paths.length_penalty_scores, systems=flow.tuned) == [
        "results/tuned/a.en-de/length_penalties/tuned/1.json"
    ]


def test_the_table_shows_the_chosen_one_beside_the_fixed_one(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    scores = [{"length_penalty": 0.6, "dev_bleu": 30.0}, {"length_penalty": 1.0, "dev_bleu": 31.5}]
    content = {
        "format": 1,
        **{"dataset": "a", "system": "tuned", "seed": 1, "sentences": 9, "beam": 4, "dev_bleu_tokenizer": "13a"},
        "scores": scores,
        "chosen": scores[1],
    }
    settings = TuneLengthPenalty.from_study(STUDY, NAMES)
    with produce(
        Origin.of("tune_length_penalty", inputs={}, settings=settings, code="0" * 16), {"scores": path}
    ) as made:
        made.paths["scores"].write_text(json.dumps(content))
    (block,) = length_penalty_blocks(MakeTable.from_study(STUDY, {}), [path])
    (row,) = block.rows
    assert [row.printed(column) for column in block.columns] == ["1", "31.50", "0.6", "30.00"]
    assert block.heading == "a, dev, length penalty (9 sentences)"
    assert row.cells["dev_bleu"].signature == "BLEU|case:mixed|tok:none|smooth:none|beam:4|sentences:9"
    assert row.cells["dev_bleu"].sources[0].sha256 == digest_file(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length_penalties": [0.6, 1.0]}, "contain a value twice"),
        ({"length_penalties": []}, "at least 1 item"),
        ({"length_penalties": [1.0], "sampling": {}}, "length_penalties has no effect with sampling"),
        ({"length_penalties": [11]}, "at most 10"),
    ],
)
def test_grids_that_mean_nothing_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Decoding(**values)
