"""The scorecard: verdicts by hand, and no printed figure is compared with one on other data."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest
from golden import GoldenStudy, study_of
from made_table import block, cell
from pydantic import ValidationError

from phrasemt.artefacts.scores import Power
from phrasemt.artefacts.table import Block, Scorecard, Table
from phrasemt.report.scores import make_scorecard
from phrasemt.scoring.significance import mark_of
from phrasemt.study.compared import ComparedFigure, compared_figures
from phrasemt.study.schema import Study

TRAIN = [{"corpus": name, "part": "de-en"} for name in ("europarl-v7", "commoncrawl", "news-commentary-v9")]
# A NIST set, whose four references the user has.
NIST = [{"source": "mt.zh", "target": "mt.1.en", "references": ["mt.2.en", "mt.3.en", "mt.4.en"]}]
TEST = [{"corpus": "wmt14-test-full", "part": "de-en"}]


def study(*, dataset: dict[str, Any] | None = None, **stands_for: list[str]) -> Study:
    """A study on the data of Xu et al., or on a data set that differs from them."""
    data = {
        "source_language": "en",
        "target_language": "de",
        "splits": {"train": TRAIN, "dev": TRAIN[:1], "test": {"news": TEST}},
        "stands_for": "xu2020/en-de",
        **(dataset or {}),
    }
    families = {"max": "phrase_representation"}
    systems = {
        name: {"model": {"family": families.get(name, "transformer")}, "stands_for": rows}
        for name, rows in stands_for.items()
    }
    return Study.model_validate({"study": "one", "datasets": {"wmt": data}, "systems": systems})


def scorecard(of: Study, *blocks: Block) -> Scorecard:
    return make_scorecard(list(compared_figures(of)), blocks, {name: name for name in of.systems})


@pytest.mark.parametrize(
    ("ours", "width", "verdict"),
    [
        (28.13, 0.7, "reproduced"),
        (27.83, None, "reproduced"),  # a gap of 0.30, the tolerance
        (28.43, 0.1, "reproduced"),
        (27.82, 0.7, "within noise"),  # 0.31 away, and 28.13 lies in 27.12 to 28.52
        (27.82, 0.30, "not reproduced"),  # the interval ends at 28.12
        (27.82, None, "not reproduced"),  # nothing is known of the noise
        (29.5, 0.7, "not reproduced"),
    ],
)
def test_verdicts_on_the_data_of_the_paper(ours: float, width: float | None, verdict: str) -> None:
    of = study(base=["xu2020/table-2/base"], max=["xu2020/table-2/max"])
    card = scorecard(of, block({"base": {"bleu_tok": cell(27.4)}, "max": {"bleu_tok": cell(ours, width=width)}}))
    entry = next(entry for entry in card.entries if entry.system == "max" and entry.heading == "BLEU")
    assert (entry.verdict, entry.printed_text, entry.dataset, entry.test_sets) == (verdict, "28.13", "wmt", ["news"])
    assert entry.gap == pytest.approx(ours - 28.13)


def test_a_printed_difference_is_compared_with_our_difference() -> None:
    of = study(base=["xu2020/table-2/base"], max=["xu2020/table-2/max"])
    cells = {"bleu_tok": cell(30.0), "bleu_tok_difference": cell(0.80, mark="†")}
    card = scorecard(of, block({"base": {"bleu_tok": cell(29.2)}, "max": cells}))
    (entry,) = (entry for entry in card.entries if entry.heading == "Δ")
    assert (entry.verdict, entry.printed_text, entry.gap) == ("reproduced", "+0.75", pytest.approx(0.05))


@pytest.mark.parametrize(
    ("difference", "p_value", "finding"),
    [
        (0.1, 0.5, "undecided (0.90 is detectable)"),
        (0.04, 0.9, "no larger than 0.65"),
        (2.0, 0.001, "same direction, significant"),
        (-2.0, 0.001, "opposite direction, significant"),
        (-0.06, 1.0, "undecided (0.90 is detectable)"),
        (2.0, None, "not tested"),
    ],
)
def test_on_other_data_only_differences_are_compared(difference: float, p_value: float | None, finding: str) -> None:
    of = study(dataset={"stands_for": None}, base=["xu2020/table-2/base"], max=["xu2020/table-2/max"])
    power = Power(deviation=0.3, freedom=4, seeds_needed=9, detectable=0.9)
    of_test = {"p_value": p_value, "power": power, "one_sided": (difference - 0.6, difference + 0.6)}
    tested = cell(difference, mark=mark_of(p_value)).model_copy(update=of_test)
    cells = {"bleu_tok": cell(28.13), "bleu_tok_difference": tested}
    card = scorecard(of, block({"base": {"bleu_tok": cell(27.38)}, "max": cells}))
    found = {entry.system: (entry.verdict, entry.finding, entry.gap) for entry in card.entries}
    assert found == {"base": ("other data", "baseline", None), "max": ("other data", finding, None)}
    assert card.entries[1].printed_difference == pytest.approx(0.75)


def test_without_the_baseline_of_the_table_there_is_no_direction() -> None:
    of = study(dataset={"stands_for": None}, base=["nguyen2020/table-1/base"], max=["xu2020/table-2/max"])
    cells = {"bleu_tok": cell(28.13), "bleu_tok_difference": cell(1.0)}
    card = scorecard(of, block({"base": {"bleu_tok": cell(27.38)}, "max": cells}))
    assert card.entries[1].finding == "the baseline stands for no row of this table"


def test_each_row_is_compared_with_the_baseline_of_its_own_paper() -> None:
    """Phrasal attention with the Transformer of its paper (+0.54), and not with that of Xu et al."""
    of = study(
        dataset={"stands_for": None},
        base=["xu2020/table-2/base"],
        max=["xu2020/table-2/max"],
        theirs=["nguyen2020/table-1/base"],
        phrasal=["nguyen2020/table-1/phrasal-2"],
    )
    assert {name: of.baseline_of(name) for name in of.systems} == {
        "base": "base",
        "max": "base",
        "theirs": "base",
        "phrasal": "theirs",
    }
    marked = cell(1.0, mark="†").model_copy(update={"p_value": 0.03})
    scores = {name: {"bleu_tok": cell(30), "bleu_tok_difference": marked} for name in of.systems}
    del scores["base"]["bleu_tok_difference"]
    found = {entry.system: entry for entry in scorecard(of, block(scores)).entries}
    assert found["theirs"].finding == "baseline"
    assert found["theirs"].difference is None
    assert found["phrasal"].finding == "same direction, significant"
    assert found["phrasal"].printed_difference == pytest.approx(27.70 - 27.16)
    assert found["max"].printed_difference == pytest.approx(0.75)
    named = Study.model_validate(of.model_dump(exclude_unset=True) | {"comparison": {"baseline": "max"}})
    assert {named.baseline_of(name) for name in named.systems} == {"max"}


def test_a_row_of_one_table_may_be_the_baseline_of_another() -> None:
    """The bi-scale decoder of Zhou et al. is compared with dl4mt in Table 1, and is itself the baseline of Table 2."""
    of = study(
        dataset={"stands_for": None, "source_language": "zh", "target_language": "en"},
        base=["nguyen2020/table-1/base"],
        dl4mt=["zhou2017/table-1/dl4mt"],
        biscale=["zhou2017/table-1/biscale", "zhou2017/table-2/chunk"],
    )
    marked = cell(1.0, mark="†").model_copy(update={"p_value": 0.03})
    scores = {"bleu_tok_uncased": cell(30), "bleu_tok_uncased_difference": marked}
    card = scorecard(of, block({"dl4mt": {"bleu_tok_uncased": cell(29)}, "biscale": scores}))
    findings = {entry.place: entry.finding for entry in card.entries if entry.system == "biscale"}
    assert findings == {"zhou2017/table-1/biscale": "same direction, significant", "zhou2017/table-2/chunk": "baseline"}


def test_averages_over_different_test_sets_are_not_subtracted() -> None:
    """The printed averages of Word and Chunk cover different sets, so the four sets stand for the row (C10)."""
    of = study(
        dataset={"stands_for": None, "source_language": "zh", "target_language": "en"},
        base=["zhou2017/table-2/chunk"],
        max=["zhou2017/table-2/word"],
    )
    card = scorecard(of)
    found = {entry.heading: entry.printed_difference for entry in card.entries if entry.system == "max"}
    assert found == pytest.approx({"MT02 (dev)": -0.74, "MT03": -0.70, "MT04": -0.66, "MT05": -0.24})
    assert [entry.heading for entry in card.entries if entry.system == "base"] == ["Ave."]


def test_what_the_study_lacks_is_not_run() -> None:
    tests = {"news": TEST, "MT03": NIST}
    of = study(
        dataset={
            "source_language": "zh",
            "target_language": "en",
            "stands_for": "zhou2017/zh-en",
            "splits": {"train": TRAIN, "dev": TRAIN, "test": tests},
        },
        base=["zhou2017/table-1/dl4mt"],
    )
    card = scorecard(of, block({"base": {"bleu_tok_uncased": cell(30.0)}}, test_set="MT03"))
    verdicts = {entry.heading: entry.verdict for entry in card.entries}
    assert verdicts["MT03"] == "reproduced"  # 29.92, a set that the registry lacks, by its name
    assert {verdicts[name] for name in ("MT02 (dev)", "MT04", "MT05", "Ave.")} == {"not run"}


def test_an_average_is_the_mean_over_its_test_sets_with_the_interval_of_the_mean() -> None:
    names = ["MT02", "MT03", "MT04", "MT05"]
    of = study(
        dataset={
            "source_language": "zh",
            "target_language": "en",
            "stands_for": "zhou2017/zh-en",
            "splits": {"train": TRAIN, "dev": TRAIN, "test": dict.fromkeys(names, NIST)},
        },
        base=["zhou2017/table-2/word"],
    )
    blocks = [
        block({"base": {"bleu_tok_uncased": cell(30.0 + number, width=0.5)}}, test_set=name)
        for number, name in enumerate(names)
    ]
    card = scorecard(of, *blocks)
    average = card.entries[-1]
    assert average.heading == "Ave."
    assert average.test_sets == ["MT03", "MT04", "MT05"]  # the printed average of this row leaves MT02 out
    assert average.ours.value == pytest.approx(32.0)
    assert average.ours.high == pytest.approx(32.0 + 0.5 / 3**0.5)
    notes = average.notes
    assert any("(C10)" in note for note in notes)


def test_figures_of_the_same_pair_of_languages_come_first() -> None:
    """Table 1 of Xu et al. has English-French, too, which nobody compares with English-German."""
    of = study(dataset={"stands_for": None}, base=["xu2020/table-1/base"])
    assert [(figure.column, figure.test_sets) for figure in compared_figures(of)] == [("en-de", ["news"])]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"target_language": "fr"}, "stands_for is 'xu2020/en-de', which is en-de, but the data set is en-fr"),
        (
            {"splits": {"train": TRAIN[:2], "dev": TRAIN, "test": {"news": TEST}}},
            "whose training texts are commoncrawl de-en, europarl-v7 de-en, news-commentary-v9 de-en",
        ),
        ({"splits": {"train": TRAIN, "dev": TRAIN, "test": {"news": TRAIN[:1]}}}, "no test set is one of newstest2014"),
        ({"stands_for": "xu2020/en-dee"}, "did you mean 'xu2020/en-de'"),
    ],
)
def test_data_that_are_not_those_of_the_paper_are_refused(dataset: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        study(dataset=dataset, base=[])


def test_an_unknown_row_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValidationError, match="did you mean 'xu2020/table-2/max'"):
        study(base=["xu2020/table-2/maks"])


def test_a_study_without_a_row_of_a_paper_has_no_scorecard() -> None:
    assert make_scorecard(list[ComparedFigure](compared_figures(study(base=[]))), [], {}) is None


def test_table_latex_csv_and_report_show_the_scorecard(study: GoldenStudy) -> None:
    raw = study_of(datasets=("demo",)).model_dump(mode="json", exclude_unset=True)
    for system, row in (("base", "base"), ("max", "max"), ("mean", "mean")):
        raw["systems"][system]["stands_for"] = [f"xu2020/table-2/{row}"]
    study = GoldenStudy(Study.model_validate(raw))
    study.make_table()
    table = Table.read(study.results / "table.json")
    markdown, latex = ((study.results / f"table.{suffix}").read_text() for suffix in ("md", "tex"))
    with (study.results / "table.csv").open(newline="") as stream:
        printed = [line for line in csv.DictReader(stream) if line["kind"] == "scorecard"]
    assert [entry.verdict for entry in table.scorecard.entries] == ["other data"] * 5
    scores = {row.system: row.cells for row in table.blocks[0].rows}
    for entry in table.scorecard.entries:
        shown = "bleu_tok_difference" if entry.is_difference else "bleu_tok"
        assert entry.ours == scores[entry.system][shown]
        assert entry.difference == scores[entry.system].get("bleu_tok_difference")
    for line, entry in zip(printed, table.scorecard.entries, strict=True):
        assert (line["place"], line["system"], float(line["printed"])) == (entry.place, entry.system, entry.printed)
        assert float(line["value"]) == entry.ours.value
        assert entry.printed_difference == pytest.approx({"base": None, "max": 0.75, "mean": 0.61}[entry.system])
    heading, _, *beside = markdown.split("## Beside the paper\n\n")[1].split("\n\n")[0].splitlines()
    assert [cell.strip() for cell in heading.split("|")[1:-1]] == [
        "System", "Δ reported", "Δ here, 95 % interval", "verdict", "row of Xu et al. 2020, Table 2",
    ]  # fmt: skip
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in beside]
    assert [(reported, row) for _, reported, _, _, row in cells] == [("+0.75", "+Max"), ("+0.61‡", "+Mean[1]")]
    assert cells[0][3].startswith("same direction, significant")
    assert r"\label{tab:golden-paper-1}" in latex
    study.write_report()
    page = (study.results / "report.html").read_text()
    beside = page[page.index('<section id="papers">') :].split("</section>")[0]
    assert beside.count("</tr>") == 3, "one line a system"
    for row, reported in (("+Max", "+0.75"), ("+Mean", "+0.61‡")):
        assert re.search(rf"<td>{re.escape(reported)}</td>.*<td>{re.escape(row)}", beside)
    assert "same direction, significant" in beside
    assert "phrasemt papers --claims" in beside
    assert page.count('class="reported"') == 2, "the gains of the paper in the forest plot"
