"""What the rules ask of a study: paths, patterns, settings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from phrasemt.artefacts.paths import Paths
from phrasemt.errors import StudyError
from phrasemt.registry.corpora import load_registry
from phrasemt.runs.notes import RunNote, study_of
from phrasemt.runs.start import open_study
from phrasemt.study.schema import Study
from phrasemt.workflow.check import read_study
from phrasemt.workflow.flow import Flow

PATTERN = Paths("mixed").translated_text


def _study(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    for name in ("my.en", "my.de", "more.en", "more.de"):
        (tmp_path / name).write_text("a\n")
    mine = {"source": str(tmp_path / "my.en"), "target": str(tmp_path / "my.de")}
    more = {"source": str(tmp_path / "more.en"), "target": str(tmp_path / "more.de")}
    registered = {"corpus": "multi30k", "part": "train"}
    languages = {"source_language": "en", "target_language": "de"}
    return {
        "study": "mixed",
        "seeds": [1, 2],
        "datasets": {
            "generated": {**languages, "generator": {"train": 9, "dev": 9, "test": 9}},
            "cut": {**languages, "partition": {"text": mine, "dev": 1, "test": 1}},
            "mine": {
                **languages,
                "splits": {"train": [mine, more], "dev": [mine], "test": {"a": [mine], "b": [more]}},
                "overlap": "allowed",
            },
            "sampled": {
                **languages,
                "splits": {"train": [mine, more], "dev": {"sample": 1}, "test": {"s": [more]}},
                "overlap": "allowed",
            },
            "back": {
                "source_language": "de",
                "target_language": "en",
                "splits": {"train": [registered, mine], "dev": [registered], "test": {"c": [registered]}},
            },
        },
        "systems": {"base": {"model": {"family": "transformer"}}, "wide": {"model": {"family": "transformer"}}},
        **changes,
    }


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(Study.model_validate(_study(tmp_path)))


def _wildcards(**names: str) -> SimpleNamespace:
    """Snakemake's wildcards: attributes and items()."""
    return SimpleNamespace(**names, items=names.items)


def test_every_asks_for_each_data_sets_own_splits(flow: Flow) -> None:
    paths = flow.every(PATTERN)
    assert len(paths) == len(set(paths)) == (1 + 1 + 2 + 1 + 1) * 2 * 2
    assert "results/mixed/mine.en-de/translations/wide/2/b.txt" in paths
    assert "results/mixed/back.de-en/translations/base/1/c.txt" in paths
    assert flow.every("{dataset}/{split}", datasets=["mine"], splits="all") == [
        "mine/train", "mine/dev", "mine/a", "mine/b",
    ]  # fmt: skip
    assert flow.every("{system}", systems=flow.challengers) == ["wide"]
    assert flow.every("{system}", datasets=[]) == []


def _with_references(tmp_path: Path) -> dict[str, Any]:
    raw = _study(tmp_path)
    for name in ("two.de", "three.de"):
        (tmp_path / name).write_text("b\n")
    tests = raw["datasets"]["mine"]["splits"]["test"]
    further = [str(tmp_path / name) for name in ("two.de", "three.de")]
    tests["b"] = [{**tests["b"][0], "references": further}]
    return raw


# Which files a job reads: stage and input, wildcards, and files; those of the user are below HOME.
FILES = [
    (("clean_pairs", "raw_source"), {"dataset": "mine", "split": "train"}, ["HOME/my.en", "HOME/more.en"]),
    (("clean_pairs", "raw_target"), {"dataset": "mine", "split": "b"}, ["HOME/more.de"]),
    (("clean_pairs", "raw_target"), {"dataset": "mine", "split": "b.2"}, ["HOME/two.de"]),
    (("clean_pairs", "raw_source"), {"dataset": "mine", "split": "b.3"}, ["HOME/more.en"]),
    (("clean_pairs", "raw_source"), {"dataset": "generated", "split": "dev"}, ["RESULTS/generated.en-de/raw/dev.en"]),
    (("clean_pairs", "raw_target"), {"dataset": "cut", "split": "test"}, ["RESULTS/cut.en-de/raw/test.de"]),
    (
        ("clean_pairs", "raw_source"),
        {"dataset": "back", "split": "train"},
        ["resources/multi30k/train.de", "HOME/my.en"],
    ),
    # Train and dev are what the cut makes of both texts; the test set is a text of the user as ever.
    (("clean_pairs", "raw_target"), {"dataset": "sampled", "split": "dev"}, ["RESULTS/sampled.en-de/raw/dev.de"]),
    (("clean_pairs", "raw_target"), {"dataset": "sampled", "split": "s"}, ["HOME/more.de"]),
    (("partition_corpus", "source"), {"dataset": "sampled"}, ["HOME/my.en", "HOME/more.en"]),
    (("partition_corpus", "target"), {"dataset": "cut"}, ["HOME/my.de"]),
    (
        ("extract_text", "files"),
        {"corpus": "multi30k", "part": "train", "language": "de"},
        ["resources/multi30k/original/train.de.gz"],
    ),
]


@pytest.mark.parametrize(("table", "wildcards", "expected"), FILES)
def test_files_of_a_job(tmp_path: Path, table: tuple[str, ...], wildcards: dict[str, str], expected: list[str]) -> None:
    flow = Flow(Study.model_validate(_with_references(tmp_path)))
    found = flow.files(*table)(_wildcards(**wildcards))
    assert found == [one.replace("HOME", str(tmp_path)).replace("RESULTS", "results/mixed") for one in expected]


def test_only_further_references_are_compared_beside_the_test_sets(tmp_path: Path) -> None:
    flow = Flow(Study.model_validate(_with_references(tmp_path)))
    assert re.fullmatch(flow.wildcards["split"], "b.3")
    assert not re.fullmatch(flow.wildcards["split"], "a.2")
    names = {"dataset": "mine", "source": "en", "target": "de"}
    for choice, splits in (("references", ["a", "b", "b.2", "b.3"]), ("further references", ["b.2", "b.3"])):
        found = flow.of(Paths("mixed").clean_text.at(language="{target}"), choice)(_wildcards(**names))
        assert found == [f"results/mixed/mine.en-de/corpus/{split}.de" for split in splits]
    assert flow.settings("score_system", _wildcards(**names, system="base", seed="1")).references == [1, 3]
    settings = flow.settings("compare_splits", _wildcards(**names))
    assert (settings.splits, settings.references) == (["dev", "a", "b"], [0, 0, 2])


def test_where_words_are_not_cut_models_read_tokens(flow: Flow, tmp_path: Path) -> None:
    wildcards = _wildcards(dataset="back", split="c", source="de", target="en")
    assert flow.of(flow.text_of_models("target"))(wildcards) == ["results/mixed/back.de-en/subwords/c.en"]
    study = _study(tmp_path)
    study["datasets"]["back"]["subwords"] = {"unit": "word"}
    flow = Flow(Study.model_validate(study))
    assert flow.of(flow.text_of_models("target"))(wildcards) == ["results/mixed/back.de-en/tokens/c.en"]
    assert flow.of(flow.paths.codes, "subwords")(wildcards) == []


def _names(tmp_path: Path, name: str) -> dict[str, dict[str, Any]]:
    """The sections of a study that name a file of the user, with this file."""
    raw = _study(tmp_path)
    mine, base = raw["datasets"]["mine"], raw["systems"]["base"]
    splits = {**mine["splits"], "dev": [{"source": name, "target": str(tmp_path / "my.de")}]}
    pairs = {"c": [{"pairs": name}]}
    return {
        "datasets.mine.splits.dev.0.source": {"datasets": {"mine": {**mine, "splits": splits}}},
        "datasets.mine.contrast_sets.c.0.pairs": {"datasets": {"mine": {**mine, "contrast_sets": pairs}}},
        "datasets.mine.subwords.reuse": {"datasets": {"mine": {**mine, "subwords": {"reuse": name}}}},
        "systems.base.init_from": {"systems": {"base": {**base, "init_from": name}}},
        "systems.o.translations.mine.a": {"systems": {"base": base, "o": {"translations": {"mine.a": name}}}},
        "metrics.m.files.0": {"metrics": {"m": {"command": "true {hypotheses}", "files": [name]}}},
    }


@pytest.mark.parametrize("name", ["{dataset}.en", "data/{split}/a.en", "{ split }", "{1,2}.en", "<results>/a.en"])
def test_a_name_that_snakemake_would_replace_is_refused(tmp_path: Path, name: str) -> None:
    """`check` would read one file and the run another. Snakemake cannot be told to leave such names alone."""
    for place, sections in _names(tmp_path, name).items():
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(_study(tmp_path) | sections))
        with pytest.raises(StudyError) as raised:
            read_study(tmp_path / "study.yaml")
        assert f"\n  - {place}: Snakemake would put" in str(raised.value)


def test_a_name_that_begins_like_an_option_reaches_its_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sections = _names(tmp_path, "-data/{x.en")["datasets.mine.splits.dev.0.source"]
    flow = Flow(Study.model_validate(_study(tmp_path) | sections))
    assert flow.files("clean_pairs", "raw_source")(_wildcards(dataset="mine", split="dev")) == [
        str(tmp_path / "-data/{x.en")
    ]


def test_the_program_of_a_metric_is_one_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    metrics = {"m": {"command": "python3 mine.py {hypotheses}", "files": ["table.txt"]}}
    (tmp_path / "table.txt").touch()
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(_study(tmp_path) | {"metrics": metrics}))
    with pytest.raises(StudyError, match=r"metrics\.m\.command: no such file: mine\.py"):
        read_study(tmp_path / "study.yaml")
    (tmp_path / "mine.py").touch()
    flow = Flow(read_study(tmp_path / "study.yaml"))
    assert flow.files("score_metric", "files")(_wildcards(metric="m")) == ["table.txt", "mine.py"]


def test_references_of_dev_are_refused(tmp_path: Path) -> None:
    raw = _study(tmp_path)
    raw["datasets"]["mine"]["splits"]["dev"][0]["references"] = ["x.de"]
    with pytest.raises(ValueError, match=r"splits\.dev\.0\.references: only test sets have several"):
        Study.model_validate(raw)


def test_an_edited_entry_of_a_registry_is_another_parameter(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _wildcards(corpus="multi30k", file="train.en.gz")
    side = _wildcards(corpus="multi30k", part="train", language="en")
    model = _wildcards(language="en", file="constituency_ptb3-revised_charlm.pt")
    fetched, extracted = flow.params("fetch_corpus")["settings"], flow.params("extract_text")["settings"]
    before = fetched(file), extracted(side), flow.params("fetch_stanza_file")["settings"](model)
    assert json.loads(before[0])["source"]["url"].startswith("https://")
    assert json.loads(before[1])["side"]["file"] == "train.en.gz"
    assert "/resolve/" in json.loads(before[2])["source"]["url"]
    corpus = load_registry()["multi30k"]
    files = tuple(entry.model_copy(update={"url": "https://example.org/another"}) for entry in corpus.files)
    monkeypatch.setitem(load_registry(), "multi30k", corpus.model_copy(update={"files": files}))
    assert fetched(file) != before[0]
    assert extracted(side) == before[1]


def _workflow(path: Path, *, is_main_process: bool = True) -> SimpleNamespace:
    """Snakemake's."""
    hooks = {"onsuccess": lambda function: None, "onerror": lambda function: None}
    settings = SimpleNamespace(config={}, configfiles=[path])
    main = SimpleNamespace(is_main_snakefile=lambda: True)
    resources = SimpleNamespace(nodes=None, cores=1)
    return SimpleNamespace(
        config_settings=settings, resource_settings=resources, modifier=main, is_main_process=is_main_process, **hooks
    )


def test_jobs_of_a_cluster_see_the_study_that_the_run_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.yaml"
    _begun(tmp_path, monkeypatch)
    study.write_text(json.dumps(_study(tmp_path, title="edited")))
    assert open_study(_workflow(study, is_main_process=False), {}).study.title == "as it was"
    assert open_study(_workflow(study), {}).study.title == "edited"
    monkeypatch.delenv("PHRASEMT_RUN")
    assert open_study(_workflow(study, is_main_process=False), {}).study.title == "edited"


def _begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has begun, with this process as one of its jobs."""
    run = tmp_path / "runs" / "begun.json"
    RunNote(study="mixed", log=None, cores=None, done={}, jobs=[], code={}).write(run)
    study_of(run).write_text(json.dumps(_study(tmp_path, title="as it was")))
    # `open_study` sets those that are not set, and no later test of this process may see them.
    for name in ("PHRASEMT_MIRROR", "PHRASEMT_CACHE", "PHRASEMT_LOCK", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, "anywhere")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("PHRASEMT_RUN", str(run))


def test_initial_weights_are_inputs_of_a_training(tmp_path: Path) -> None:
    """A file is for all seeds, and a folder has a file for each seed."""
    raw = _study(tmp_path)
    raw["systems"]["base"]["init_from"] = "weights/base.safetensors"
    raw["systems"]["more"] = {**raw["systems"]["wide"], "init_from": str(tmp_path / "base")}
    flow = Flow(Study.model_validate(raw))

    def files(system: str) -> list[str]:
        return flow.files("train_model", "initial_weights")(_wildcards(dataset="mine", system=system, seed="2"))

    assert files("wide") == []
    assert files("base") == ["weights/base.safetensors"]
    assert files("more") == [str(tmp_path / "base" / "2" / "averaged.safetensors")]

    for seed, header in ((1, b"{}"), (3, b"garbage")):
        (tmp_path / "base" / str(seed)).mkdir(parents=True)
        (tmp_path / "base" / str(seed) / "averaged.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**raw, "seeds": [1, 2, 3]}))
    with pytest.raises(StudyError) as error:
        read_study(path)
    problems = [problem for problem in error.value.problems if "init_from" in problem]
    assert problems[:2] == [
        "systems.base.init_from: no such file: weights/base.safetensors",
        f"systems.more.init_from: no such file: {tmp_path}/base/2/averaged.safetensors",
    ]
    garbage = f"systems.more.init_from: {tmp_path}/base/3/averaged.safetensors: not a readable weights file"
    assert problems[2].startswith(garbage)
