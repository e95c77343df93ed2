"""Witnesses: the examples of the YAML 1.2.2 specification, chapter 10.3, and PyYAML for merge keys."""

from __future__ import annotations

import itertools
import math

import pytest
import yaml

from phrasemt.files.yaml import parse_yaml


def test_the_core_schema() -> None:
    """Example 10.9 of the specification; each item is one of its kinds of plain scalars."""
    read = parse_yaml("""\
null: [null, Null, NULL, ~, ]
bool: [true, True, false, FALSE]
int: [0, 0o7, 0x3A, -19]
float: [0., -0.0, .5, +12e03, -2E+05]
infinite: [.inf, -.Inf, +.INF]
nan: .NAN
""")
    assert read[None] == [None] * 4  # the key is a null too, and a comma at the end begins no item
    assert read["bool"] == [True, True, False, False]
    assert read["int"] == [0, 7, 58, -19]
    assert read["float"] == [0.0, 0.0, 0.5, 12_000.0, -200_000.0]
    assert read["infinite"] == [math.inf, -math.inf, math.inf]
    assert math.isnan(read["nan"])


def test_what_yaml_1_1_reads_in_another_way() -> None:
    words = ["no", "on", "off", "yes", "1:30", "1_000", "2020-01-01", "0b1"]
    assert parse_yaml(f"[{', '.join(words)}]") == words
    assert parse_yaml("[010, 08]") == [10, 8]


MERGED = """\
base: &base {width: 16, heads: 2}
other: &other {heads: 4, norm: pre}
one: {<<: *base, heads: 8}
several: {<<: [*base, *other], tie: all}
nested:
  <<: &both {<<: *other, width: 3}
  deeper: [{<<: *both}, {<<: []}]
"""


def test_merge_keys_are_those_of_pyyaml() -> None:
    expected = yaml.safe_load(MERGED)
    assert parse_yaml(MERGED) == expected
    assert [list(block) for block in parse_yaml(MERGED).values()] == [list(block) for block in expected.values()]
    assert expected["one"] == {"width": 16, "heads": 8}
    assert expected["several"]["heads"] == 2


# Nine levels of nine aliases: half a kilobyte that stands for 387 million values.
LEVELS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
)
MERGED_LEVELS = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{{', '.join(f'k{number}: {{<<: *{before}}}' for number in range(9))}}}\n"
    for before, name in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1, at 'a: 3': while constructing a mapping, found duplicate key"),
        ("1: a\n0x1: b\n", "line 2, column 1, at '0x1: b': while constructing a mapping, found duplicate key"),
        ("{<<: {a: 1}, <<: {b: 1}}", "found duplicate key"),
        ("? [a]\n: 1\n", "found unhashable key"),
        ("a: é\nb: 1\nc: \0\n", "line 3: control characters are not allowed"),
        ("a: &a\n  b: *a\n", "or an alias inside the block that it stands for"),
        (LEVELS, "more than 300,000 values, with those that aliases stand for"),
        (MERGED_LEVELS, "more than 300,000 values, with those that aliases stand for"),
        ("a: *b", "line 1, column 4, at '*b': found undefined alias"),
        ("a: {<<: 3}", "<< takes a mapping or a list of mappings, found '3'"),
        ("a: 1\n---\nb: 2\n", "expected a single document in the stream, but found another document"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        parse_yaml(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
