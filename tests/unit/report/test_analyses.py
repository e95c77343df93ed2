"""The parts of the section "Analyses" about attention, from files made by hand."""

from __future__ import annotations

import html
import itertools
import json
import re
from pathlib import Path
from typing import Any

import made_table
import numpy as np
from made_table import accuracy, cell

from phrasemt.artefacts.table import Block, Row, Table
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.files.attention import AttentionMap
from phrasemt.report.page import Section, drawings_in
from phrasemt.report.sections.analyses import attention_sections, controls_section, lengths_section, pairs_section
from phrasemt.report.sections.sentences import groups_of_heads
from phrasemt.scoring.gains import PairedTest, gains_of, gains_of_pairs, words_of

TITLES = {"base": "Transformer", "ng": "phrasal <1-2>", "pr": "+PR"}
FOLDER = Path("results/study/d.en-de/attention")


def _attention(place: str, layer: int, heads: list[list[float]]) -> dict[str, Any]:
    mass = np.mean(heads, axis=0).tolist()
    return {"place": place, "layer": layer, "mass": mass, "heads": heads, "entropy": np.log(3), "keys": 7.5}


def _write(system: str, attentions: list[dict[str, Any]], **diagnostics: float) -> None:
    folder = FOLDER / system / "1"
    folder.mkdir(parents=True)
    place = {"dataset": "d", "test_set": "test", "system": system, "seed": 1, "sentences": 60, "tokens": 270}
    nats = {"sentence_nats": [3.0, 9.0 if system == "base" else 6.0] * 30, "sentence_tokens": [3, 6] * 30}
    content = {"format": 2, **place, "perplexity": 4.0, "diagnostics": diagnostics, "attentions": attentions, **nats}
    (folder / "test.json").write_text(json.dumps(content))


TABLE = made_table.table(TITLES, {"pr": "base", "ng": "pr"})
TEST = PairedTest(samples=20, seed=1)
CONTROLS = {"pr": ["ng"]}


def _sections(tmp_path: Path, monkeypatch: Any) -> dict[str, Section]:
    monkeypatch.chdir(tmp_path)
    without = {"perplexity_without_phrases": 5.0, "perplexity_without_encoder_phrases": 4.0}
    _write("pr", [_attention("cross", 1, [[1.0], [1.0]])], **without)
    _write("ng", [_attention("cross", layer, [[0.5, 0.5], [0.3, 0.7]]) for layer in (1, 2)])
    _write("base", [_attention("cross", 1, [[1.0], [1.0]])])
    paths = sorted(FOLDER.rglob("*.json"))
    tokens = tmp_path / "results/study/d.en-de/tokens/test.en"
    tokens.parent.mkdir()
    tokens.write_text("a b\na b c d e f g h\n" * 30)
    words = words_of([tokens.relative_to(tmp_path)])
    scored = list(gains_of(scores=[], analyses=map(AttentionAnalysis.read, paths), words=words, test=TEST))
    compared = lengths_section(TABLE, CONTROLS, scored), controls_section(TABLE, CONTROLS, scored)
    sections = [*compared, *attention_sections(list(map(AttentionAnalysis.read, paths)), TITLES)]
    return {section.anchor: section for section in sections if section}


def _rows(section: Section | None) -> list[list[str]]:
    """The rows of the first table of a section, headings first."""
    assert section is not None
    table = str(section.content).split("<table>")[1].split("</table>")[0].replace("<thead>", "")
    cells = [re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
    return [[html.unescape(cell).replace("−", "-") for cell in row] for row in cells]


def _with_pairs() -> Table:
    """The table with accuracies of three groups of pairs, the last of 29 pairs."""
    sizes = {"all": 180, "1-2": 60, "9-12": 91, "16+": 29}
    cells = {
        group: cell(50.0, width=9, signature=f"contrastive_accuracy|group:{group}|pairs:{size}")
        for group, size in sizes.items()
    }
    rows = [Row(system=name, title=title, cells=cells) for name, title in TITLES.items()]
    about: dict[str, Any] = {"columns": [], "notes": [], "size": 180}
    block = Block(kind="contrasts", dataset="d", contrast_set="c", rows=rows, **about)
    return TABLE.model_copy(update={"blocks": [block]})


def test_gains_on_contrastive_pairs_by_distance() -> None:
    """Two seeds: +PR decides 3 of 4 pairs at distances 9 to 12 right in place of 1, and all pairs at 1 as before."""
    files = [
        accuracy(system, [True, True, True, *([system == "pr"] * 2), False] * 30, [1, 1, 9, 10, 11, 12] * 30, seed=seed)
        for system, seed in itertools.product(("base", "pr"), (1, 2))
    ]
    section = pairs_section(_with_pairs(), {}, gains_of_pairs(files, TEST))
    headings, (title, *gains) = _rows(section)
    assert headings == ["System", "1-2 (60)", "9-12 (120)", ">10 (60)", "all (180)", "Slope"]
    assert title == "+PR"
    assert [gain.split(" (")[0] for gain in gains[:4]] == ["+0.0", "+50.0", "+50.0", "+33.3"]
    assert gains[-1].startswith("+")
    assert all(", p " in gain for gain in gains)


def test_small_groups_are_neither_points_nor_columns() -> None:
    few = [accuracy(system, [True] * 29 + [False] * 40, [1] * 29 + [3] * 40) for system in ("base", "pr")]
    section = pairs_section(_with_pairs(), {}, gains_of_pairs(few, TEST))
    assert section is not None
    (drawing,) = drawings_in(section.content)
    assert "at 9-12 (91)" in html.unescape(drawing.svg)
    assert "16+" not in drawing.svg
    assert _rows(section)[0] == ["System", "3-4 (40)", "all (69)", "Slope"]


def test_gains_in_nats_by_length(tmp_path: Path, monkeypatch: Any) -> None:
    """8 words cost 6/6 nats per token in place of 9/6, and 2 words 3/3 in both: 0.5 in two doublings."""
    headings, *rows = _rows(_sections(tmp_path, monkeypatch)["lengths"])
    assert headings == ["System", "≤2 (30)", ">5 (30)", "≤15 (60)", "Slope"]
    shown = {row[0]: [cell.split(" (")[0] for cell in row[1:]] for row in rows}
    assert shown["+PR"] == ["+0.000", "-0.500", "-0.333", "+0.250"]
    assert shown["phrasal <1-2>"][-1] == "+0.000"  # compared with +PR
    assert shown["+PR, beside phrasal <1-2>"][-1] == "+0.000"


def test_numbers_of_the_files(tmp_path: Path, monkeypatch: Any) -> None:
    sections = _sections(tmp_path, monkeypatch)
    headings, *rows = _rows(sections["phrases"])
    assert headings == ["System", "Perplexity", "Without phrases", "Without phrases in the encoder"]
    assert rows == [
        ["Transformer", "4.000", "–", "–"],
        ["phrasal <1-2>", "4.000", "–", "–"],
        ["+PR", "4.000", "5.000 (+25.0 %)", "4.000 (+0.0 %)"],
    ]
    assert sections["phrases"].finding == "without them, test perplexity rises by 25 %"
    (drawing,) = drawings_in(sections["attention"].content)
    assert drawing.title == "phrasal <1-2>, d test: 60.0 % on n-grams"
    assert "60.0 (50.0 to 70.0) at 1, 60.0 (50.0 to 70.0) at 2" in html.unescape(drawing.svg)


def test_systems_stand_beside_their_controls(tmp_path: Path, monkeypatch: Any) -> None:
    section = _sections(tmp_path, monkeypatch)["controls"]
    headings, row = _rows(section)
    assert headings == ["System", "Control", "Difference in nats per token"]
    assert row == ["+PR", "phrasal <1-2>", "+0.000 (0.000 to 0.000)"]
    assert section.finding == "+PR minus phrasal <1-2>: +0.000 (0.000 to 0.000)"
    assert controls_section(TABLE, {}, []) is None


def test_groups_of_heads_by_the_half_that_has_more_of_their_weight() -> None:
    """Head 1 gives tokens 0.7, heads 2 and 3 give n-grams 0.6 and 0.8; n-grams of both orders make one half."""
    weights_hTNS = np.zeros((3, 1, 3, 2), dtype=np.float32)
    weights_hTNS[0, 0, :, 0] = 0.7, 0.2, 0.1
    weights_hTNS[1, 0, :, 1] = 0.4, 0.3, 0.3
    weights_hTNS[2, 0, :, 1] = 0.2, 0.8, 0.0
    groups = dict(groups_of_heads(AttentionMap(place="cross", layer=1, weights_hTNS=weights_hTNS)))
    assert list(groups) == [
        "mean over heads", "heads on tokens (1)", "heads on n-grams (2, 3)", "head 1", "head 2", "head 3",
    ]  # fmt: skip
    assert groups["mean over heads"].shape == (1, 3, 2)
    np.testing.assert_allclose(groups["heads on tokens (1)"][0], [[0.7, 0], [0.3, 0]], atol=1e-6)
    np.testing.assert_allclose(groups["heads on n-grams (2, 3)"][0], [[0, 0.3], [0, 0.7]], atol=1e-6)
    np.testing.assert_allclose(groups["head 2"][0], [[0, 0.4], [0, 0.6]], atol=1e-6)
    plain = AttentionMap(place="enc_self", layer=1, weights_hTNS=weights_hTNS[:, :, :1])
    assert list(dict(groups_of_heads(plain))) == ["mean over heads"]
