"""Claims of papers beside what a study measures: each analysis on a case worked by hand, directions by intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import made_table
import numpy as np
import pytest
import torch
from made_table import accuracy, block, cell

import phrasemt.scoring.gains as gains
from phrasemt.artefacts.scores import MetricScore, Scores, mean_signature
from phrasemt.artefacts.table import Cell
from phrasemt.artefacts.training import Evaluation, TrainingRecord
from phrasemt.artefacts.translations import AttentionAnalysis, ContrastAccuracy, LayerAttention
from phrasemt.files.attention import PLACES
from phrasemt.models.phrase_representation import TransparentAttention
from phrasemt.printed.results import AnalysisName, Interval, load_papers
from phrasemt.report.claims import (
    ANALYSES,
    Measured,
    OurFigure,
    beside_figures,
    claim_rows,
    claims_section,
    our_figures,
    share_or_difference,
)
from phrasemt.report.sections.this_run import RelativeCost, SystemCost
from phrasemt.report.sections.trainings import TrainingCurve
from phrasemt.scoring.gains import Gains, PairedTest, decided_pairs
from phrasemt.scoring.ratings import SystemRating
from phrasemt.scoring.significance import undecided
from phrasemt.study.architectures import PhraseRepresentationModel
from phrasemt.study.compared import AnalysedFigure, StudiedTest, analysed_figures, studied_claims
from phrasemt.study.schema import Study

SYSTEMS = {"base": "transformer", "pr": "phrase_representation"}
TEXT = [{"corpus": "multi30k", "part": "train"}]


def study_of(places: Mapping[str, list[str]], controls: Sequence[str] = ()) -> Study:
    dataset = {"source_language": "en", "target_language": "de"}
    splits = {"train": TEXT, "dev": TEXT, "test": {"news": TEXT}}
    systems = {
        name: {"model": {"family": family}, "stands_for": places.get(name, [])} for name, family in SYSTEMS.items()
    }
    systems["pr"]["controls"] = controls
    return Study.model_validate(
        {"study": "claims", "datasets": {"wmt": {**dataset, "splits": splits}}, "systems": systems}
    )


TEST = PairedTest(samples=99, seed=3)
SCORES = {"base": {"bleu_tok": cell(27.0)}, "pr": {"bleu_tok": cell(28.0)}}


def artefacts(*, seeds: int = 1, table: Mapping[str, Mapping[str, Cell]] = SCORES, **others: Any) -> Measured:
    empty: dict[str, Any] = {"trainings": [], "gains": [], "attention": [], "contrasts": []}
    titles = {name: name for name in SYSTEMS}
    made = made_table.table(titles, {"pr": "base"}, block(table), seeds=range(1, seeds + 1))
    return Measured(table=made, **{**empty, **others})


def measurement(analysis: AnalysisName, *, than: bool = True, **others: Any) -> StudiedTest:
    return StudiedTest.model_validate(
        {
            "analysis": analysis,
            "paper": "xu2020",
            "row": "table-1/base-pr",
            "system": "pr",
            "expected": {"low": 0},
            **({"than": "table-1/base", "than_system": "base"} if than else {}),
            **others,
        }
    )


def found(one: StudiedTest, measured: Measured) -> OurFigure:
    (finding,) = our_figures(one, measured)
    return finding


BLEU = {"measure": "bleu", "counterpart": {"kind": "scores", "column": "bleu_tok"}}


@pytest.mark.parametrize(
    ("low", "high", "trainings", "direction"),
    [
        (0.2, 1.1, 3, "agrees"),
        (-1.1, -0.2, 3, "against"),
        (-0.1, 1.1, 3, "not decided"),
        (0.2, 1.1, 1, "agrees (one training)"),
        (None, None, 3, "not decided"),
        (0.2, 1.1, None, "agrees"),
        (0.0, 0.0, 3, "not decided"),
    ],
)
def test_the_interval_decides(low: float | None, high: float | None, trainings: int | None, direction: str) -> None:
    finding = OurFigure(on="", value=0.5, low=low, high=high, trainings=trainings)
    assert finding.direction(Interval(low=0)) == direction
    few = finding._replace(too_few=undecided(1))
    assert few.direction(Interval(low=0)) == "not decided (1 sentence)"


def test_a_difference_of_scores_has_the_interval_of_its_comparison() -> None:
    rows = {"base": SCORES["base"], "pr": {**SCORES["pr"], "bleu_tok_difference": cell(1.0, low=0.4, high=1.6)}}
    finding = found(measurement("table", **BLEU), artefacts(table=rows))
    assert (finding.value, finding.low, finding.high, finding.trainings) == (1.0, 0.4, 1.6, 1)


def test_scores_that_nobody_compared_decide_nothing_without_sentences() -> None:
    finding = found(measurement("table", **BLEU), artefacts())
    assert (finding.value, finding.direction(Interval(low=0))) == (1.0, "not decided (one training)")


def test_two_systems_that_the_table_does_not_compare_have_the_paired_test() -> None:
    tested = SCORED.of("base", "pr", joint=[gains.ALL]).joint[0].comparison
    finding = found(measurement("table", **BLEU), artefacts(gains=[SCORED], seeds=2))
    assert (finding.value, finding.low, finding.high) == (tested.shown.value, tested.shown.low, tested.shown.high)
    assert tested.over_seeds
    assert finding.detectable == tested.over_seeds.detectable


@pytest.mark.parametrize(("low", "high", "direction"), [(-1, 2, "agrees"), (0.2, 1, "against"), (-2, -1, "agrees")])
def test_a_claim_that_nothing_differs_agrees_without_a_significant_difference(
    low: float, high: float, direction: str
) -> None:
    assert OurFigure("", 0.5, low, high, 3).direction(Interval(high=0), equal=True) == direction


def test_differences_of_shares_are_those_of_newcombe() -> None:
    """Newcombe (1998), Table II, method 10: 56 of 70 and 48 of 80."""
    difference = share_or_difference(56 / 70, 70, (48 / 80, 80))
    assert difference == pytest.approx((20.0, 5.24, 33.39), abs=0.005)


def contrasts(system: str, shares: tuple[float, float, float]) -> ContrastAccuracy:
    """Pairs at 1 word, at 11 and at 16; and a kind of mistake that no claim is about."""
    groups = zip((1, 11, 16), (400, 300, 100), shares, strict=True)
    rows = [
        (place < round(count * share), at, "subj_verb_agreement")
        for at, count, share in groups
        for place in range(count)
    ]
    rows += [(False, None, "polarity")] * 999
    return accuracy(system, *zip(*rows, strict=True), dataset="wmt", contrast_set="lingeval97")


def test_accuracy_over_more_than_ten_words_joins_groups() -> None:
    files = decided_pairs([contrasts("base", (0.9, 0.8, 0.6)), contrasts("pr", (0.9, 0.9, 0.7))], TEST)
    one = measurement("contrasts", mistake="subj_verb_agreement", words={"low": 11})
    finding = found(one, artefacts(contrasts=files))
    assert finding.value == pytest.approx(100 * (340 - 300) / 400)
    assert finding.on == "wmt, lingeval97 (400 pairs)"
    assert finding.direction(Interval(low=0)) == "agrees (one training)"
    alone = measurement("contrasts", than=False, mistake="subj_verb_agreement", expected={"low": 50})
    share = found(alone, artefacts(contrasts=files))
    assert (share.value, share.chance) == (pytest.approx(100 * (360 + 270 + 70) / 800), 50)


HIGHER = mean_signature("invented", "higher", "by hand")
WORDS = np.array([4] * 10 + [8] * 10 + [16] * 10 + [64] * 10)


def on_lengths(scores: tuple[float, ...], metric: str = "bleu_tok") -> Scores:
    """Ten sentences of 4, 8, 16 and 64 words with the same score each."""
    rows: list[list[int | float]] = [[score, 1] for score in scores for _ in range(10)]
    metrics = {metric: MetricScore(score=0, signature=HIGHER)}
    return Scores(sentences=40, references={}, metrics=metrics, statistics={metric: rows})


SCORED = Gains(
    name="wmt, news",
    metric="bleu_tok",
    words=WORDS,
    of_systems={
        "base": [on_lengths((30.0, 29.0, 28.0, 27.0))],
        "pr": [on_lengths((30.0, 30.0, 30.0, 30.0)), on_lengths((30.0, 30.5, 30.0, 30.5))],
    },
    test=TEST,
)
LENGTHS = [SCORED, replace(SCORED, name="short", of_systems={"pr": SCORED.of_systems["pr"]})]


@pytest.mark.parametrize(
    ("words", "gain", "sentences"),
    [({"high": 7}, 0.0, 10), ({"low": 5, "high": 8}, 1.25, 10), ({"low": 11}, 2.625, 20), ({"low": 16}, 2.625, 20)],
)
def test_the_gain_of_any_range_of_lengths_is_that_of_the_paired_test(
    words: dict[str, int], gain: float, sentences: int
) -> None:
    finding = found(measurement("lengths", words=words), artefacts(gains=LENGTHS))
    assert finding.value == pytest.approx(gain)
    assert finding.on == f"wmt, news ({sentences} sentences)"
    assert finding.direction(Interval(low=0)) == f"not decided ({sentences} sentences)"
    assert finding.low <= gain <= finding.high


def test_long_sentences_gain_more_by_the_slope_of_the_gain() -> None:
    """The quarters gain 0, 1.25, 2 and 3.25: at 2, 3, 4 and 6 doublings; by least squares 55/70 a doubling."""
    finding = found(measurement("length growth"), artefacts(gains=LENGTHS))
    assert (finding.on, finding.value) == ("wmt, news, BLEU", pytest.approx(55 / 70))


def test_a_range_without_sentences_is_not_made_up() -> None:
    assert our_figures(measurement("lengths", words={"low": 17, "high": 63}), artefacts(gains=LENGTHS)) == []


def attention(system: str, seed: int, masses: Mapping[int, float], **others: Any) -> AttentionAnalysis:
    """masses: the share of bigrams by layer."""
    attentions = [
        LayerAttention(
            place=place,
            layer=layer,
            mass=[1 - mass, mass],
            heads=[[1 - mass, mass]],
            entropy=1,
            keys=9,
            even=[0.52, 0.48],
        )
        for layer, mass in masses.items()
        for place in ("enc_self", "cross")
    ]
    given = {"sentences": 9, "tokens": 99, "perplexity": 5.0, "diagnostics": {}, "attentions": attentions}
    given |= {"sentence_nats": [], "sentence_tokens": []}
    return AttentionAnalysis(dataset="wmt", test_set="news", system=system, seed=seed, **{**given, **others})


def test_phrase_mass_by_layer() -> None:
    """Figures 2 and 3 of Nguyen et al. show layers 3 and 6 of six."""
    files = [attention("pr", 1, dict(zip(range(1, 7), (0.5, 0.6, 0.7, 0.6, 0.5, 0.4), strict=True)))]
    of_layers = {
        layer: found(measurement("phrase mass", than=False, layer=layer), artefacts(attention=files)).value
        for layer in ("middle", "top", None)
    }
    assert of_layers == pytest.approx({"middle": 70.0, "top": 40.0, None: 55.0})
    assert found(measurement("phrase mass", than=False), artefacts(attention=files)).chance == pytest.approx(48)


def test_figures_of_several_trainings_have_their_range() -> None:
    files = [attention("pr", seed, {1: mass}) for seed, mass in ((1, 0.48), (2, 0.54))]
    finding = found(measurement("phrase mass", than=False), artefacts(attention=files))
    assert (finding.value, finding.low, finding.high, finding.trainings) == pytest.approx((51.0, 48.0, 54.0, 2))
    assert finding.direction(Interval(low=50, high=60)) == "not decided"


def test_entropy_is_a_share_of_the_largest_one() -> None:
    """Uniform attention to 4 phrases (share 1) beside attention to 16 tokens as if they were 4 (share 1/2)."""
    attentions = [
        LayerAttention(place=place, layer=1, mass=[1.0], heads=[[1.0]], entropy=math.log(4), keys=keys)
        for place, keys in (("dec_phrases", 4.0), ("cross", 16.0))
    ]
    files = [attention("pr", 1, {}, attentions=attentions)]
    one = measurement("entropy", than=False, places=["dec_phrases"], than_places=["cross"])
    assert found(one, artefacts(attention=files)).value == pytest.approx(0.5)


def test_level_weights_are_apart_by_their_total_variation() -> None:
    """Of two layers that each choose another level, each is half a unit from their mean; equal layers are not apart.

    Of models as torch makes them, 1 % are beyond those of their size; of 1,000 draws 1 to 28 (six deviations).
    """

    def beyond(weights: list[list[float]]) -> float:
        files = [attention("pr", 1, {}, mixtures={"phrases": weights})]
        return found(measurement("level weights", than=False), artefacts(attention=files)).value

    assert beyond([[1.0, 0.0], [0.0, 1.0]]) - beyond([[0.3, 0.3], [0.7, 0.7]]) == pytest.approx(0.5)
    torch.manual_seed(2)
    for layers in (2, 6):
        settings = PhraseRepresentationModel(encoder_layers=layers, decoder_layers=layers)
        untrained = (TransparentAttention(settings).mixture_IJ().tolist() for _ in range(1000))
        assert 1 <= sum(beyond(weights) > 0 for weights in untrained) <= 28


def training(system: str, parameters: int, perplexities: tuple[float, ...]) -> TrainingCurve:
    evaluations = [Evaluation(update=n, dev_perplexity=one) for n, one in enumerate(perplexities, 1)]
    record = TrainingRecord.model_construct(parameters=parameters)
    return TrainingCurve(
        dataset="wmt",
        system=system,
        seed=1,
        losses={},
        evaluations=evaluations,
        record=record,
        tokens_per_second=None,
        seconds_of_updates=None,
        evaluation_share=None,
    )


def test_parameters_and_overfitting_come_from_records() -> None:
    measured = artefacts(trainings=[training("base", 200, (9.0, 5.0, 6.0)), training("pr", 110, (8.0, 4.0, 6.0))])
    ratio = found(measurement("parameters", expected={"low": 0.45, "high": 0.55}), measured)
    assert (ratio.value, ratio.direction(Interval(low=0.45, high=0.55))) == (0.55, "agrees")
    assert found(measurement("overfitting"), measured).value == pytest.approx(6 / 4 - 6 / 5)


@pytest.mark.parametrize(("ratio", "direction"), [(1.3, "agrees"), (1.05, "not decided"), (0.8, "against")])
def test_times_within_a_tenth_decide_nothing(ratio: float, direction: str) -> None:
    costs = []
    for name, value in (("base", 1.0), ("pr", ratio)):
        times: dict[str, Any] = {"training": value, "token": None, "decoding": None}
        cost = SystemCost(dataset="wmt", system=name, parameters=1, hosts=frozenset(), devices=frozenset(), **times)
        costs.append(RelativeCost(name, cost, {"training": value}, together=True))
    finding = found(measurement("training time"), artefacts(costs=costs, seeds=2))
    assert finding.direction(Interval(low=1)) == direction


def test_over_translation_comes_from_sheets() -> None:
    ratings = {
        name: SystemRating(name, 100, {"over_translation": share}) for name, share in (("base", 0.5), ("pr", 0.2))
    }
    about = {"measure": "over", "question": "over_translation", "expected": {"high": 0}}
    finding = found(measurement("ratings", **about), artefacts(ratings=ratings))
    assert (finding.value, finding.direction(Interval(high=0))) == (pytest.approx(-30), "agrees (one training)")


def test_every_analysis_exists_and_every_place_of_attention() -> None:
    assert set(ANALYSES) == set(get_args(AnalysisName))
    for paper in load_papers().values():
        for claim in paper.claims.values():
            for one in claim.measured:
                assert {*one.places, *one.than_places} <= set(PLACES)


def test_a_control_stands_below_the_system_of_a_claim() -> None:
    study = study_of({"base": ["xu2020/table-2/base"], "pr": ["xu2020/table-2/max-attn-ta"]}, controls=["no-phrases"])
    of_systems = {**SCORED.of_systems, "pr-no-phrases": SCORED.of_systems["pr"]}
    found = claim_rows(studied_claims(study), artefacts(gains=[replace(SCORED, of_systems=of_systems)]))
    rows = [row for row in found if row.claim.name == "long-sentences-gain-more"]
    assert [row.measured.split(": ")[1].split(" minus")[0] for row in rows] == ["pr", "its control pr-no-phrases"]
    assert {row.direction.split(" (")[0] for row in rows} == {"agrees"}


def test_a_row_says_what_the_study_lacks() -> None:
    study = study_of({"base": ["xu2020/table-2/base"], "pr": ["xu2020/table-2/max-attn-ta"]})
    rows = {row.claim.name: row for row in claim_rows(studied_claims(study), artefacts(gains=LENGTHS))}
    assert rows["long-sentences-gain-more"].on == "wmt, news, BLEU"
    assert rows["half-the-parameters"].direction == ("not measured: no system stands for xu2020/table-2/big")
    assert rows["verbs-must-agree"].direction == "not measured: contrast_sets with such pairs, or a generator"
    assert set(rows) == set(load_papers()["xu2020"].claims)


def test_the_four_values_of_figure_3_stand_beside_ours() -> None:
    study = study_of({"base": ["xu2020/figure-3/base"], "pr": ["xu2020/figure-3/base-pr", "xu2020/figure-3/big"]})
    figures: list[AnalysedFigure] = list(analysed_figures(study))
    beside = list(beside_figures(figures, artefacts(gains=LENGTHS)))
    assert [(printed.printed, f"{ours.value:.1f}") for printed, ours in beside] == [
        ("+0.93", "0.6"), ("+1.72", "3.2"), ("+1.14", "0.6"), ("+1.20", "3.2"),
    ]  # fmt: skip
    verdicts = {ours._replace(too_few="").verdict(printed) for printed, ours in beside}
    assert verdicts == {"other data: no direction (one training)"}  # trainings that differ make the interval wide
    assert {ours.verdict(printed) for printed, ours in beside} == {undecided(10), undecided(20)}
    on_data = [figure.model_copy(update={"same_data": True}) for figure in figures]
    alone = replace(SCORED, of_systems={name: scores[:1] for name, scores in SCORED.of_systems.items()})
    beside = list(beside_figures(figures, artefacts(gains=[alone])))
    assert beside[1][1]._replace(too_few="").verdict(figures[1]) == "other data: same direction (one training)"
    for scored, verdict in ((SCORED, "in"), (alone, "outside of")):
        beside = list(beside_figures(on_data, artefacts(gains=[scored])))
        assert {ours._replace(too_few="").verdict(printed) for printed, ours in beside} == {
            f"the printed figure lies {verdict} our interval (one training)"
        }


def test_the_section_of_the_report_shows_claims_and_printed_figures() -> None:
    study = study_of({"base": ["xu2020/table-2/base", "xu2020/figure-3/base"], "pr": ["xu2020/figure-3/base-pr"]})
    section = claims_section(list(studied_claims(study)), list(analysed_figures(study)), artefacts(gains=LENGTHS))
    assert "a speculation" in section.content
    assert "no system stands for xu2020/table-2/max-attn-ta" in section.content
    assert "+1.72" in section.content
    assert claims_section([], [], artefacts()) is None
