"""`phrasemt compare` on a finished study of invented translations."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from golden import GoldenStudy

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import Comparison
from phrasemt.artefacts.translations import AttentionAnalysis
from phrasemt.commands._scores import read_nats
from phrasemt.study.schema import Study


@pytest.fixture(scope="module")
def folder(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    study = GoldenStudy.part(golden, folder, datasets=("demo",)).study
    content = study.model_dump(mode="json", exclude_none=True)
    for name, changes in {"study.yaml": {}, "other.yaml": {"title": "Another"}}.items():
        (folder / name).write_text(yaml.safe_dump({**content, **changes}))
    return folder


@pytest.fixture
def compare(
    folder: Path, monkeypatch: pytest.MonkeyPatch, phrasemt: Callable[..., tuple[int, str, str]]
) -> Callable[..., str]:
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> str:
        code, out, err = phrasemt("compare", "--samples", "100", *arguments)
        assert (code, err) == (0, "")
        return out

    return call


def test_systems_differ_as_in_the_table_of_the_study(compare: Callable[..., str]) -> None:
    out = compare("base", "max", "mean", "--study", "study.yaml")
    assert re.search(r"^model\.family +transformer +phrase_representation +phrase_representation$", out, re.MULTILINE)
    assert "training." not in out
    for system in ("max", "mean"):
        path = Path(str(Paths("golden", dataset="demo", source="en", target="de").comparison.at(system=system)))
        for test_set in Comparison.read(path).test_sets.values():
            assert "nats" in test_set
            for metric, one in test_set.items():
                decimals = 3 if metric == "nats" else 2
                row = f"{metric} +{system} +1 2 +{one.system.value:.{decimals}f} +{one.difference.value:+.{decimals}f} "
                assert re.search(f"^{row}".replace("+-", r" *-").replace("++", r" *\+"), out, re.MULTILINE), row


def test_nats_of_other_subwords_are_not_compared(compare: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def with_other_subwords(study: Study, dataset: str) -> list[AttentionAnalysis]:
        other = {"sentence_tokens": [1] * 60}
        return [one.model_copy(update=other if one.system == "max" else {}) for one in read_nats(study, dataset)]

    monkeypatch.setattr("phrasemt.commands.compare.read_nats", with_other_subwords)
    out = compare("base", "max", "mean", "--study", "study.yaml")
    assert re.findall(r"^nats +(\w+)", out, re.MULTILINE)[:2] == ["base", "mean"]
    assert "no nats per token, or those of other subwords: max\n" in out


def test_sentences_that_gain_and_lose_most(compare: Callable[..., str]) -> None:
    out = compare("study.yaml:base", "study.yaml:max", "--sentences", "1")
    assert len(re.findall(r"^test:\d+ +[+-][\d.]+ sentence BLEU$", out, re.MULTILINE)) == 2
    assert re.search(r"^test: [\d,]+ of [\d,]+ translations differ", out, re.MULTILINE)


def test_a_system_of_two_equal_studies_does_not_differ(compare: Callable[..., str]) -> None:
    out = compare("study.yaml:max", "other.yaml:max", "--sentences", "0")
    assert out.startswith("settings: no difference\n")
    differences = re.findall(r"^bleu_tok +other.yaml:max +1 2 +[\d.]+ +(\S+) .+ ([\d.]+)$", out, re.MULTILINE)
    assert differences == [("+0.00", "1.00")]


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (["base"], "base: one side only"),
        (["base", "max", "base"], "base: the same side twice"),
        (["base", "mxa"], "mxa: no such system (expected one of base, max, mean; did you mean 'max'?)"),
        (["gone.yaml:base", "max"], "gone.yaml: 1 mistake in the study"),
    ],
)
def test_mistakes(
    sides: list[str],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    phrasemt: Callable[..., tuple[int, str, str]],
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = phrasemt("compare", *sides, "--study", "study.yaml")
    assert (code, out) == (2, "")
    assert said in err
