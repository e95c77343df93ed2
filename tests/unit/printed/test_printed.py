"""The printed figures agree with themselves, and all names in their files exist.

Witnesses: arithmetic that the papers print (differences, averages, largest gains) and the discrepancies that are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasemt.cli import main
from phrasemt.printed.results import FOLDER, Figure, baseline_place, figures, figures_of_row, load_papers, row_at
from phrasemt.registry.corpora import files_of
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study


def value(place: str, column: str) -> float:
    return {figure.column: figure.cell.value for figure in figures_of_row(*row_at(place))}[column]


def test_every_difference_of_table_2_is_that_of_its_scores() -> None:
    rows = load_papers()["xu2020"].tables["table-2"].rows
    for row in rows.keys() - {"base"}:
        gain = value(f"xu2020/table-2/{row}", "bleu") - value("xu2020/table-2/base", "bleu")
        assert gain == pytest.approx(value(f"xu2020/table-2/{row}", "delta"))


def test_rows_that_stand_in_two_tables_have_one_score() -> None:
    for one, two in (
        ("table-1/base", "table-2/base"),
        ("table-1/base-pr", "table-2/max-attn-ta"),
        ("table-1/big", "table-2/big"),
    ):
        assert value(f"xu2020/{one}", "en-de") == value(f"xu2020/{two}", "bleu")


def test_the_largest_gains_of_the_text_are_those_of_the_tables() -> None:
    for pair in ("en-de", "en-ru", "en-fr"):
        gain = value("nguyen2020/table-1/phrasal-3", pair) - value("nguyen2020/table-1/base", pair)
        assert gain == pytest.approx(value("nguyen2020/text/phrasal", pair))
    for row, pair, decimals in (("2", "en-de", 1), ("2", "de-en", 1), ("4", "en-ru", 2), ("4", "ru-en", 2)):
        gain = value(f"nguyen2020/table-2/phrasal-{row}", pair) - value("nguyen2020/table-2/base", pair)
        assert round(gain, decimals) == value(f"nguyen2020/text-2/phrasal-{row}", pair)
    perplexities = [value(f"nguyen2020/table-3/{row}", "perplexity") for row in ("phrasal-2", "base")]
    assert round(perplexities[0] - perplexities[1], 1) == value("nguyen2020/text/phrasal", "perplexity")


def test_averages_cover_the_test_sets_that_they_name() -> None:
    """Rounding of four printed figures moves their mean by at most 0.005, and it is printed with two digits."""
    paper = load_papers()["zhou2017"]
    for name in ("table-1", "table-2"):
        for row in paper.tables[name].rows:
            (average,) = (f for f in figures_of_row(paper, name, row) if f.column == "average")
            of_sets = [value(f"zhou2017/{name}/{row}", test_set) for test_set in average.test_sets]
            assert sum(of_sets) / len(of_sets) == pytest.approx(value(f"zhou2017/{name}/{row}", "average"), abs=0.0101)


def test_a_difference_between_averages_over_other_test_sets_is_not_formed() -> None:
    chunk = {figure.column: figure for figure in figures_of_row(*row_at("zhou2017/table-2/chunk"))}
    assert chunk["MT03"].difference_to("word") == pytest.approx(0.70)
    assert chunk["average"].difference_to("word") is None


def test_an_empty_cell_is_no_figure() -> None:
    paper = load_papers()["nguyen2020"]
    assert [figure.column for figure in figures_of_row(paper, "table-2", "big")] == ["en-de", "en-ru"]
    (phrasal,) = (f for f in figures_of_row(*row_at("nguyen2020/table-2/phrasal-2")) if f.column == "de-en")
    assert phrasal.difference_to("big") is None


def test_texts_of_papers_are_in_the_registry() -> None:
    for paper in load_papers().values():
        for data in paper.data.values():
            texts = [*(data.train or []), *(text for part in data.test_sets.values() for text in part or [])]
            for text in texts:
                assert files_of(text.corpus, text.part, data.target_language)


def test_every_figure_has_a_convention() -> None:
    for paper in load_papers().values():
        found: list[Figure] = list(figures(paper))
        assert len({(figure.table, figure.row, figure.column) for figure in found}) == len(found)
        assert all(figure.measure.convention for figure in found)


STUDIES = [load_study(path) for path in sorted((Path(__file__).parents[3] / "studies").glob("*.yaml"))]


def _fills(study: Study, figure: Figure) -> bool:
    """Whether a study has a system, or the training data, of a printed figure on the data of the paper."""
    data = None if figure.of_column.data is None else f"{figure.paper.paper}/{figure.of_column.data}"
    on_data = [one for one in study.datasets.values() if data in (None, one.stands_for)]
    stands = any(figure.place in system.stands_for for system in study.systems.values())
    return bool(on_data) and (figure.row == "data" or stands)


def test_every_figure_has_a_study_and_a_system() -> None:
    """Of the papers that a study reproduces."""
    reproduced = {
        place.split("/")[0] for study in STUDIES for one in study.systems.values() for place in one.stands_for
    }
    assert reproduced >= {"xu2020", "nguyen2020", "zhou2017"}
    for paper in (load_papers()[name] for name in reproduced):
        for figure in figures(paper):
            assert any(_fills(study, figure) for study in STUDIES), f"{figure.place}, {figure.of_column.heading}"


def test_every_note_and_every_baseline_is_used() -> None:
    for name, paper in load_papers().items():
        cells = [cell for table in paper.tables.values() for row in table.rows.values() for cell in row.cells.values()]
        columns = [column for table in paper.tables.values() for column in table.columns.values()]
        assert {one.note for one in (*cells, *columns)} - {None} == set(paper.notes)
        places = [baseline_place(f"{name}/{key}/{row}") for key, table in paper.tables.items() for row in table.rows]
        assert all(row_at(place) for place in places if place)


PAGE = Path(__file__).parents[3] / "docs" / "adding-a-paper.md"


@pytest.fixture
def fourth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that docs/adding-a-paper.md shows, beside those of the other papers."""
    for file in FOLDER.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    monkeypatch.setattr("phrasemt.printed.results.FOLDER", tmp_path)
    (path,) = re.findall(r"^## The file: phrasemt/printed/(\S+)$", PAGE.read_text(), re.MULTILINE)
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / path).write_text(block)
    load_papers.cache_clear()
    yield tmp_path / path
    load_papers.cache_clear()


def test_a_fourth_paper_is_a_file(fourth: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fourth.write_text(
        fourth.read_text().replace("title: Umst, cells: {en-de: null", "title: Umst, cells: {en-de: 99.5")
    )
    assert main(["papers", "li2022"]) == 0
    assert "99.50" in capsys.readouterr().out
    for wrong, said in (("measure: bleu", "measure: blue"), ("paper: li2022", "paper: li2023")):
        text = fourth.read_text()
        fourth.write_text(text.replace(wrong, said, 1))
        load_papers.cache_clear()
        assert main(["papers", "li2022"]) == 2
        assert fourth.name in capsys.readouterr().err
        fourth.write_text(text)
