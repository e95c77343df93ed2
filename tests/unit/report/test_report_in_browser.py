"""The report of an invented study in a real browser: it opens, searches, sorts, and takes no text for HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser, needs_browser
from golden import HOSTILE
from sacrebleu import sentence_bleu as sentence_bleu_of_sacrebleu

from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.report.page import write_page
from phrasemt.report.sections.sentences import TestSetContent as ShownSentences
from phrasemt.report.sections.sentences import sentence_bleu, sentences_section
from phrasemt.symbols import unescape

WIDTHS = (320, 400, 700, 1300, 1920)


@pytest.fixture(scope="module")
def folder(golden: Path) -> Path:
    return golden / "results" / "golden"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Browser, folder: Path) -> Browser:
    """The browser, which shows the sentences of the report."""
    chromium.problems.clear()
    chromium.size(1280)
    chromium.open(folder / "report.html")
    chromium.run("document.getElementById('sentences').scrollIntoView()")
    chromium.wait_for("document.querySelector('.row')")
    return chromium


def choose(page: Browser, name: str, value: str) -> None:
    control = f"document.querySelector('#explorer-controls [name={name}]')"
    page.run(f"{control}.value = {value!r}; {control}.dispatchEvent(new Event('input'))")


def rows(page: Browser) -> list[str]:
    listed: list[str] = page.run("[...document.querySelectorAll('.row')].map(row => row.textContent)")
    return listed


@needs_browser
def test_text_of_a_corpus_is_never_html(page: Browser) -> None:
    assert page.problems == []
    assert page.run("document.images.length") == 0
    assert page.run("document.title") == "Phrases on <golden> data"
    source = unescape(HOSTILE)
    assert rows(page)[0].startswith(source)
    assert page.run("document.querySelector('#explorer-detail .sentence').textContent") == source
    leaves = page.run("[...document.querySelectorAll('.tree .leaf')].map(leaf => leaf.textContent)")
    assert leaves == source.split(" ")


@needs_browser
def test_search_length_and_order_choose_the_sentences(page: Browser) -> None:
    choose(page, "query", "NUMBER 17 ")
    assert [row.split(" ")[1] for row in rows(page)] == ["17"]
    choose(page, "query", "no such words")
    assert rows(page) == []
    assert page.run("document.getElementById('explorer-detail').textContent") == "No sentence is like that."
    choose(page, "query", "")
    choose(page, "shortest", "9")
    choose(page, "longest", "10")
    lengths = {page.run(f"document.querySelectorAll('.row')[{n}].textContent.split(' · ')[1]") for n in range(3)}
    assert lengths <= {"9 words", "10 words"}
    choose(page, "shortest", "")
    choose(page, "longest", "")
    choose(page, "order", "best")
    change = "[...document.querySelectorAll('.row b')].map(b => Number(b.textContent.slice(1).replace('−', '-')))"
    changes = page.run(change)
    assert len(changes) > 5
    assert changes == sorted(changes, reverse=True)
    choose(page, "order", "worst")
    changes = page.run(change)
    assert changes == sorted(changes)
    assert page.problems == []


@needs_browser
def test_an_address_shows_a_sentence_an_order_and_two_systems(page: Browser, folder: Path) -> None:
    for name, value in {"set": "1", "system": "2", "other": "1", "order": "length"}.items():
        choose(page, name, value)
        page.wait_for("location.hash.includes('sentence=')")
    page.run("document.getElementById('explorer-list').focus()")
    page.press("ArrowDown", "ArrowDown")
    shown = "document.querySelector('#explorer-detail h3').textContent"
    sentence, address = page.run(shown), page.run("location.href")
    assert page.run("document.querySelector('#explorer-detail h3 a').href") == address
    page.open("about:blank")
    page.open(address)
    page.wait_for("document.querySelector('.row[aria-selected=true]')")
    assert page.run(shown) == sentence
    controls = (
        "['set', 'system', 'other', 'order'].map(name => document.getElementById('explorer-controls')[name].value)"
    )
    page.wait_for("document.getElementById('explorer-controls').order.value === 'length'")
    assert page.run(controls) == ["1", "2", "1", "length"]
    assert page.problems == []


@needs_browser
def test_tables_give_their_numbers(page: Browser) -> None:
    of = "[...document.querySelectorAll('.wide > table')]"
    assert page.run("document.querySelectorAll('.download').length") == page.run(f"{of}.length") > 10
    page.run("document.querySelector('.download').addEventListener('click', (event) => event.preventDefault())")
    page.run("document.querySelector('.download').click()")
    assert page.run("document.querySelector('.download').href").startswith("blob:")
    assert page.problems == []


@needs_browser
def test_keys_move_through_the_list(page: Browser) -> None:
    page.press("/")
    assert page.run("document.activeElement.name") == "query"
    page.run("document.getElementById('explorer-list').focus()")
    heading = "document.querySelector('#explorer-detail h3').textContent"
    for key, number in (("ArrowDown", 2), ("End", 60), ("ArrowUp", 59), ("Home", 1)):
        page.press(key)
        assert page.run(heading) == f"Sentence {number}"
        active = page.run("document.getElementById('explorer-list').getAttribute('aria-activedescendant')")
        assert page.run(f"document.getElementById({active!r}).getAttribute('aria-selected')") == "true"


@needs_browser
def test_differences_phrases_and_chunks_of_a_sentence_are_shown(page: Browser, folder: Path) -> None:
    page.run("document.getElementById('explorer-list').focus()")
    page.press("ArrowDown")
    files = folder / "demo.en-de"
    reference = (files / "tokens/test.de").read_text().split("\n")[1].split(" ")
    outputs = [
        (files / "translations" / system / "1" / "test.tok").read_text().split("\n")[1].split(" ")
        for system in ("base", "max", "mean")
    ]
    lines = "[...document.querySelectorAll('#explorer-detail .line')].slice(-3)"
    shown = page.run(f"{lines}.map(line => line.querySelector('p').textContent.replaceAll('‸', '').trim())")
    assert [line.split() for line in shown] == outputs
    kept = page.run(
        f"{lines}.map(line => [...line.querySelector('p').childNodes].filter(n => n.nodeType === 3)"
        ".map(n => n.textContent).join('').trim())"
    )
    for words in kept:  # what is not marked stands in the reference, in its order
        places = iter(reference)
        assert all(word in places for word in words.split())
    pieces = page.run("[...document.querySelectorAll('.pieces')].map(one => [...one.children].map(c => c.textContent))")
    source = (files / "tokens/test.en").read_text().split("\n")[1].split(" ")
    assert pieces[0] == [" ".join([*source, "</s>"][at : at + 2]) for at in range(0, len(source) + 1, 2)]
    assert pieces[1][0] == f"VP {' '.join(reference[:3])}"


@needs_browser
def test_a_heat_map_is_drawn_on_demand(page: Browser) -> None:
    choose(page, "order", "maps")
    page.run("document.getElementById('explorer-list').focus()")
    page.press("Home")
    assert page.run("document.querySelector('#explorer-detail h3').textContent") == "Sentence 2"
    assert page.run("document.querySelectorAll('.map').length") == 0
    page.run("document.querySelector('.maps summary').click()")
    page.wait_for("document.querySelector('.map')")
    titles = page.run("[...document.querySelectorAll('.map .cell title')].map(title => title.textContent)")
    source = unescape(page.run("document.querySelector('#explorer-detail .sentence').textContent")).split(" ")
    first = page.run("document.querySelector('.map text').textContent")
    keys = len(source) + 1  # with </s>
    one_half = len(titles) // 2  # tokens, then bigrams
    row = [*titles[:keys], *titles[one_half : one_half + keys]]
    heavy = [title for title in row if not title.endswith(": 0.000")]
    # (180 / 255)^2: the roots of weights travel as bytes
    assert heavy == [f"{first} → {source[0]}: 0.498", f"{first} → </s>: 0.498"]
    assert page.run("[...document.querySelectorAll('.map .panel')].map(one => one.textContent)") == [
        "tokens",
        "2-grams",
    ]
    heads = "[...document.querySelectorAll('.maps select[aria-label=heads] option')].map(one => one.textContent)"
    names = page.run(heads)
    assert names[0] == "mean over heads"
    assert names[-1].startswith("head ")
    page.run("{ const heads = document.querySelector('.maps select[aria-label=heads]');"
             " heads.value = heads.options.length - 1; heads.dispatchEvent(new Event('change')); }")  # fmt: skip
    assert page.run("[...document.querySelectorAll('.map .panel')].map(one => one.textContent)")[1] == "n-grams"
    page.size(400)
    assert page.run("document.documentElement.scrollWidth") <= 400
    assert page.problems == []


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off(page: Browser, width: int) -> None:
    """Whatever is wider than the window stands in a region that scrolls."""
    page.size(width)
    page.run("document.querySelectorAll('section > details').forEach((one) => { one.open = true; })")
    assert page.run("document.documentElement.scrollWidth") <= width
    headings = "[...document.querySelectorAll('main > section')].map(one => one.querySelector('h2').textContent)"
    assert page.run("[...document.querySelectorAll('nav a')].map(link => link.textContent)") == page.run(headings)
    right = "Math.max(...[...document.querySelectorAll('nav a')].map(link => link.getBoundingClientRect().right))"
    assert page.run(right) <= width
    heights = page.run("[...document.querySelectorAll('.wide thead')].map(one => one.getBoundingClientRect().height)")
    assert max(heights) < 2 * 24, "a heading of two lines leaves an empty band where it is scrolled out of sight"
    if width >= 1300:
        first = "document.querySelector('#results .wide')"
        assert page.run(f"{first}.scrollWidth <= {first}.clientWidth")


@needs_browser
def test_figures_follow_the_dark_mode(page: Browser) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        point, text = (f"getComputedStyle(document.querySelector('.plot {one}')).fill" for one in (".point", "text"))
        colours |= {page.run(point), page.run(text)}
    page.call("Emulation.setEmulatedMedia", features=[])
    assert len(colours) == 4


@needs_browser
def test_links_and_printing_open_folded_sections(page: Browser) -> None:
    shown = "document.querySelector('#metrics > details').open"
    assert not page.run(shown)
    page.run("document.querySelector('nav a[href=\"#metrics\"]').click()")
    page.wait_for(shown)
    page.run("document.querySelector('#metrics th a').click()")
    page.wait_for("document.querySelector('#origins > details').open")
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    assert page.run("[...document.querySelectorAll('section > details')].every((one) => one.open)")


@needs_browser
@pytest.mark.parametrize("width", [700, 1280])
def test_no_label_of_a_parse_is_cut_off(chromium: Browser, folder: Path, tmp_path: Path, width: int) -> None:
    """Long labels over short words, wide letters, and more words than a window has room for."""
    flat = "(ROOT (S " + " ".join(f"(NP (NN {place}))" for place in range(45)) + "))"
    long = "(ROOT (FRAGMENT (WHADJPX (UH 0)) (CONJUNCTIONS (INTERJECTIONS (. 1)))))"
    sources, trees = ["word " * 45, "i !", "WWWW MMMMMMMM"], [flat, long, "(ROOT (NP (NNP 0) (NNP 1)))"]
    lines = ["x"] * len(trees)
    content = ShownSentences(sources, lines, outputs={"base": lines}, scores={"base": [0.0] * 3}, trees=trees)
    section = sentences_section(Table.read(folder / "table.json"), {("d", "test"): content})
    (tmp_path / "page.html").write_text(write_page("t", "", "", [section]))
    chromium.size(width)
    chromium.open(tmp_path / "page.html")
    chromium.wait_for("document.querySelector('.row')")
    ends = "(one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
    for number in range(len(trees)):
        chromium.run(f"document.querySelectorAll('.row')[{number}].click()")
        left, right = chromium.run(f"({ends})(document.querySelector('.tree svg'))")
        texts = chromium.run(f"[...document.querySelectorAll('.tree text')].map({ends})")
        assert all(left <= start and end <= right for start, end in texts), number
        assert left >= chromium.run(f"({ends})(document.querySelector('.tree'))[0]")


def test_sentence_scores_are_those_of_sacrebleu(folder: Path) -> None:
    files = folder / "demo.en-de"
    references = (files / "tokens/test.de").read_text().split("\n")[:-1]
    outputs = (files / "translations/max/1/test.tok").read_text().split("\n")[:-1]
    statistics = SystemScores.read(files / "scores/max/1.json").test_sets["test"].statistics["bleu_tok"]
    for output, reference, row in zip(outputs, references, statistics, strict=True):
        witness = sentence_bleu_of_sacrebleu(output, [reference], tokenize="none")
        assert sentence_bleu(row) == pytest.approx(witness.score)
