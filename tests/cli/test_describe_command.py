"""`phrasemt describe` as people call it: two tables, and the one line of each mistake."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from phrasemt.files.lines import write_lines
from phrasemt.symbols import SPECIAL_TOKENS

STUDY = """\
study: small
datasets:
  demo: &demo
    source_language: en
    target_language: de
    generator: {train: 9, dev: 9, test: 9}
    subwords: {merges: 96}
  words: {<<: *demo, subwords: {unit: word, words: 46}}
systems:
  base:
    model: &model {family: transformer, width: 16, heads: 2, ffn_width: 32, encoder_layers: 2, decoder_layers: 3}
  max:
    model: {<<: *model, family: phrase_representation, width: 32, ta: on}
  lm:
    model: {family: language_model, width: 16, heads: 2, ffn_width: 32, layers: 2, attention: ngrams}
"""


@pytest.fixture
def describe(here, phrasemt):
    Path("study.yaml").write_text(STUDY)
    return functools.partial(phrasemt, "describe")


def parameters(out: str) -> dict[str, int]:
    """The column of parameters by part; parts inside of a stack have two spaces in front."""
    lines = re.findall(r"^((?:  )?[a-z_.]+) +(?:\d+ )? *([\d,]+) +[\d.]+%$", out, flags=re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in lines}


def test_a_plain_system(describe):
    code, out, err = describe("study.yaml", "--system", "base")
    assert (code, err) == (0, "")
    first, _, head, *lines = out.splitlines()
    assert first == (
        "base: transformer, on demo with 100 source and 100 target symbols "
        "(an estimate from subwords.merges, because there are no vocabulary files yet)"
    )
    assert head.split() == ["part", "layers", "parameters", "share"]
    found = parameters(out)
    assert found["embeddings.target_table"] == 100 * 16
    parts = {name for name in found if not name.startswith("  ")} - {"total"}
    assert found["total"] == sum(found[name] for name in parts)
    assert {"  attention", "  source_attention", "  ffn"} < found.keys()
    assert lines[-2] == "multiply-adds per target token, forward pass, for a pair of 27 positions on each side"
    assert lines[-1].split()[0] == "base"


def test_a_system_beside_its_baseline_and_the_plain_one_of_its_size(describe):
    code, out, err = describe("study.yaml", "--system", "max")
    assert (code, err) == (0, "")
    own, baseline, plain = (line.split() for line in out.splitlines()[-3:])
    assert own[0] == "max"
    assert baseline[:3] == ["base,", "the", "baseline"]
    assert plain[:5] == ["plain", "transformer", "of", "its", "size"]
    for *_, cheaper, times, ratio in (baseline, plain):
        assert times == "x"
        assert ratio == f"{int(own[1].replace(',', '')) / int(cheaper.replace(',', '')):.2f}"
    assert parameters(out)["transparent_attention"] == 3 * 3


def test_a_language_model_has_one_vocabulary(describe):
    code, out, err = describe("study.yaml", "--system", "lm", "--dataset", "words")
    assert (code, err) == (0, "")
    assert out.startswith(
        "lm: language_model with attention: ngrams, on words with 50 symbols "
        "(an estimate from subwords.words, because there are no vocabulary files yet)\n"
    )
    assert out.splitlines()[-1].startswith("plain language_model of its size")


def test_vocabulary_files_go_before_estimates(describe):
    folder = Path("results/small/demo.en-de")
    folder.mkdir(parents=True)
    for language, words in (("en", ["a", "b", "c"]), ("de", ["x"])):
        entries = [*((token, 0) for token in SPECIAL_TOKENS), *((word, 5) for word in words)]
        write_lines(folder / f"vocabulary.{language}.tsv", (f"{word}\t{count}" for word, count in entries))
    code, out, err = describe("study.yaml", "--system", "base")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == (
        "base: transformer, on demo with 7 source and 5 target symbols (results/small/demo.en-de/vocabulary.*.tsv)"
    )
    assert parameters(out)["embeddings.target_table"] == 5 * 16
