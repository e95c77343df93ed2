"""The table of stages, and which part of a study each stage uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phrasemt.printed import results
from phrasemt.printed.results import file_of
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.study.schema import Study

WILDCARDS = {
    "dataset": "demo",
    "system": "max",
    "seed": "1",
    "split": "train",
    "language": "de",
    "segmenter": "ngram",
    "phrase_model": "default",
    "corpus": "multi30k",
    "part": "train",
    "file": "train.de.gz",
    "metric": "comet",
    "job": "0",
}
TREES = [{"corpus": "treebank", "part": "train"}]
CHUNKS = [{"generated": "demo", "split": "test"}]


def _study(changes: dict[str, Any] | None = None) -> Study:
    raw: dict[str, Any] = {
        "study": "small",
        "datasets": {
            "demo": {
                "source_language": "en",
                "target_language": "de",
                "generator": {"train": 9, "dev": 8, "test": 7},
                "contrast_sets": {"pairs": [{"pairs": "pairs.tsv"}]},
                "cleaning": {},
                "tokenization": {},
                "subwords": {},
                "source_parser": "english",
                "target_chunks": {"origin": "chunker", "chunker": "german"},
            }
        },
        "parsers": {"english": {"language": "en", "train": {"train": TREES, "test": TREES}}},
        "chunkers": {"german": {"language": "de", "train": {"train": CHUNKS, "test": CHUNKS}}},
        "systems": {
            "base": {"model": {"family": "transformer"}, "training": {}, "decoding": {}},
            "max": {"model": {"family": "phrase_representation"}, "training": {}, "decoding": {}},
            "other": {"translations": "other.de"},
            "phrases": {"model": {"family": "moses"}, "tuning": {}},
        },
        "comparison": {},
        "metrics": {"comet": {"command": "comet {hypotheses}"}},
    }
    for path, value in (changes or {}).items():
        *sections, key = path.split(".")
        section = raw
        for name in sections:
            section = section[name]
        section[key] = value
    return Study.model_validate(raw)


# A change of the study, and the stages that must see it: those that tests/workflow/test_reruns.py does not make.
# `system` is max, so a change of base is seen by none.
CHANGES = {
    "seeds": ([1, 2], {"make_table", "write_report"}),
    "datasets.demo.generator": ({"train": 10, "dev": 8, "test": 7}, {"generate_demo"}),
    "datasets.demo.contrast_sets": ({"pairs": [{"pairs": "p.tsv"}, {"pairs": "q.tsv"}]}, {"extract_contrasts"}),
    "datasets.demo.tokenization": (
        {"target": "character"},
        {"tokenize_text", "translate_examples", "import_translations", "translate_with_moses"}
        | {"score_system", "score_contrasts"},
    ),
    "datasets.demo.subwords.unit": ("word", {"build_vocabulary", "score_perplexity"}),
    "systems.max.title": ("+ Max", {"make_table"}),
    "systems.max.stands_for": (["xu2020/table-2/max"], {"make_table"}),
    "systems.phrases.tuning": ({"runs": 5}, {"tune_moses"}),
    "systems.base.model": ({"family": "transformer", "dropout": 0.2}, set()),
    "metrics.comet.command": ("comet {hypotheses} {sources}", {"score_metric"}),
    "metrics.comet.heading": ("COMET", {"make_table"}),
    "datasets.demo.target_chunks": ({"origin": "gold"}, {"extract_chunks"}),
    "parsers.english.train.tagger_updates": (3, {"train_tagger"}),
    "parsers.english.train.vectors": (3, {"train_vectors"}),
}


def _used(study: Study) -> dict[str, str]:
    return {name: _settings(study, name).canonical_json() for name in STAGES if name != "partition_corpus"}


def _settings(study: Study, stage: str, **wildcards: str) -> Stage:
    annotator = "german" if "chunk" in stage else "english"
    file = "constituency_ptb3-revised_charlm.pt" if "stanza" in stage else "train.de.gz"
    language = "en" if "stanza" in stage else "de"
    if stage == "extract_contrasts":
        wildcards["split"] = "pairs"
    if stage == "import_translations":
        wildcards["system"] = "other"
    if stage in ("tune_moses", "translate_with_moses"):
        wildcards["system"] = "phrases"
    chosen = {**WILDCARDS, "annotator": annotator, "file": file, "language": language, **wildcards}
    return STAGES[stage].from_study(study, chosen)


@pytest.mark.parametrize(("path", "value", "seen_by"), [(path, *rest) for path, rest in CHANGES.items()])
def test_a_change_is_seen_by_the_stages_that_use_it(path: str, value: Any, seen_by: set[str]) -> None:
    before, after = _used(_study()), _used(_study({path: value}))
    assert {name for name in before if before[name] != after[name]} == seen_by


def test_settings_are_of_the_class_in_the_table() -> None:
    for name, stage in STAGES.items():
        if name != "partition_corpus":
            settings = _settings(_study(), name)
            assert type(settings) is stage
            assert type(settings).model_validate_json(settings.canonical_json()) == settings


def test_dev_and_test_sets_are_not_filtered() -> None:
    for split in ("dev", "test"):
        assert '"filters":null' in _settings(_study(), "clean_pairs", split=split).canonical_json()


def test_an_edit_of_printed_results_is_seen_by_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study({"systems.max.stands_for": ["xu2020/table-2/max"]})
    before = _settings(study, "make_table").canonical_json()
    paper = file_of("xu2020").read_text()
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    file_of("xu2020").write_text(paper)
    assert _settings(study, "make_table").canonical_json() == before
    file_of("xu2020").write_text(paper.replace("28.13", "28.14"))
    assert _settings(study, "make_table").canonical_json() != before
