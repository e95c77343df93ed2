"""The results table of an invented study: each number comes from its files, none is missing or mixed up.

Blocks of language models and of chunk-based decoders, too, in the table and in the report.
"""

from __future__ import annotations

import csv
import functools
import html
import itertools
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import GoldenStudy, rewrite

from phrasemt.artefacts.table import Block, Table
from phrasemt.cli import whole_parser
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.system import digest_file
from phrasemt.report import tables
from phrasemt.scoring.scores import wilson_interval
from phrasemt.scoring.significance import holm


def table_of(study: GoldenStudy) -> Table:
    return Table.read(study.results / "table.json")


def test_cells_are_means_of_their_files(finished: GoldenStudy) -> None:
    """Each cell against a mean that the test computes from the JSON of the score files."""
    table = table_of(finished)
    blocks = table.blocks[:3]
    assert [(block.kind, block.dataset, block.test_set) for block in blocks] == [
        ("scores", *test_set) for test_set in finished.test_sets
    ]
    for block, row in [(scores_block, row) for scores_block in blocks for row in scores_block.rows]:
        files = [finished.path("system_scores", block.dataset, system=row.system, seed=seed) for seed in (1, 2)]
        parts = [json.loads(path.read_text())["test_sets"][block.test_set] for path in files]
        for metric in parts[0]["metrics"]:
            values = [part["metrics"][metric]["score"] for part in parts]
            cell = row.cells[metric]
            assert cell.value == pytest.approx(sum(values) / 2, abs=1e-12)
            assert cell.text == f"{sum(values) / 2:.2f} ± {abs(values[0] - values[1]) / math.sqrt(2):.2f}"
            assert cell.by_seed == dict(zip((1, 2), values, strict=True))
            assert cell.signature == parts[0]["metrics"][metric]["signature"]
            assert [(source.path, source.sha256) for source in cell.sources] == [
                (str(path), digest_file(path)) for path in files
            ]


def test_differences_come_from_unrounded_scores(finished: GoldenStudy) -> None:
    for block in table_of(finished).blocks[:3]:
        base, *others = block.rows
        assert not any(key.endswith("_difference") for key in base.cells)
        shown = [column.key for column in block.columns if column.key.endswith("_difference")]
        assert shown == ["bleu_tok_difference", "bleu_detok_difference", "nats_difference"]
        assert "bleu_tok_uncased" in base.cells  # for the scorecard
        assert ("bleu_tok_compound_split" in base.cells) == (block.dataset == "demo"), "for targets in German"
        for row, metric in itertools.product(others, base.cells):
            cell = row.cells[f"{metric}_difference"]
            assert cell.value == pytest.approx(row.cells[metric].value - base.cells[metric].value, abs=1e-9)
            assert cell.text == f"{cell.value:+.{3 if metric == 'nats' else 2}f}"
            paths = [finished.path("comparison", block.dataset, system=other.system) for other in others]
            parts = [json.loads(path.read_text())["test_sets"][block.test_set] for path in paths]
            p_values = [part[metric]["p_value"] for part in parts]
            p = holm(p_values)[others.index(row)]
            assert cell.p_value == p
            assert cell.mark == ("‡" if p < 0.01 else "†" if p < 0.05 else "")
            assert cell.sources[0].path == str(paths[others.index(row)])


def test_notes_name_what_a_test_set_shares_with_train(finished: GoldenStudy) -> None:
    blocks = {
        (block.dataset, block.test_set): block.details for block in table_of(finished).blocks if block.kind == "scores"
    }
    assert blocks.keys() == set(finished.test_sets)
    note = "demo, test: 1 of 60 pairs also in train; 2 of 60 sources also in train; 3 of 60 targets also in train; 1 "
    assert [one.startswith(note) for one in blocks["demo", "test"]].count(True) == 1
    assert any(one.startswith("captions, coco: 2 of 60 pairs also in train") for one in blocks["captions", "coco"])
    assert "1 of 60 pairs also in train" in (finished.results / "table.md").read_text().replace("\n", " ")


def test_contrasts_by_distance(finished: GoldenStudy) -> None:
    block = table_of(finished).blocks[3]
    assert (block.dataset, block.contrast_set, block.size) == ("demo", "test", 1000)
    assert [column.heading for column in block.columns] == ["all (1,000)", "1-2 (300)", "3-4 (400)", "16+ (300)"]
    cell = block.rows[1].cells["16+"]
    assert cell.by_seed == pytest.approx({1: 79.0, 2: 78.0})
    assert cell.text == "78.5 ± 0.7"
    assert cell.signature == "contrastive_accuracy|group:16+|pairs:300"


def test_one_seed_and_one_system(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part = GoldenStudy.part(golden, tmp_path, "base", seeds=(1,))
    part.make_table()
    table = table_of(part)
    assert [column.heading for column in table.blocks[1].columns] == [
        "BLEU tok",
        "BLEU lc",
        "BLEU detok",
        "chrF2",
        "chrF++",
        "TER",
        "nats",
    ]
    assert "±" not in table.blocks[0].rows[0].cells["bleu_tok"].text
    seeds = (
        "One training of each system (seed 1): differences are not tested; intervals cover the choice of test "
        "sentences only."
    )
    assert table.blocks[0].notes == [seeds]
    assert (part.results / "table.md").read_text().replace("\n", " ").count(seeds) == 1


def test_order_of_inputs_does_not_matter(study: GoldenStudy) -> None:
    before = {path.name: path.read_bytes() for path in study.results.glob("table.*") if path.suffix != ".json"}
    study.make_table(**{name: paths[::-1] for name, paths in study.inputs("make_table").items()})
    assert {name: (study.results / name).read_bytes() for name in before} == before


def test_markdown_columns_are_aligned(finished: GoldenStudy) -> None:
    lines = (finished.results / "table.md").read_text().split("\n")
    blocks = [list(group) for is_row, group in itertools.groupby(lines, lambda line: line.startswith("|")) if is_row]
    assert len(blocks) == 3 + 2 * 3 + 1
    for rows in blocks:
        assert len({len(row) for row in rows}) == 1
        bars = [i for i, character in enumerate(rows[0]) if character == "|"]
        assert all(row[i] == "|" for row in rows for i in bars)
        assert [row.replace(r"\|", "").count("|") for row in rows] == [len(bars)] * len(rows)
        assert len({len(row) for row in rows_of(rows)}) == 1
    assert lines[0] == "# Phrases on <golden> data"
    headings = [line for line in lines if line.startswith("#")]
    assert headings[1] == "## Results: demo, test (60 sentences)"
    assert headings[4:6] == ["## Details", "### All metrics: demo, test (60 sentences)"]
    assert rows_of(blocks[0])[0] == ["System", "BLEU", "Δ, 95 % interval", "chrF2", "TER"]
    signatures = [line for line in lines if line.startswith("- ")]
    assert len(signatures) == 8
    assert all("|version:" in line for line in signatures[:-1])
    assert signatures[-1].endswith("; lower is better): nats|forced decoding")
    program, *arguments = lines[-2].split()
    assert program == "phrasemt"
    assert whole_parser().parse_args(arguments).study == Path("STUDY.yaml")
    assert max(len(line) for line in lines if not line.startswith(("|", "- ", "    "))) <= 100


def rows_of(lines: list[str]) -> list[list[str]]:
    """The cells of the lines of a Markdown table."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_latex_is_balanced_and_escaped(finished: GoldenStudy) -> None:
    latex = (finished.results / "table.tex").read_text()
    for environment in ("table", "tabular"):
        assert latex.count(rf"\begin{{{environment}}}") == latex.count(rf"\end{{{environment}}}") == 4
    body = "\n".join(line for line in latex.split("\n") if not line.startswith("%"))
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    assert r"+ phrases (max) \& $<$b$>$" in body
    assert r"captions, flickr\_2016" in body
    assert not set(body) & set("±†‡Δ")
    rows = [line for line in body.split("\n") if line.endswith(r"\\")]
    columns = [4 + 1] * 4 * 4
    assert [row.replace(r"\&", "").count("&") + 1 for row in rows] == columns


def test_csv_has_every_number_unrounded(finished: GoldenStudy) -> None:
    table = table_of(finished)
    with (finished.results / "table.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    found = {
        (line["kind"], line["dataset"], line["test_set"], line["system"], line["column"], line["seed"]): line["value"]
        for line in lines
    }
    assert len(found) == len(lines)
    count = 0
    for block in table.blocks:
        for row in block.rows:
            for column, cell in row.cells.items():
                split = block.test_set or block.contrast_set or ""
                place = block.kind, block.dataset, split, row.system, column
                by_seed = {str(seed): value for seed, value in (cell.by_seed or {}).items()}
                for seed, value in {"": cell.value, **by_seed}.items():
                    assert float(found[*place, seed]) == value
                    count += 1
    assert count == len(lines)
    assert {line["title"] for line in lines if line["system"] == "mean"} == {"+ phrases | mean"}


def test_a_row_of_the_csv_is_a_line(finished: GoldenStudy) -> None:
    """A signature may hold any text of a metric's command."""
    table, title = table_of(finished), "a".join("\u2028\u2029\x85\v\f\x1c")
    changed = table.model_copy(update={"blocks": [_with_title(block, title) for block in table.blocks]})
    lines = list(tables.to_csv(changed))
    assert len(lines) == len(list(tables.to_csv(table)))
    assert len(list(csv.reader(lines))) == len(lines)


def _with_title(block: Block, title: str) -> Block:
    return block.model_copy(update={"rows": [row.model_copy(update={"title": title}) for row in block.rows]})


def fails(study: GoldenStudy, **inputs: list[Path]) -> str:
    for path in study.results.glob("table.*"):
        path.unlink()
    with pytest.raises(PhrasemtError) as error:
        study.make_table(**inputs)
    assert not list(study.results.glob("table.*"))
    assert not list(study.results.glob(".table.*"))
    return str(error.value)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("system_scores", "no scores for captions flickr_2016 mean 2 (expected 18, found 16)"),
        ("comparison", "no comparison for captions flickr_2016 mean (expected 6, found 4)"),
        ("compared_splits", "no counts of what captions flickr_2016 shares with train"),
    ],
)
def test_the_error_names_a_missing_score_file(study: GoldenStudy, what: str, message: str) -> None:
    found = fails(study, **{what: study.inputs("make_table")[what][:-1]})
    assert f"the table would be incomplete: {message}" in found
    assert found.endswith(". Next: run the workflow again, which makes the missing files")


_OF_TEST = ("test_sets", "test")
_COMPARED = (*_OF_TEST, "metrics")
_OTHER = "the comparison was made from other scores than the table: "
_FIRST = "results/golden/demo.en-de/scores/base/1.json"


@pytest.mark.parametrize(
    ("path", "keys", "value", "message"),
    [
        ("scores/max/2", (*_COMPARED, "bleu_tok", "signature"), "nrefs:1|tok:intl|smooth:none",
         f"test cannot be compared with {_FIRST}: the convention of bleu_tok differs"),
        ("scores/mean/1", (*_OF_TEST, "references", "text"), ["0" * 64],
         f"test cannot be compared with {_FIRST}: the reference differs"),
        ("comparisons/max", (*_OF_TEST, "bleu_tok", "system", "value"), 12.5, f"{_OTHER}bleu_tok of max"),
        ("comparisons/max", (*_OF_TEST, "bleu_detok", "baseline", "value"), 12.5, f"{_OTHER}bleu_detok of base"),
        ("comparisons/max", ("samples",), 7, "comparisons with different numbers of bootstrap samples"),
        ("contrasts/mean/2/test", ("kinds", 0, "pairs"), 1001, "not the contrastive pairs of the first system"),
    ],
)  # fmt: skip
def test_files_that_do_not_belong_together_are_refused(
    study: GoldenStudy, path: str, keys: tuple[str | int, ...], value: object, message: str
) -> None:
    file = study.path("compared_splits").parent / f"{path}.json"
    content = json.loads(file.read_text())
    functools.reduce(lambda part, key: part[key], keys[:-1], content)[keys[-1]] = value
    rewrite(file, json.dumps(content))
    named = "" if keys == ("samples",) else f"{file}: "
    assert fails(study).startswith(f"{named}{message}")


Built = Callable[..., GoldenStudy]


@pytest.fixture
def built(golden: Path, here: Path) -> Built:
    """Some of the systems of the golden study, on one data set, in the current folder."""
    return functools.partial(GoldenStudy.part, golden, here, datasets=("demo",))


def table_and_page(study: GoldenStudy) -> tuple[Table, str]:
    study.make_table()
    study.write_report()
    return Table.read(study.results / "table.json"), (study.results / "report.html").read_text()


@pytest.mark.parametrize(
    ("changed", "lengths"),
    [(("max",), "0.94 (+ phrases (max) & <b>) to 1.00 (Transformer)"), (("base", "max"), "0.94")],
)
def test_a_note_says_once_that_translations_are_short(built: Built, changed: tuple[str, ...], lengths: str) -> None:
    study = built("base", "max")
    for system, seed in itertools.product(changed, (1, 2)):
        file = study.path("system_scores", system=system, seed=seed)
        content = json.loads(file.read_text())
        for row in content["test_sets"]["test"]["statistics"]["bleu_tok"]:
            row[8:] = 94, 100  # the lengths of translation and reference
        rewrite(file, json.dumps(content))
    table, page = table_and_page(study)
    block = table.blocks[0]
    said = f"BLEU also measures length: the translations have {lengths} times the tokens of the reference."
    assert [note for note in block.notes if "length" in note] == [said]
    assert page.count(html.escape(said)) == 1
    assert ("BLEU here also measures the length of the translations: 0.94 to 1.00" in page) == (len(changed) == 1)


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
        expected = "2 trainings of each system (seeds 1, 2). Fewer trainings, of the first seeds: once (1)."
        assert expected in block.notes[0]
    once = {row.system: row for row in table.blocks[0].rows}["once"].cells
    assert once["bleu_tok"].deviation is None
    assert once["bleu_tok_difference"].p_value is not None
    assert table.trained == {"base": [1, 2], "once": [1], "max": [1, 2]}
    assert "Fewer trainings, of the first seeds: once (1)." in page
    power = once["bleu_tok_difference"].power
    assert power.freedom == 2  # base and max have two trainings each, of which once borrows


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
    expected = "Δ: to Transformer; of + phrases | mean to + phrases (max) & <b>; †"
    assert any(note.startswith(expected) for note in table.blocks[0].notes)
    assert "Gain over the baselines" in page


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
    study.measure_variation("demo", metrics=[*paths["base"], *paths["max"]])
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
    interval = f"({difference.low:.4f} to {difference.high:.4f})".replace("-", "−")
    assert interval in (study.results / "report.html").read_text()
    assert "metric_length" in (study.results / "table.csv").read_text()
    with pytest.raises(DataError, match="no score of a metric for length demo test max 2"):
        study.make_table(metric_scores=[*paths["base"], *paths["max"][:-1]])
