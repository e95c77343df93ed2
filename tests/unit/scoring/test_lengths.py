"""BLEU by length of the source against sacreBLEU on the sentences of each group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from phrasemt.artefacts.scores import LengthScores
from phrasemt.errors import MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.scoring.lengths import score_by_length
from phrasemt.stages.scoring import ScoreByLength

SOURCES = ["one", "one two three", "", "one two", "one two three four five six", "one two three four five six seven"]
REFERENCES = ["a", "a b c d e", "x", "a b c d", "a b c d e f g", "a b c d e f g h"]
HYPOTHESES = {
    1: ["a", "a b c d x", "", "a b c d", "a b c d e f", "b b c d e f h h"],
    2: ["b", "a b c d e", "y", "a b x c d", "a b d c e f g", "a b c d e f g"],
}


def metric() -> BLEU:
    return BLEU(tokenize="none", smooth_method="none", force=True)


def _scores(folder: Path, seed: int) -> Path:
    bleu = metric()
    score = bleu.corpus_score(HYPOTHESES[seed], [REFERENCES])
    values = {
        "counts": score.counts,
        "totals": score.totals,
        "precisions": score.precisions,
        "brevity_penalty": score.bp,
    }
    values |= {"score": score.score, "signature": "nrefs:1|smooth:none", "sys_len": score.sys_len}
    statistics = [
        (lambda one: [*one.counts, *one.totals, one.sys_len, one.ref_len])(metric().corpus_score([h], [[r]]))
        for h, r in zip(HYPOTHESES[seed], REFERENCES, strict=True)
    ]
    part = {
        "sentences": len(REFERENCES),
        "references": {"tokens": ["0"], "text": ["0"]},
        "metrics": {"bleu_tok": values | {"ref_len": score.ref_len}},
        "statistics": {"bleu_tok": statistics},
    }
    path = folder / f"{seed}.json"
    content = {"format": 3, "dataset": "d", "system": "s", "seed": seed, "test_sets": {"test": part}}
    path.write_text(json.dumps(content))
    return path


def _run(folder: Path, limits: list[int], seeds: list[int], sources: list[str] = SOURCES) -> LengthScores:
    tokens = folder / "tokens"
    write_lines(tokens, sources)
    settings = ScoreByLength(
        dataset="d", system="s", seeds=seeds, test_sets=["test"], limits=limits, samples=200, seed=12345
    )
    score_by_length(
        settings=settings,
        cores=1,
        scores=[_scores(folder, seed) for seed in seeds],
        source_tokens=[tokens],
        lengths=folder / "lengths.json",
    )
    return LengthScores.read(folder / "lengths.json")


@pytest.mark.parametrize("seeds", [[1], [1, 2]])
def test_groups_have_the_bleu_of_their_sentences(tmp_path: Path, seeds: list[int]) -> None:
    groups = _run(tmp_path, [2, 3, 6], seeds).test_sets["test"]["bleu_tok"].groups
    assert [group.name for group in groups] == ["≤2", "3-3", "4-6", ">6"]
    members = [[0, 2, 3], [1], [4], [5]]
    for group, rows in zip(groups, members, strict=True):
        assert group.sentences == len(rows)
        expected = [
            metric().corpus_score([HYPOTHESES[seed][row] for row in rows], [[REFERENCES[row] for row in rows]]).score
            for seed in seeds
        ]
        assert group.bleu is not None
        assert group.bleu.value == pytest.approx(sum(expected) / len(seeds), abs=1e-9)
        assert group.bleu.low <= group.bleu.mean + 1e-9
        assert group.bleu.mean <= group.bleu.high + 1e-9


def test_a_group_of_one_sentence_has_no_spread_and_an_empty_group_no_score(tmp_path: Path) -> None:
    groups = _run(tmp_path, [3, 5], [1]).test_sets["test"]["bleu_tok"].groups
    assert [(group.sentences, group.bleu is None) for group in groups] == [(4, False), (0, True), (2, False)]
    (one,) = [group for group in _run(tmp_path, [6], [1]).test_sets["test"]["bleu_tok"].groups if group.sentences == 1]
    assert one.bleu is not None
    assert one.bleu.low == one.bleu.value == one.bleu.high


def test_without_limits_the_only_group_is_the_test_set(tmp_path: Path) -> None:
    (group,) = _run(tmp_path, [], [1]).test_sets["test"]["bleu_tok"].groups
    assert group.sentences == len(SOURCES)
    assert group.bleu is not None
    expected = metric().corpus_score(HYPOTHESES[1], [REFERENCES]).score
    assert group.bleu.value == pytest.approx(expected, abs=1e-9)


def test_sources_of_another_test_set_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match=r"different numbers of sentences .expected 6, found 5"):
        _run(tmp_path, [3], [1], SOURCES[:-1])
