"""The report of an invented study, read by an HTML parser."""

from __future__ import annotations

import html
import html.parser
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from golden import METRICS, GoldenStudy, rewrite
from stage_settings import settings_file

from phrasemt.artefacts.syntax import Card
from phrasemt.artefacts.table import Table
from phrasemt.errors import PhrasemtError
from phrasemt.report.figures import Series, draw_categories, draw_curves, ticks
from phrasemt.report.page import drawings_in, fill
from phrasemt.report.sections.trainings import Setting
from phrasemt.scoring.significance import p_text
from phrasemt.stages import STAGES
from phrasemt.workflow import code
from phrasemt.workflow.code import code_digest

# Elements without an end tag.
VOID = {"meta", "br", "link", "img", "hr", "input", "wbr"}


class Page(html.parser.HTMLParser):
    """Ids, links, attributes and text of a page; checks that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.cells: list[str] = []
        self.feed(text.replace("<wbr>", ""))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data


def source_of(study: GoldenStudy) -> str:
    return (study.results / "report.html").read_text()


def test_the_page_shows_every_number_of_the_table(finished: GoldenStudy) -> None:
    cells = [cell.strip() for cell in Page(source_of(finished)).cells]
    table = Table.read(finished.results / "table.json")
    for block in table.blocks:
        for row in block.rows:
            start = cells.index(row.title)
            columns = [column for column in block.columns if column.heading != "Δ"]
            expected = [row.printed(column).replace("-", "−", 1) for column in columns]
            while cells[start + 1 : start + 1 + len(expected)] != expected:
                start = cells.index(row.title, start + 1)  # raises ValueError when no row is left
            for key, cell in row.cells.items():
                if key.endswith("_difference"):
                    shown = f"{cell.text}{cell.mark} ({cell.interval()}), p {p_text(cell.p_value)}"
                    assert re.sub(r"(?<!\w)-(?=\d)", "−", shown) in cells
    assert "+ phrases (max) & <b>" in cells  # escaped in the source, so the page shows it unchanged
    assert "<b>" not in source_of(finished)


def test_the_page_needs_no_other_file_and_no_network(finished: GoldenStudy) -> None:
    source = source_of(finished)
    page = Page(source)
    assert not {"link", "iframe", "object", "img"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "data", "action"):
            assert (attributes.get(name) or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in source
    assert not re.search(r"url\((?!#)", source)
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", source)  # the name of SVG is no address
    assert "default-src 'none'" in source


def test_every_link_has_its_id(finished: GoldenStudy) -> None:
    page = Page(source_of(finished))
    assert len(page.ids) == len(set(page.ids))
    links = [attributes["href"] for _, attributes in page.elements if attributes.get("href")]
    assert {str(link)[1:] for link in links} <= set(page.ids)
    assert "#from-scores-demo-test-max" in links
    assert "#from-contrasts-demo-test-max" in links
    labels = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert set(labels) <= set(page.ids)


def test_figures_have_descriptions_in_words(finished: GoldenStudy) -> None:
    elements = Page(source_of(finished)).elements
    figures = [attributes for tag, attributes in elements if tag == "svg" and attributes["class"] == "plot"]
    # Contrasts; dev BLEU on two data sets. Groups of 60 sentences by length are too small.
    assert len(figures) == 3
    for attributes in figures:
        assert len(str(attributes["aria-label"])) > 80
    spoken = str(figures[0]["aria-label"])
    assert re.search(r"\+ phrases \(max\) & <b>: 92\.8 \([\d.]+ to [\d.]+\) at 1-2 \(300\), 89\.2 ", spoken)


def test_the_answer_comes_first_and_the_rest_is_folded(finished: GoldenStudy) -> None:
    source = source_of(finished)
    sections = re.findall(r'<section id="(\w+)">\n<(details|h2)>', source)
    assert sections[:2] == [("results", "h2"), ("sentences", "h2")]
    folded = ["pairs", "phrases", "curves", "systems", "syntax", "data", "metrics", "origins"]
    assert [name for name, _ in sections[2:]] == folded
    assert {element for _, element in sections[2:]} == {"details"}
    (answer,) = re.findall('<p class="answer">(.*)</p>', source)
    cells = Table.read(finished.results / "table.json").blocks[0].rows[1].cells
    assert cells["nats_difference"].mark == "‡"
    assert f"<td>{cells['nats'].text}‡</td>" in source[: source.index('id="sentences"')]
    cell = cells["bleu_tok_difference"]
    gain = f"gains {cell.value:.2f} BLEU ({cell.low:.2f} to {cell.high:.2f}) over Transformer"
    assert html.unescape(answer).startswith(f"+ phrases (max) & <b> {gain} on demo, test, significant after correction")
    assert source.index('class="answer"') < source.index("<nav") < source.index('class="forest"')


def test_the_page_shows_parsers_phrases_and_chunks(finished: GoldenStudy) -> None:
    page = Page(source_of(finished))
    card = Card.read(finished.results / "annotators" / "english" / "annotator.json")
    for shown in ("f1 97.3", card.fingerprint[:12], "3.20", "43.3 %", "88.0 %"):
        assert shown in [cell.strip() for cell in page.cells]


def test_the_page_shows_trainings_settings_cleaning_and_origins(finished: GoldenStudy) -> None:
    page = Page(source_of(finished))
    text = " ".join("".join(page.text).split())
    cells = [" ".join(cell.split()) for cell in page.cells]
    for expected in (
        "1,234,567",
        "1,534,567 (1,500,000 in use)",
        "6,000",
        "max updates",
        "9,000",
        "7.3",
        "12,345",
        "12,342",
        "max_words 2, duplicate 1",
    ):
        assert expected in cells
    start = cells.index("model.glance")
    assert cells[start : start + 4] == ["model.glance", "–", "max", "mean"]
    start = cells.index("decoding.beam")
    assert cells[start : start + 2] == ["decoding.beam", "4"]
    for stage in ("score_system", "compare_systems", "score_contrasts", "make_table", "train_model", "clean_pairs"):
        assert stage in cells
    assert code_digest("phrasemt.scoring.bleu") in cells
    table = Table.read(finished.results / "table.json")
    for row in (row for block in table.blocks for row in block.rows):
        for source in (source for cell in row.cells.values() for source in cell.sources):
            assert f"{source.path}{source.sha256}" in text
    assert all(signature in text for signature in table.signatures)
    assert all(note in text for block in table.blocks if block.kind == "scores" for note in block.notes)


def test_equal_inputs_give_equal_bytes_in_another_process(study: GoldenStudy) -> None:
    """Hash seeds and dates differ between processes; the page must not."""
    before = source_of(study)
    (study.results / "report.html").unlink()
    command = [
        *(sys.executable, "-m", "phrasemt", "write_report", "--table", study.results / "table.json"),
        *(
            word
            for name, paths in study.inputs("write_report").items()
            for word in (f"--{name.replace('_', '-')}", *paths)
        ),
        *(
            "--report",
            study.results / "report.html",
            "--settings",
            settings_file(STAGES["write_report"].from_study(study.study, {})),
        ),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1000000000"}
    subprocess.run([str(word) for word in command], check=True, env=environment, capture_output=True)
    assert source_of(study) == before
    assert not re.search(r"20\d\d-\d\d-\d\d", before)


def test_the_page_names_trainings_with_dead_networks(study: GoldenStudy) -> None:
    for seed, dead in ((1, 0.0), (2, 3.0)):
        path = study.path("training_record", system="max", seed=seed)
        record = json.loads(path.read_text())
        record["evaluations"][-1]["measurements"]["dev_dead_networks"] = dead
        rewrite(path, json.dumps(record))
    study.write_report()
    text = " ".join(" ".join(Page(source_of(study)).text).split())
    assert re.findall(r"Dead networks in (.*?) \(below\)", text) == ["+ phrases (max) & <b>, demo, seed 2: 3"]


@pytest.mark.parametrize("part", ["page.html", "page.css", "figures.css", "results.scorecard.html"])
def test_a_changed_template_is_changed_code(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """A changed template changes the digest of the code, so that the report is made again."""
    read = Path.read_bytes
    monkeypatch.setattr(code, "_code", code._code.__wrapped__)  # no cache of earlier reads
    before = code_digest.__wrapped__("phrasemt.report.report")
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b" " * (path.name == part))
    assert code_digest.__wrapped__("phrasemt.report.report") != before
    assert code_digest.__wrapped__("phrasemt.report.tables") == code_digest("phrasemt.report.tables")


def fails(study: GoldenStudy, **inputs: list[Path]) -> str:
    report = study.results / "report.html"
    report.unlink()
    with pytest.raises(PhrasemtError) as error:
        study.write_report(**inputs)
    assert not report.exists()
    return str(error.value)


def test_the_error_names_a_missing_training(study: GoldenStudy) -> None:
    found = fails(study, training_record=study.inputs("write_report")["training_record"][:-1])
    assert found.startswith("the report would be incomplete: no training record for captions mean 2. Next: ")


def test_a_file_changed_by_hand_is_refused(study: GoldenStudy) -> None:
    path = study.path("system_scores", system="max", seed=2)  # no input of the stage, but named by the table
    path.write_text(path.read_text() + " ")
    assert fails(study).startswith(f"{path}: not the file that score_system wrote")


def test_scores_made_after_the_table_are_refused(study: GoldenStudy) -> None:
    path = study.path("system_scores", system="max", seed=1)
    rewrite(path, path.read_text() + " ")
    assert fails(study).startswith(f"{path}: not the file that the table was made from (expected sha256 ")


@pytest.mark.parametrize("line", ['{"update": 60', "[]", '{"update": 60, "loss": "low"}'])
def test_the_error_names_a_damaged_line_of_metrics(study: GoldenStudy, line: str) -> None:
    path = study.path("training_record", system="base", seed=1).parent / METRICS
    with path.open("a") as stream:
        stream.write(line)
    assert fails(study).startswith(f"{path}, line 302: not a line of training metrics")


def test_equal_values_give_equal_figures() -> None:
    names = [f"system {n}" for n in range(8)]
    series = [Series(group=name, x=range(5), y=[n, 2, 3, 4, 5]) for n, name in enumerate(names)]
    first, second = (draw_curves(series, title="t", x_label="x", y_label="y", systems=names).svg for _ in range(2))
    assert first == second
    assert re.findall(r'class="curve (s\d)"', first) == ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s1"]


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (22.3, 28), (-0.21, 3.79), (0.001, 0.037), (69.3, 77.2), (3, 3), (0, 1e-14)]
)
def test_ticks_are_round_and_reach_around_the_values(low: float, high: float) -> None:
    found = ticks(low, high)
    steps = {round(after - before, 9) for before, after in itertools.pairwise(found)}
    assert found[0] <= low <= high <= found[-1]
    assert 2 <= len(found) <= 7
    assert len(steps) == 1
    assert f"{steps.pop():e}"[0] in "125"


def test_a_setting_differs_where_two_systems_have_other_values_of_it() -> None:
    values = {"family": ("a", "b", "b"), "mode": ("", "ngram", "parse"), "pool": ("", "attn", "attn"), "d": ("1",) * 3}
    settings = [Setting(key=key, values=found) for key, found in values.items()]
    assert [one.key for one in settings if one.differs] == ["family", "mode"]
    assert [one.key for one in settings if one.everywhere] == ["family", "d"]


def test_names_are_escaped_in_figures() -> None:
    series = [Series(group=name, x=[0, 1], y=[1.0, 2.0]) for name in ('<b> & "x"', r"$\nothing and 5$")]
    drawing = draw_categories(["1-2", "3+"], series, title="t", x_label="x", y_label="y")
    assert "<b>" not in drawing.svg
    assert drawing.svg.count(r">$\nothing and 5$<") == 1
    assert '<b> & "x": 1.0 at 1-2, 2.0 at 3+' in html.unescape(drawing.svg)
    page = fill("sections/analyses.html", anchor="a", text="t", tables=[], drawings=[drawing])
    assert "<b>" not in page
    assert drawings_in(page) == [drawing]
