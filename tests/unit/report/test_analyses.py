"""The parts of the section "Analyses" about attention, from files made by hand."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import made_table
import numpy as np
from made_table import accuracy

from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.files.attention import AttentionMap
from phrasemt.report.sections.analyses import attention_analyses, contrast_analyses, control_analyses, gain_analyses
from phrasemt.report.sections.sentences import groups_of_heads
from phrasemt.scoring.gains import PairedTest, decided_pairs, gains_of, words_of
from phrasemt.scoring.significance import detectable, seeds_needed

TITLES = {"base": "Transformer", "ng": "phrasal <1-2>", "pr": "+PR"}
FOLDER = Path("results/study/d.en-de/attention")


def _attention(place: str, layer: int, heads: list[list[float]]) -> dict[str, Any]:
    mass = np.mean(heads, axis=0).tolist()
    return {"place": place, "layer": layer, "mass": mass, "heads": heads, "entropy": np.log(3), "keys": 7.5}


def _write(system: str, attentions: list[dict[str, Any]], **diagnostics: float) -> None:
    folder = FOLDER / system / "1"
    folder.mkdir(parents=True)
    place = {"dataset": "d", "test_set": "test", "system": system, "seed": 1, "sentences": 2, "tokens": 9}
    nats = {"sentence_nats": [3.0, 9.0 if system == "base" else 6.0], "sentence_tokens": [3, 6]}
    content = {"format": 2, **place, "perplexity": 4.0, "diagnostics": diagnostics, "attentions": attentions, **nats}
    (folder / "test.json").write_text(json.dumps(content))


TABLE = made_table.table(TITLES, {"pr": "base", "ng": "pr"})
TEST = PairedTest(samples=20, seed=1)
CONTROLS = {"pr": ["ng"]}


def _parts(tmp_path: Path, monkeypatch: Any) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    without = {"perplexity_without_phrases": 5.0, "perplexity_without_encoder_phrases": 4.0}
    _write("pr", [_attention("cross", 1, [[1.0], [1.0]])], **without)
    _write("ng", [_attention("cross", layer, [[0.5, 0.5], [0.3, 0.7]]) for layer in (1, 2)])
    _write("base", [_attention("cross", 1, [[1.0], [1.0]])])
    paths = sorted(FOLDER.rglob("*.json"))
    tokens = tmp_path / "results/study/d.en-de/tokens/test.en"
    tokens.parent.mkdir()
    tokens.write_text("a b\na b c d e f g h\n")
    words = words_of([tokens.relative_to(tmp_path)])
    scored = list(gains_of(scores=[], analyses=map(AttentionAnalysis.read, paths), words=words, test=TEST))
    (gains,) = gain_analyses(TABLE, CONTROLS, scored)
    (beside,) = control_analyses(TABLE, CONTROLS, scored)
    parts = attention_analyses(list(map(AttentionAnalysis.read, paths)), TITLES)
    return {part.heading: part for part in (gains, beside, *parts)}


def test_gains_on_contrastive_pairs_by_distance() -> None:
    """Two seeds: +PR decides 3 of 4 pairs at distances 9 to 12 right in place of 1, and all pairs at 1 as before."""
    files = [
        accuracy(system, [True, True, True, *([system == "pr"] * 2), False], [1, 1, 9, 10, 11, 12], seed=seed)
        for system, seed in itertools.product(("base", "pr"), (1, 2))
    ]
    (part,) = contrast_analyses(TABLE, {}, decided_pairs(files, TEST))
    (table,) = part.tables
    assert table.headings == ["System", "1-2 (2)", "9-12 (4)", ">10 (2)", "all (6)", "Slope"]
    ((title, *cells),) = table.rows
    assert title == "+PR"
    assert [cell.split(" [")[0] for cell in cells[:4]] == ["+0.0", "+50.0", "+50.0", "+33.3"]
    assert cells[-1].startswith("+")
    assert [cell.split("], ")[1] for cell in cells[1:]] == [f"not decided ({pairs} pairs)" for pairs in (4, 2, 6, 6)]


def test_a_gain_without_significance_has_its_power_beside_it() -> None:
    """Two seeds of each system: 9 and 15 of 30 pairs right, and 12 and 24. The figures are those of a t-test."""
    files = [
        accuracy(system, [place < right for place in range(30)], [1] * 30, seed=seed)
        for (system, seed), right in zip(itertools.product(("base", "pr"), (1, 2)), (9, 15, 12, 24), strict=True)
    ]
    (part,) = contrast_analyses(TABLE, {}, decided_pairs(files, TEST))
    ((_, cell, *_),) = part.tables[0].rows
    deviation = math.sqrt((14.142**2 + 28.284**2) / 2)
    shown, needed = detectable(deviation, 2), seeds_needed(20, deviation, deviation)
    assert cell.startswith("+20.0 [")
    assert cell.endswith(f" ({shown:.1f} would show, or with {needed} trainings)")


def test_gains_in_nats_by_length(tmp_path: Path, monkeypatch: Any) -> None:
    """8 words cost 6/6 nats per token in place of 9/6, and 2 words 3/3 in both: 0.5 in two doublings."""
    gains = _parts(tmp_path, monkeypatch)["Gains by length of the source"]
    (table,) = gains.tables
    assert table.headings == ["System", "≤3 (1)", ">6 (1)", "≤15 (2)", "Slope"]
    rows = {row[0]: [cell.split(" [")[0] for cell in row[1:]] for row in table.rows}
    assert rows["+PR"] == ["+0.000", "-0.500", "-0.333", "+0.250"]
    assert rows["phrasal <1-2>"][-1] == "+0.000"  # compared with +PR
    assert rows["+PR, beside phrasal <1-2>"][-1] == "+0.000"


def test_numbers_of_the_files(tmp_path: Path, monkeypatch: Any) -> None:
    parts = _parts(tmp_path, monkeypatch)
    (table,) = parts["Do the models use their phrases?"].tables
    assert table.headings == ["System", "Perplexity", "Without phrases", "Without phrases in the encoder"]
    assert table.rows == [
        ["Transformer", "4.000", "–", "–"],
        ["phrasal <1-2>", "4.000", "–", "–"],
        ["+PR", "4.000", "5.000 (+25.0 %)", "4.000 (+0.0 %)"],
    ]
    masses = parts["Attention on n-grams by layer"]
    (drawing,) = masses.drawings
    assert drawing.title == "phrasal <1-2>, d test: 60.0 % on n-grams"
    assert "60.0 (50.0 to 70.0) at 1, 60.0 (50.0 to 70.0) at 2" in drawing.description


def test_systems_stand_beside_their_controls(tmp_path: Path, monkeypatch: Any) -> None:
    (table,) = _parts(tmp_path, monkeypatch)["Systems beside their controls"].tables
    assert table.headings == ["System", "Control", "Difference in nats per token"]
    assert table.rows == [["+PR", "phrasal <1-2>", "+0.000 [+0.000, +0.000], not decided (2 sentences)"]]
    assert not list(control_analyses(TABLE, {}, []))


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
