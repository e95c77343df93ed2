"""Table and report of language models and of chunk-based decoders."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import GoldenStudy

from phrasemt.artefacts.table import Table
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.scoring.statistics import wilson_interval

Built = Callable[..., GoldenStudy]


@pytest.fixture
def built(golden: Path, here: Path) -> Built:
    """Some of the systems of the golden study, on one data set, in the current folder."""
    return functools.partial(GoldenStudy.part, golden, here, datasets=("demo",))


def table_and_page(study: GoldenStudy) -> tuple[Table, str]:
    study.make_table()
    study.write_report()
    return Table.read(study.results / "table.json"), (study.results / "report.html").read_text()


def test_language_models_have_their_own_block(built: Built) -> None:
    study = built("lm", "base", "lm2")
    assert study.study.baseline == "base"
    table, page = table_and_page(study)
    assert [block.kind for block in table.blocks] == ["scores", "perplexity", "contrasts"]
    systems = [[row.system for row in block.rows] for block in table.blocks]
    assert systems == [["base"], ["lm", "lm2"], ["base"]]
    block = table.blocks[1]
    assert block.heading == "demo, test, perplexity (60 sentences)"
    cell = block.rows[0].cells["per_word"]
    # 3000 * 0.4 + 10 * seed nats over 600 words and 60 sentences
    assert cell.by_seed == pytest.approx({1: math.exp(1210 / 660), 2: math.exp(1220 / 660)})
    assert [column.heading for column in block.columns] == ["per token", "per word"]
    markdown = (study.results / "table.md").read_text()
    assert "exp(NLL / (words + sentences))): perplexity|smooth:none|sentences:60|words:600|tokens:780" in markdown
    assert "dev perplexity" in page
    assert "dev BLEU" in page


def test_a_system_with_fewer_seeds_has_means_of_its_own_trainings(built: Built) -> None:
    study = built("base", "once", "max")
    table, page = table_and_page(study)
    assert [block.kind for block in table.blocks] == ["scores", "contrasts"]
    for block in table.blocks:
        seeds = {row.system: {tuple(cell.by_seed) for cell in row.cells.values() if cell.by_seed} for row in block.rows}
        assert seeds == {"base": {(1, 2)}, "once": {(1,)}, "max": {(1, 2)}}
        assert "2 trainings per system (seeds 1, 2). Fewer trainings, of the first seeds: once (1)." in block.notes[0]
    once = {row.system: row for row in table.blocks[0].rows}["once"].cells
    assert once["bleu_tok"].deviation is None
    assert once["bleu_tok_difference"].p_values is not None
    assert table.trained == {"base": [1, 2], "once": [1], "max": [1, 2]}
    assert "Fewer trainings, of the first seeds: once (1)." in page
    power = once["bleu_tok_difference"].power
    assert power.freedom == 2  # base and max have two trainings each, of which once borrows
    assert "stands for those with one, too." in page


def test_the_block_of_chunk_decisions_has_a_row_for_the_majority(built: Built) -> None:
    study = built("base", "bi")
    table, page = table_and_page(study)
    assert [block.kind for block in table.blocks] == ["scores", "chunks", "contrasts"]
    block = table.blocks[1]
    assert block.heading == "demo, test, chunks (60 sentences)"
    assert [column.heading for column in block.columns] == ["boundary", "P", "R", "F1", "label/all", "label"]
    majority, biscale = block.rows
    assert [majority.cells[column.key].text for column in block.columns] == [
        "65.00", "65.00", "100.00", "78.80", "30.00", "46.00",
    ]  # fmt: skip
    assert biscale.cells["label_acc_paper"].by_seed == pytest.approx({1: 46.0, 2: 47.0})
    assert biscale.cells["label_acc_paper"].text == "46.50 ± 0.71"
    assert 'id="from-chunks-demo-test-bi"' in page
    assert 'id="from-chunks-demo-test-"' in page


@pytest.mark.parametrize(("right", "pairs"), [(0, 4), (3, 4), (4, 4), (40, 61), (500, 886)])
def test_intervals_of_accuracies_end_where_the_normal_test_begins_to_refuse(right: int, pairs: int) -> None:
    """Wilson's interval holds the shares p that a test with deviation sqrt(p(1-p)/n) does not refuse at 5 %."""
    share = right / pairs
    low, high = wilson_interval(share, pairs)
    assert 0 <= low <= share <= high <= 1 + 1e-12
    for end in (low, high):
        assert abs(share - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / pairs), abs=1e-6)


def test_systems_of_two_papers_have_two_baselines(built: Built) -> None:
    study = built("base", "max", "mean")
    rows = {"base": "xu2020/table-2/base", "max": "nguyen2020/table-1/base", "mean": "nguyen2020/table-1/phrasal-2"}
    raw = study.study.model_dump(exclude_unset=True)
    for name, row in rows.items():
        raw["systems"][name]["stands_for"] = [row]
    study.study = type(study.study).model_validate(raw)
    with pytest.raises(PhrasemtError, match="made from other scores than the table: bleu_tok of max"):
        study.make_table()  # comparisons of the study as it was
    study.compare("demo", "mean")
    table, page = table_and_page(study)
    cells = {row.system: row.cells for row in table.blocks[0].rows}
    for name, baseline in (("max", "base"), ("mean", "max")):
        difference = cells[name]["bleu_tok"].value - cells[baseline]["bleu_tok"].value
        assert cells[name]["bleu_tok_difference"].value == pytest.approx(difference)
    expected = "Δ: difference to Transformer; of + phrases | mean to + phrases (max) & <b>."
    assert any(note.startswith(expected) for note in table.blocks[0].notes)
    assert "Differences to the baselines" in page


def test_a_metric_of_the_user_is_a_column(built: Built) -> None:
    """The invented metric is the number of characters of a translation, so its mean is known from the file."""
    study = built("base", "max")
    program = "import sys; [print(len(line) - 1) for line in open(sys.argv[1], encoding='utf-8', newline='')]"
    command = f'{sys.executable} -c "{program}" {{hypotheses}}'
    raw = study.study.model_dump(exclude_unset=True) | {"metrics": {"length": {"command": command, "better": "lower"}}}
    study.study = type(study.study).model_validate(raw)
    paths: dict[str, list[Path]] = {"base": [], "max": []}
    for system, seed in study.translated:
        text = study.path("translated_text", system=system, seed=seed, split="test")
        paths[system].append(study.path("metric_scores", metric="length", system=system, seed=seed))
        study.run(
            "score_metric",
            {"dataset": "demo", "system": system, "seed": str(seed), "metric": "length"},
            text=[text],
            reference=[text],
            source=[text],
            files=[],
            scores=paths[system][-1],
        )
    study.compare("demo", "max", baseline_metrics=paths["base"], system_metrics=paths["max"])
    study.make_table(metric_scores=[*paths["base"], *paths["max"]])
    study.write_report()
    table = Table.read(study.results / "table.json")
    block = table.blocks[0]
    assert [column.heading for column in block.columns[-2:]] == ["length", "Δ"]
    texts = [study.path("translated_text", system="max", seed=seed, split="test") for seed in study.study.seeds]
    lengths = [len(line) for text in texts for line in text.read_text().split("\n")[:-1]]
    assert block.rows[1].cells["metric_length"].value == pytest.approx(sum(lengths) / len(lengths))
    assert any("lower is better" in signature and "length|mean:lower|" in signature for signature in table.signatures)
    difference = block.rows[1].cells["metric_length_difference"]
    means = [row.cells["metric_length"].value for row in block.rows]
    assert difference.value == pytest.approx(means[1] - means[0])
    assert difference.low <= difference.value <= difference.high
    assert (
        f"{difference.low:+.4f} to {difference.high:+.4f}".replace("-", "−")
        in (study.results / "report.html").read_text()
    )
    assert "metric_length" in (study.results / "table.csv").read_text()
    with pytest.raises(DataError, match="no score of a metric for length demo test max 2"):
        study.make_table(metric_scores=[*paths["base"], *paths["max"][:-1]])
