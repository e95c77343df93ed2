"""Mutated studies: whatever becomes of a study that comes with phrasemt, `check` answers in words and soon."""

from __future__ import annotations

import copy
import functools
import json
import math
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nist_texts import write_nist_texts

from phrasemt.cli import main
from phrasemt.files.yaml import parse_yaml

MUTANTS_OF_A_STUDY = 20
SECONDS = 60  # for one check, which takes a fraction of a second; far above that of a busy machine
ODD: list[Any] = [
    *(None, True, "", "x", "a b", "a/b\u2028", "{train}", "-x", "\x7f", "no", "1", "ü", "<name>", "x" * 300),
    *(-1, 0, 1, 0.5, 1e-300, 10**30, -math.inf, math.nan),
    *([], ["x"], [[]], [None], [1, 1], {}, {"x": 1}, {"": {}}, {"family": []}, {"family": "cost"}),
]
ODD_TEXT = [*"\t\n :[{}#%@`|'\"\\,=\ufeff\u2028\x85", ": ", "- ", "&a ", "*a", "<<: ", "!!int ", "? ", "---\n", "1e999"]


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*above, key)
        yield from _places(one, (*above, key))


def _mutated_values(text: str, draw: random.Random) -> str:
    """A study in which one place has an odd value or that of another place, another name, or is missing."""
    study = parse_yaml(text)
    places = list(_places(study))
    *above, key = draw.choice(places)
    section = functools.reduce(lambda inside, name: inside[name], above, study)
    change = draw.randrange(4)
    if change == 0:
        section[key] = draw.choice(ODD)
    elif change == 1:
        section[key] = copy.deepcopy(functools.reduce(lambda inside, name: inside[name], draw.choice(places), study))
    elif change == 2 or isinstance(section, list):
        del section[key]
    else:
        section[str(draw.choice(["", key[:-1], key.upper(), f"{key}s", *ODD]))] = section.pop(key)
    return json.dumps(study).replace("Infinity", ".inf").replace("NaN", ".nan")


def _mutated_text(text: str, draw: random.Random) -> str:
    """A study with odd characters in up to three places, in place of some others."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(["", *ODD_TEXT]) + text[at + draw.choice([0, 0, 1, 9]) :]
    return text


@pytest.mark.parametrize("studies", ["config.yaml", pytest.param("studies/*.yaml", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mutated", [_mutated_values, _mutated_text])
def test_a_mutated_study_is_right_or_its_mistakes_are_named(
    studies: str,
    mutated: Callable[[str, random.Random], str],
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_nist_texts(tmp_path / "data")
    draw = random.Random(53)
    wrong = 0
    for study in sorted(repository.glob(studies)):
        lines = study.read_text().splitlines(keepends=True)
        content = "".join(line for line in lines if not line.startswith("#"))  # a change of a comment is right
        for _ in range(MUTANTS_OF_A_STUDY):
            text = mutated(content, draw)
            Path("mutant.yaml").write_text(text, encoding="utf-8", newline="")
            signal.alarm(SECONDS)  # ends the tests: a study that hangs is as wrong as a traceback
            code = main(["check", "mutant.yaml"])
            signal.alarm(0)
            first, *mistakes = capsys.readouterr().err.split("\n")
            if code != 0:
                assert first.startswith("phrasemt check: error: mutant.yaml: "), (text, first)
                assert all(line.startswith("  - ") for line in mistakes[:-1]), (text, mistakes)
                assert not any("pattern" in line or "Input" in line for line in mistakes), (text, mistakes)
                wrong += 1
    assert wrong > 10
