"""Texts that do not belong together are named with what differs; texts of one origin are not."""

from __future__ import annotations

import gzip
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from democorpus.pairs import demo_pairs
from phrasemt.corpus.compare_splits import Sides, doubts, sample_of
from phrasemt.files.lines import write_lines

UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
Change = Callable[[str], str]


def demo(split: str, pairs: int) -> list[Sides]:
    """Pairs of the demo with a capital in front."""
    made = demo_pairs(split=split, pairs=pairs, seed=1)
    return [tuple(text[0].upper() + text[1:] for text in (one.source, one.target)) for one in made]


TEXTS = {"dev": demo("dev", 500), "train": demo("train", 2000), "test": demo("test", 500)}


def changed(name: str, change: Change, *, part: float = 1.0) -> list[tuple[str, str]]:
    draw = random.Random(1)
    pairs = [tuple(map(change, pair)) if draw.random() < part else pair for pair in TEXTS[name]]
    return [*doubts({**TEXTS, name: pairs})]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (str.lower, "lines without a capital"),
        (str.upper, "lines in capitals"),
        (lambda line: re.sub(r"[.,!?]", "", line), "lines that end in"),
        (lambda line: line.replace("e", "&eacute;"), "lines with entities"),
        (lambda line: line.replace("'", "&#39;").replace(" ", "&nbsp;", 1), "lines with entities"),
        (lambda line: unicodedata.normalize("NFD", line), "COMBINING DIAERESIS"),
        (lambda line: line.translate(UMLAUTS), "WITH DIAERESIS"),
        (lambda line: line.encode().decode("latin-1"), "LATIN CAPITAL LETTER A WITH TILDE"),
        (lambda line: line.encode().decode("cp1251", "replace"), "CYRILLIC"),
    ],
)
def test_texts_that_were_prepared_otherwise_are_named(name: str, change: Change, said: str) -> None:
    found = changed(name, change)
    assert any(said in doubt for _, doubt in found)
    assert {place for place, _ in found} == ({"train", "test"} if name == "dev" else {name})
    assert all(re.search(r"\d+\.\d% .*, \d+\.\d% in dev$", doubt) for _, doubt in found)


@pytest.mark.parametrize("name", TEXTS)
def test_exchanged_and_shifted_sides_are_named(name: str) -> None:
    pairs = TEXTS[name]
    exchanged = [*doubts({**TEXTS, name: [pair[::-1] for pair in pairs]})]
    assert {place for place, doubt in exchanged if "the sides look exchanged" in doubt} == (
        {"train", "test"} if name == "dev" else {name}
    )
    assert all("exchanged" in doubt for _, doubt in exchanged), "other letters need no line of their own"
    for shift in (1, 2, 3):
        for first, second in ((0, shift), (shift, 0)):
            shifted = [(pairs[row + first][0], pairs[row + second][1]) for row in range(len(pairs) - shift)]
            said = f"the sides look shifted against each other by {shift} lines"
            assert (name, said) in [*doubts({**TEXTS, name: shifted})]


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "xx"), ("fr", "es"), ()])
def test_sides_that_are_exchanged_in_all_texts_are_known_by_their_languages(languages: Sequence[str]) -> None:
    exchanged = {name: [pair[::-1] for pair in pairs] for name, pairs in TEXTS.items()}
    expected = [("dev", "the source looks like de and the target like en, by frequent words")]
    assert [*doubts(exchanged, languages)] == (expected if languages == ("en", "de") else [])
    assert [*doubts(TEXTS, languages)] == []


def test_half_of_train_with_exchanged_sides_is_named() -> None:
    draw = random.Random(1)
    pairs = [pair[::-1] if draw.random() < 0.5 else pair for pair in TEXTS["train"]]
    (doubt,) = [doubt for _, doubt in doubts({**TEXTS, "train": pairs}) if "exchanged" in doubt]
    assert 40 <= int(re.findall(r"\d+", doubt)[0]) <= 60


def test_texts_of_one_origin_and_short_ones_are_not_doubted() -> None:
    assert [*doubts(TEXTS)] == []
    assert [*doubts({name: pairs[:3] for name, pairs in TEXTS.items()})] == []
    assert [*doubts({"dev": [], "train": TEXTS["train"]})] == []
    assert [*doubts({name: [pair[:1] for pair in pairs] for name, pairs in TEXTS.items()})] == []
    assert changed("train", lambda line: f" {line}\r") == []
    assert [*doubts({name: [*pairs, ("", ""), ("a", "")] for name, pairs in TEXTS.items()})] == []


def test_a_sample_has_blocks_of_the_whole_text(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", map(str, range(30_000)))
    write_lines(tmp_path / "b", map(str, range(30_000)))
    numbers = [int(line) for line, _ in sample_of(tmp_path / "a", tmp_path / "b")]
    assert len(numbers) == 10_000
    assert numbers[499:501] == [499, 1500]
    assert max(numbers) > 28_000
    assert sample_of(tmp_path / "a", tmp_path / "a")[0] == ("0",)


REAL = [
    ("bible-en-de", ("dev", "train", "test"), "en", "de"),
    ("multi30k", ("val", "train", "test_2016_flickr"), "en", "de"),
    ("multi30k", ("val", "train", "test_2016_flickr"), "fr", "de"),
    ("news-en-de", ("newstest2016", "train"), "en", "de"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "parts", "source", "target"), REAL)
def test_real_corpora_are_not_doubted(
    shared_data: Path, folder: str, parts: tuple[str, ...], source: str, target: str
) -> None:
    texts: dict[str, list[Sides]] = {}
    for part in parts:
        sides = [
            gzip.decompress((shared_data / folder / f"{part}.{language}.gz").read_bytes()).decode().split("\n")[:-1]
            for language in (source, target)
        ]
        texts[part] = [*zip(*sides, strict=True)]
    assert [*doubts(texts, [source, target])] == []
    assert [place for place, doubt in doubts(texts, [target, source]) if "the source looks like" in doubt] == [parts[0]]
    sources, targets = zip(*texts[parts[1]], strict=True)
    assert [*doubts({**texts, "train": [*zip(sources[1:], targets[:-1], strict=True)]})]
