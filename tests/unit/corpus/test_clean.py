"""Every pair is kept or listed with a reason, and the reasons are right."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.corpus import clean
from phrasemt.corpus.clean import FILTERS, WrittenLanguage, clean_pairs
from phrasemt.errors import DataError
from phrasemt.files.lines import read_lines
from phrasemt.files.preprocessing import normalise_spaces
from phrasemt.stages.corpus import CleanPairs
from phrasemt.study.datasets import CleaningFilters

Pair = tuple[str, str]
LONG = "x" * 100_000


@dataclass
class Cleaned:
    """What clean_pairs wrote."""

    pairs: list[Pair]
    rows: list[int]
    head: str
    dropped: list[tuple[int, str, str]]

    @classmethod
    def of(cls, folder: Path) -> Cleaned:
        source, target, rows, (head, names, *dropped) = (
            list(read_lines(folder / name)) for name in ("source", "target", "rows", "dropped")
        )
        assert names == "row\tfilter\tvalue"
        entries = [line.split("\t") for line in dropped]
        pairs = list(zip(source, target, strict=True))
        return cls(pairs, [int(row) for row in rows], head, [(int(row), name, value) for row, name, value in entries])


def run(
    folder: Path,
    *texts: Sequence[Pair],
    filters: CleaningFilters | None,
    languages: Pair = ("en", "de"),
    cores: int = 1,
    sample: int | None = None,
) -> Cleaned:
    """Cleans texts given as pairs of raw lines."""
    paths: dict[str, list[Path]] = {"raw_source": [], "raw_target": []}
    for number, pairs in enumerate(texts):
        for side, name in enumerate(paths):
            paths[name].append(folder / f"{name}{number}")
            paths[name][-1].write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    outputs = {name: folder / name for name in ("source", "target", "rows", "dropped")}
    names = {"source_language": languages[0], "target_language": languages[1]}
    clean_settings = CleanPairs(**names, filters=filters, sample=sample)
    clean_pairs(settings=clean_settings, cores=cores, **paths, **outputs)
    return Cleaned.of(folder)


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("", "Hallo"), ("empty", "source")),
        (("Hello", " \u2028\u00a0"), ("empty", "target")),
        (("a " * 100, "Hallo Welt " * 50), None),
        (("a " * 101, "Hallo Welt " * 50), ("too_long", "101")),
        (("Hello", LONG), ("too_long", "5000")),
        (("Hello", "ha " * 9), None),
        (("ha " * 10, "Hello"), ("ratio", "10.00")),
        (("1, 2, 3!", "1 - 2 - 3"), None),  # no letters: nothing to say about the script
        (("Hello Мир", "Hallo, grüß dich Ωmega"), None),
        (("Привет Tom", "Hallo Tom"), ("wrong_script", "source 0.33")),
        (("Hello", "你好"), ("wrong_script", "target 0.00")),
        (("A café", "Ein Café"), ("duplicate", "0")),
        (("A cafe\u0301", "Ein Cafe\u0301"), ("duplicate", "0")),  # the same letters, decomposed
        (("\u200eA ca\u00adfé", "Ein\u2060 Café\ufe0f"), ("duplicate", "0")),
        (("Ber\u00adlin", "Berlin\u200f"), ("identical", "source = target")),
        (("Hello", "\u200b \u200e"), ("empty", "target")),
    ],
)
def test_reasons(tmp_path: Path, pair: Pair, reason: tuple[str, str] | None) -> None:
    cleaned = run(tmp_path, [("A café", "Ein Café"), pair], filters=CleaningFilters())
    assert cleaned.dropped == ([(1, *reason)] if reason else [])
    assert cleaned.rows == ([0] if reason else [0, 1])


def test_filters_of_a_paper_that_names_none_keep_all_but_empty_sides(tmp_path: Path) -> None:
    pairs = [("Berlin", "Berlin"), ("Berlin", "Berlin"), ("", "Berlin"), ("ha " * 10, "你好")]
    filters = CleaningFilters(max_ratio=10_000, min_letters=0, drop_duplicates=False, drop_identical=False)
    assert run(tmp_path, pairs, filters=filters).dropped == [(2, "empty", "source")]


@pytest.mark.parametrize(("filters", "side"), [(None, 0), (CleaningFilters(), 1)])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Der Hu@@ nd bellt .", "the text is cut into subwords"),
        ("Hu@@ nde@@", "the text is cut into subwords"),
        ("Die ▁Katze schläft .", "the text is cut into subwords"),
        (' <seg id="7"> Nummer 7. </seg>', r"the text holds tags .*sed -n 's/"),
        ("<url>http://example.org/7</url>", "the text holds tags .* from both sides"),
        ("<title>Nummer</title>", "the text holds tags"),
        ('{"text": "Nummer 7."}', "the lines are JSON .*json.loads"),
        ("7\tNummer 7.", "the text is a table with tabulators .*cut -f 2"),
    ],
)
def test_text_that_another_program_prepared_is_refused(
    tmp_path: Path, filters: CleaningFilters | None, side: int, line: str, message: str
) -> None:
    """Outputs of systems lose the marks, and references would keep them: a perfect translation would score 17 BLEU."""
    pairs = [(f"Number <b>{number}</b> barks.", f"<i>Nummer {number} bellt.") for number in range(300)]
    assert run(tmp_path, pairs, filters=filters).rows
    pairs[7:9] = [tuple(line if place == side else text for place, text in enumerate(pair)) for pair in pairs[7:9]]
    assert len(run(tmp_path, pairs, filters=filters).rows) >= 299, "texts from the web hold such marks by chance"
    pairs[5:90] = [pairs[7]] * 85
    with pytest.raises(DataError, match=rf"raw_{('source', 'target')[side]}0, line 6: {message}"):
        run(tmp_path, pairs, filters=filters)


def test_a_sample_is_a_part_of_the_kept_pairs_that_no_other_target_changes(tmp_path: Path) -> None:
    """Two references of the same sources keep the same rows; a larger sample contains the smaller one."""
    pairs = [(f"Number {number % 40} barks.", f"Nummer {number} bellt.") for number in range(50)]
    others = [(source, target.replace("Nummer", "Die")) for source, target in pairs]
    whole = run(tmp_path, [("", "x"), *pairs], filters=CleaningFilters())
    few, other, more = (
        run(tmp_path, [("", "x"), *texts], filters=CleaningFilters(), sample=size)
        for texts, size in ((pairs, 10), (others, 10), (pairs, 30))
    )
    assert (len(few.pairs), len(more.pairs), len(whole.pairs)) == (10, 30, 50)
    assert few.rows == other.rows == sorted(few.rows)
    assert {*few.rows} < {*more.rows} < {*whole.rows}
    assert few.pairs == [pairs[row - 1] for row in few.rows]
    assert few.head == "# read 51 kept 10 dropped 1 left out 40"
    assert DroppedPairs.read(tmp_path / "dropped").left_out == 20
    assert run(tmp_path, pairs, filters=None, sample=99).head == "# read 50 kept 50 dropped 0"


def test_the_first_filter_in_order_is_named(tmp_path: Path) -> None:
    filters = CleaningFilters(max_words=3, max_ratio=2)
    pairs = [("ok", "gut"), ("", ""), ("и " * 9, "a"), ("и и и", "a"), ("и", "и"), ("и", "a"), ("ok", "gut")]
    cleaned = run(tmp_path, pairs, filters=filters)
    assert [name for _, name, _ in cleaned.dropped] == list(FILTERS)
    assert cleaned.head == "# read 7 kept 1 dropped 6"


def test_dev_and_test_keep_every_pair(tmp_path: Path) -> None:
    pairs = [("a", "a"), ("a", "a"), ("", "b"), ("и", "三"), (f"{LONG} ", LONG)]
    cleaned = run(tmp_path, pairs, filters=None)
    assert cleaned.pairs == [("a", "a"), ("a", "a"), ("", "b"), ("и", "三"), (LONG, LONG)]
    assert (cleaned.rows, cleaned.head, cleaned.dropped) == ([0, 1, 2, 3, 4], "# read 5 kept 5 dropped 0", [])


# A small alphabet makes all filters refuse something.
sides = st.text(alphabet="ab и三 \u2028\x0c\r\x85", max_size=6)
corpora = st.lists(st.tuples(sides, sides), max_size=30).map(lambda pairs: [("kept", "behalten"), *pairs])


@settings(max_examples=50)
@given(corpora, st.booleans(), st.integers(1, 4), st.sampled_from([1.0, 2.0]))
def test_counts_add_up(pairs: list[Pair], drop: bool, max_words: int, max_ratio: float) -> None:
    filters = CleaningFilters(max_words=max_words, max_ratio=max_ratio, drop_duplicates=drop)
    with tempfile.TemporaryDirectory() as folder:
        cleaned = run(Path(folder), pairs, filters=filters)
    dropped_rows = [row for row, _, _ in cleaned.dropped]
    assert sorted(cleaned.rows + dropped_rows) == list(range(len(pairs)))
    assert cleaned.rows == sorted(cleaned.rows)
    assert dropped_rows == sorted(dropped_rows)
    assert cleaned.head == f"# read {len(pairs)} kept {len(cleaned.rows)} dropped {len(dropped_rows)}"
    normal = [(normalise_spaces(source), normalise_spaces(target)) for source, target in pairs]
    assert cleaned.pairs == [normal[row] for row in cleaned.rows]
    for source, target in cleaned.pairs:
        words = len(source.split()), len(target.split())
        assert source
        assert target
        assert max(words) <= max_words
        assert max(words) <= max_ratio * min(words)
    if drop:
        assert len(set(cleaned.pairs)) == len(cleaned.pairs)
        assert not any(source == target for source, target in cleaned.pairs)
    for row, name, value in cleaned.dropped:
        assert name in FILTERS
        if name == "duplicate":
            assert normal[int(value)] == normal[row]
            assert int(value) in cleaned.rows


@pytest.mark.parametrize("filters", [None, CleaningFilters(max_words=30)])
def test_same_bytes_for_any_number_of_cores(
    tmp_path: Path, filters: CleaningFilters | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean, "PAIRS_PER_BATCH", 7)
    pairs = [(f"a {number % 160}" * (number % 40), f"ü {number % 80}\r") for number in range(500)]
    results = []
    for cores in (1, 3):
        (tmp_path / str(cores)).mkdir()
        cleaned = run(tmp_path / str(cores), pairs, filters=filters, cores=cores)
        results.append(
            [(tmp_path / str(cores) / name).read_bytes() for name in ("source", "target", "rows", "dropped")]
        )
    assert results[0] == results[1]
    reasons = {name for _, name, _ in cleaned.dropped}
    assert reasons == ({"empty", "too_long", "ratio", "duplicate"} if filters else set())


@pytest.mark.parametrize("filters", [None, CleaningFilters()])
def test_empty_text(tmp_path: Path, filters: CleaningFilters | None) -> None:
    with pytest.raises(DataError, match=r"raw_source1, .*/raw_target1: the text is empty"):
        run(tmp_path, [("a", "b")], [], filters=filters)


def test_nothing_kept(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dropped every pair .*\(found 3 pairs: empty 1, wrong_script 2\)"):
        run(tmp_path, [("a", ""), ("и", "b"), ("и", "c")], filters=CleaningFilters())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw_source0", "raw_target0"]


@pytest.mark.parametrize(
    ("language", "line", "share"),
    [
        ("de", "Grüße, 12 €!", 1.0),
        ("ru", "Привет Tom", 6 / 9),
        ("zh", "你好，世界！", 1.0),
        ("ja", "東京タワーへ行く。", 1.0),
        ("ko", "안녕 世界", 1.0),
        ("sr", "Beograd Београд", 1.0),
        ("de", "１２３ Ｔｅｘｔ", 1.0),
        ("ar", "مرحبا", 1.0),
        ("sah", "тыл where", 3 / 8),
        ("ku", "زمان ziman", 1.0),
        ("mni", "ꯃꯩꯇꯩ abc где", 1.0),  # not listed
    ],
)
def test_share_of_letters(language: str, line: str, share: float) -> None:
    sides = WrittenLanguage(language)
    for _ in range(2):  # what was remembered of the line must not change the answer
        assert sides.script_share(line) == pytest.approx(share)


@pytest.mark.parametrize(
    ("language", "line", "words"),
    [("en", "one two three", 3), ("en", "x" * 39, 1), ("en", "x" * 40, 2), ("zh", "你好世界", 2), ("ja", "あ", 1)],
)
def test_words(language: str, line: str, words: int) -> None:
    assert WrittenLanguage(language).words(line) == words


def test_every_script_of_an_unlisted_language_is_kept_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="phrasemt")
    pairs = [("Hello", "ꯃꯩꯇꯩ"), ("Good night", "Good evening"), ("Привет", "ꯃꯩ")]
    cleaned = run(tmp_path, pairs, filters=CleaningFilters(), languages=("en", "mni"))
    assert cleaned.dropped == [(2, "wrong_script", "source 0.00")]
    assert "the script of 'mni' is not listed" in caplog.text
    assert "the script of 'en'" not in caplog.text


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("bs", "Ово је кућа број {} у граду"),
        ("ro", "Ачаста есте каса ноастрэ {} дин сат"),
        ("kk", "بۇل ءبىزدىڭ {} ءۇيىمىز"),
        ("su", "ᮄᮔᮤ ᮘᮥᮊᮥ {} ᮃᮘ᮪ᮓᮤ"),
        ("wo", "ݖ نَاكَ {} نگَ دێف"),
        ("ru", "Eto nash dom nomer {} v gorode"),
    ],
)
@pytest.mark.parametrize(("side", "cores"), [(0, 1), (1, 2)])
def test_a_second_script_of_a_language_is_kept(
    tmp_path: Path, language: str, line: str, side: int, cores: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless it is that of the other side: then the text is more likely in the other language."""
    others = ("el", "Το σπίτι μας είναι μεγάλο, αριθμός {}")
    texts = [(line.format(number), others[1].format(number)) for number in range(190)]
    texts += [("你好，世界，我們的家", others[1].format(number)) for number in range(190, 200)]
    pairs = [pair if side == 0 else pair[::-1] for pair in texts]
    languages = (language, others[0]) if side == 0 else (others[0], language)
    found = run(tmp_path, pairs, filters=CleaningFilters(), languages=languages, cores=cores)
    assert len(found.pairs) == 190
    assert {name for _, name, _ in found.dropped} == {"wrong_script"}
    assert f"190 of the first 200 lines in {language!r} are in the script" in caplog.text


def test_an_untranslated_text_is_no_second_script(tmp_path: Path) -> None:
    pairs = [(f"This is our house number {number}", f"These are our words {number}") for number in range(200)]
    with pytest.raises(DataError, match="the filters dropped every pair"):
        run(tmp_path, pairs, filters=CleaningFilters(), languages=("en", "ru"))
