"""Blind sheets: what raters see, and the scores of filled sheets worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemt.errors import DataError, MismatchError, PhrasemtError
from phrasemt.scoring.ratings import KEY, QUESTIONS, RatedText, score_sheets, write_sheets

SOURCES = [f"source {number}" for number in range(6)]
REFERENCES = [f"reference\t{number}" for number in range(6)]
# Both systems translate line 0 alike.
TRANSLATIONS = {
    "base": ["same", *(f"base says {number}" for number in range(1, 6))],
    "max": ["same", *(f"other words {number}" for number in range(1, 6))],
}

TEST_SETS = {"first": slice(0, 4), "second": slice(4, 6)}


def _sheets(tmp_path: Path, *, sentences: int = 6, seed: int = 1) -> Path:
    folder = tmp_path / "ratings"
    texts = [
        RatedText(
            name, SOURCES[part], REFERENCES[part], {system: lines[part] for system, lines in TRANSLATIONS.items()}
        )
        for name, part in TEST_SETS.items()
    ]
    write_sheets(folder, texts, sentences=sentences, raters=2, seed=seed)
    return folder


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def _fill(folder: Path, *ratings: dict[str, tuple[int, int, int, int]]) -> None:
    """Fill in the sheets. ratings: of each rater, by the first word of a translation."""
    for number, of_words in enumerate(ratings, start=1):
        path = folder / f"rater-{number}.tsv"
        header, *rows = _rows(path)
        filled = [[*row[:4], *map(str, of_words[row[3].split()[0]])] for row in rows]
        path.write_text("\ufeff" + "\r\n".join("\t".join(row) for row in [header, *filled]) + "\r\n")


def test_sheets_are_blind_and_complete(tmp_path: Path) -> None:
    folder = _sheets(tmp_path)
    first, second = (_rows(folder / f"rater-{number}.tsv")[1:] for number in (1, 2))
    assert len(first) == 11, "twelve translations, two of them alike"
    assert first != second
    assert sorted(first) == sorted(second)
    for row in first:
        assert row[4:] == [""] * len(QUESTIONS)
        assert "base" not in row[0] + row[1] + row[2]
    key = _rows(folder / KEY)[1:]
    shown = {row[0]: row[3] for row in first}
    for item, system, test_set, line in key:
        assert shown[item] == TRANSLATIONS[system][TEST_SETS[test_set]][int(line) - 1]
    assert len(key) == 12


def test_the_draw_repeats_and_depends_on_its_seed(tmp_path: Path) -> None:
    keys = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        keys.append((_sheets(tmp_path / name, sentences=3, seed=seed) / KEY).read_text())
    assert keys[0] == keys[1] != keys[2]


def test_scores_by_hand(tmp_path: Path) -> None:
    """`base`: five items with 0 and 4 by the raters, one with 5 and 5, so 30/12; and `other` with 4 and 3."""
    folder = _sheets(tmp_path)
    _fill(
        folder,
        {"same": (5, 5, 0, 0), "base": (0, 3, 1, 0), "other": (4, 4, 0, 1)},
        {"same": (5, 5, 0, 0), "base": (4, 3, 1, 0), "other": (3, 4, 0, 0)},
    )
    ratings, raters = score_sheets(folder)
    assert raters == 2
    means = {one.system: one.means for one in ratings}
    assert {one.system: one.items for one in ratings} == {"base": 6, "max": 6}
    assert means["base"]["adequacy"] == pytest.approx((5 * (0 + 4) + 10) / 12)
    assert means["max"]["adequacy"] == pytest.approx((5 * (4 + 3) + 10) / 12)
    assert means["base"]["under_translation"] == pytest.approx(10 / 12)
    assert means["max"]["over_translation"] == pytest.approx(5 / 12)


def test_mistakes_of_raters_are_named(tmp_path: Path) -> None:
    folder = _sheets(tmp_path)
    with pytest.raises(DataError, match=r"line 2: no rating of adequacy .expected one of 0, 1, 2, 3, 4, 5"):
        score_sheets(folder)
    values = (1, 6, 0, 0)
    _fill(folder, *(2 * [{"same": values, "base": values, "other": values}]))
    with pytest.raises(DataError, match="no rating of fluency"):
        score_sheets(folder)
    path = folder / "rater-1.tsv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    with pytest.raises(DataError, match="no rating of fluency"):
        score_sheets(folder)
    values = (1, 5, 0, 0)
    path.write_text(path.read_text().replace("\t1\t6\t0\t0", "\t1\t5\t0\t0"))
    with pytest.raises(MismatchError, match="items are missing"):
        score_sheets(folder)
    with pytest.raises(PhrasemtError, match="the folder is there already"):
        _sheets(tmp_path)
    with pytest.raises(DataError, match="fewer sentences"):
        write_sheets(tmp_path / "new", [], sentences=1, raters=1, seed=1)


@pytest.mark.parametrize(
    "name", ["rater-1 (copy).tsv", "rater-1(1).tsv", "rater-1_final.tsv", "rater-.tsv", "rater-3.tsv"]
)
def test_a_copy_of_a_sheet_is_no_further_rater(tmp_path: Path, name: str) -> None:
    folder = _sheets(tmp_path)
    ratings = {"same": (5, 5, 0, 0), "base": (3, 3, 0, 0), "other": (4, 4, 1, 0)}
    _fill(folder, ratings, ratings)
    assert score_sheets(folder)[1] == 2, "raters may agree about all items"
    (folder / name).write_bytes((folder / "rater-1.tsv").read_bytes())
    with pytest.raises(MismatchError, match="a copy of a sheet would count as a further rater"):
        score_sheets(folder)
