"""Witness: sacremoses itself, every byte."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from phrasemt.errors import DataError
from phrasemt.stages.subwords import TokenizeText
from phrasemt.text.tokenize import detokenize, tokenize_text, tokenizer

LANGUAGES = ("en", "de", "fr", "it", "fi", "zh", "ja", "cs")
# What the rules look at, in any order: abbreviations with and without numbers after them, dots, commas between numbers,
# apostrophes, XML, hyphens, all kinds of white space and control characters, letters and numbers of other scripts.
PIECES = st.sampled_from(
    """Mr. No. Nr. z.B. U.S. A. art. 5 ½ ٣ Ⅷ 10,000 a,b ,, , ,5 5,,5 don't ' '' 's l'eau .' ... .. . .... DOTMULTI
    DOTDOTMULTI &amp; & | < > [ ] " `` - -- well-known a-b-c @-@ 你好， 。 カナ 한국 ǅ ß É µ ﬁ न् 🙂 $5 €5 ? ! ; : ( )
    THISISPROTECTED000 \u00ad \u200b \ufeff \x7f \x80 \x00 \x1b""".split()  # noqa: SIM905
) | st.sampled_from([" ", "  ", "\t", "\xa0", "\u2028", "\u3000", "\x85", "\x0c", "\r", "\x1c"])
TEXT = st.one_of(
    st.lists(PIECES | st.just(" "), max_size=20).map("".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40),
)


@pytest.fixture(scope="module")
def sacremoses() -> dict[str, MosesTokenizer]:
    return {language: MosesTokenizer(language) for language in LANGUAGES}


@pytest.fixture(scope="module")
def ours() -> dict[tuple[str, bool], object]:
    return {(language, dash): tokenizer(language, dash) for language in LANGUAGES for dash in (False, True)}


@settings(max_examples=600)
@given(text=TEXT, language=st.sampled_from(LANGUAGES), dash=st.booleans())
def test_same_tokens_as_sacremoses(text, language, dash, sacremoses, ours):
    line = ours[language, dash](text)
    assert line == " ".join(sacremoses[language].tokenize(text, aggressive_dash_splits=dash, escape=True))
    assert line.split() == ([] if not line else line.split(" "))


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("en", "newstest-en-de/newstest2013.eng"),
        ("de", "newstest-en-de/newstest2013.deu"),
        ("en", "multi30k/val.en.gz"),
        ("fr", "multi30k/val.fr.gz"),
    ],
)
def test_same_tokens_on_real_text(language, name, shared_data, sacremoses, ours):
    data = (shared_data / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).decode().split("\n")
    for line in lines[:2000]:
        assert ours[language, False](line) == " ".join(sacremoses[language].tokenize(line)), line


def test_the_shortcut_for_commas_knows_the_numbers_of_the_rule(ours):
    others = [character for character in map(chr, range(0x110000)) if character != ","]
    split_off = MosesTokenizer.COMMA_SEPARATE_1[0].findall("".join(f"{character}," for character in others))
    assert set(others) - set(split_off) == ours["en", False].__self__._numbers


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A man isn't here, is he?", "A man isn &apos;t here , is he ?"),
        ("Mr. Smith paid $5,300.50 (net).", "Mr. Smith paid $ 5,300.50 ( net ) ."),
        ("well-known", "well-known"),
        ("wait...", "wait ..."),
        ("", ""),
        ("\x00 \u2028", ""),
    ],
)
def test_known_lines(text, tokens):
    assert tokenizer("en", False)(text) == tokens


def test_aggressive_dash():
    assert tokenizer("en", True)("a well-known T-shirt - red") == "a well @-@ known T @-@ shirt - red"


def test_detokenize_undoes_escapes_and_dashes():
    lines = ["It &apos;s a well @-@ known &quot; fact &quot; , isn &apos;t it ?", ""]
    assert list(detokenize(lines, "en")) == ["It's a well-known \"fact\", isn't it?", ""]
    assert list(detokenize(["Er sagte : &quot; Ja . &quot;"], "de")) == ['Er sagte: "Ja."']


@settings(max_examples=200)
@given(text=TEXT)
def test_detokenized_lines_stay_lines(text, ours):
    (line,) = detokenize([ours["en", False](text)], "en")
    assert "\n" not in line


def test_same_file_for_every_number_of_cores(tmp_path: Path, caplog):
    text = tmp_path / "text"
    text.write_text("".join(f"Line {number}, isn't it?\n\n" for number in range(4000)), encoding="utf-8")
    with caplog.at_level(logging.INFO, logger="phrasemt"):
        for cores in (1, 3):
            tokenize_text(
                settings=TokenizeText(language="en", aggressive_dash=False),
                cores=cores,
                text=text,
                tokens=tmp_path / f"tokens.{cores}",
            )
    written = (tmp_path / "tokens.1").read_bytes()
    assert written == (tmp_path / "tokens.3").read_bytes()
    assert written.count(b"\n") == 8000
    assert written.startswith(b"Line 0 , isn &apos;t it ?\n\nLine 1 ,")
    assert caplog.messages == ["tokenize_text: 8,000 lines, 28,000 tokens"] * 2


def test_a_language_without_rules_is_refused():
    with pytest.raises(DataError) as error:
        tokenizer("tlh", False)
    assert str(error.value).startswith(
        "language 'tlh': Moses has no rules for this language (expected one of as, bn, ca, cs, de, el, en, "
    )
    assert str(error.value).endswith(". Next: name the nearest of these languages in the data set")
    with pytest.raises(DataError):
        detokenize([], "tlh")


def test_chinese_is_not_cut_and_says_so(tmp_path: Path, caplog):
    (tmp_path / "text").write_text("你好，世界\n", encoding="utf-8")
    with caplog.at_level(logging.INFO, logger="phrasemt"):
        tokenize_text(
            settings=TokenizeText(language="zh", aggressive_dash=False),
            cores=1,
            text=tmp_path / "text",
            tokens=tmp_path / "tokens",
        )
    assert (tmp_path / "tokens").read_text(encoding="utf-8") == "你好 ， 世界\n"
    assert caplog.messages[0] == (
        "tokenize_text: Moses splits punctuation off but does not split Chinese into words; "
        "give a segmented text if words matter"
    )
