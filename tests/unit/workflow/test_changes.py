"""Whether results were made with the settings that a study has now: every setting and every chosen file of a stage."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from phrasemt.artefacts.sidecar import DigestedFile, Sidecar, sidecar_path
from phrasemt.errors import MismatchError, PhrasemtError
from phrasemt.files.system import digest_file
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study
from phrasemt.workflow.changes import Changes, changes_among, changes_since
from phrasemt.workflow.flow import Flow
from phrasemt.workflow.inputs import FILES

pytestmark = pytest.mark.usefixtures("here")

# It has a job of every stage.
STUDY = """
study: every
seeds: [1, 2]
datasets:
  mine:
    source_language: en
    target_language: de
    splits:
      train: [{corpus: multi30k, part: train}, {source: my.en, target: my.de}]
      dev: {sample: 1}
      test: {a: [{source: a.en, target: a.de}]}
    contrast_sets: {c: [{pairs: pairs.tsv}]}
    source_parser: trained
    target_chunks: {origin: chunker, chunker: german}
  generated:
    source_language: en
    target_language: de
    generator: {train: 9, dev: 9, test: 9}
    source_parser: trained
    target_chunks: {origin: chunker, chunker: german}
parsers:
  trained: {language: en, train: {train: [{file: a.mrg}], test: [{file: b.mrg}]}}
  published: {language: en, published: ptb3-revised_charlm}
  given: {language: en, trees: [a.trees]}
chunkers:
  german: {language: de, train: {train: [{file: a.conll}], test: [{file: b.conll}]}}
systems:
  base: {model: {family: transformer}}
  parses: {model: {family: phrase_representation, phrase: {mode: parse}}}
  moses: {model: {family: moses}}
  other: {translations: {mine.a: other.txt, generated.test: more.txt}}
metrics:
  comet: {command: "comet {hypotheses}", files: [model.bin]}
"""


def _job(study: Study, stage: str) -> tuple[Path, Sidecar]:
    """An output of a job of a stage, and its sidecar, for the first names of the study that the stage has a job for."""
    role, pattern = next(iter(STAGES[stage].outputs.items()))
    names = re.findall(r"\{(\w+)\}", pattern)
    known = Flow(study).wildcards | {"study": study.study, "job": "0", "file": "train.en.gz|pretrain_conll17.pt"}
    for values in itertools.product(*(known[name].replace("\\", "").split("|") for name in names)):
        wildcards = dict(zip(names, values, strict=True))
        try:
            settings = STAGES[stage].from_study(study, wildcards)
            read = {name: files(study, SimpleNamespace(**wildcards)) for name, files in FILES.get(stage, {}).items()}
        except (PhrasemtError, KeyError, AttributeError, AssertionError, ValueError):
            continue
        path = pattern.format(**wildcards)
        return Path(path), Sidecar(
            stage=stage,
            settings=settings.model_dump(mode="json"),
            code="",
            versions={},
            inputs={name: [DigestedFile(path=one, sha256="0") for one in paths] for name, paths in read.items()},
            outputs={role: DigestedFile(path=path, sha256="1")},
        )
    raise AssertionError(f"the study of this test has no job of {stage}")


def _changed(path: Path, sidecar: Sidecar, study: Study) -> list[str]:
    place = sidecar_path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    sidecar.write(place)
    changes = changes_among(study, {str(path): place})
    assert changes.jobs == bool(changes.settings)
    return list(changes.settings)


def _edited(sidecar: Sidecar) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting and each chosen file of a stage, with the sidecar of a job for which it was another."""
    for name in sidecar.settings:
        yield name, {"settings": {**sidecar.settings, name: "another"}}
    for name in sidecar.inputs:
        if sidecar.stage != "extract_text":  # the registry decides, and what is at hand
            yield name, {"inputs": {**sidecar.inputs, name: [DigestedFile(path="another", sha256="0")]}}


@pytest.mark.parametrize("stage", STAGES)
def test_every_setting_and_every_chosen_file_of_a_stage_counts(stage: str) -> None:
    study = Study.model_validate(yaml.safe_load(STUDY))
    path, sidecar = _job(study, stage)
    assert _changed(path, sidecar, study) == []
    for name, edit in _edited(sidecar):
        assert [what for what in _changed(path, sidecar.model_copy(update=edit), study) if what.startswith(name)], name


@pytest.mark.parametrize(("seconds", "thorough"), [(1, False), (-1, True)])
def test_an_edited_text_is_found_by_its_time_or_when_all_is_digested(seconds: int, thorough: bool) -> None:
    study = Study.model_validate(yaml.safe_load(STUDY))
    path, sidecar = _job(study, "clean_pairs")
    text = Path(sidecar.inputs["raw_source"][0].path)  # which no stage wrote, as it has no sidecar
    text.parent.mkdir(parents=True)
    text.write_text("a b\n")
    read = {**sidecar.inputs, "raw_source": [DigestedFile(path=str(text), sha256=digest_file(text))]}
    assert not _changed(path, sidecar.model_copy(update={"inputs": read}), study)

    def changes(*, thorough: bool) -> Changes:
        return changes_among(study, {str(path): sidecar_path(path)}, thorough=thorough)

    made = sidecar_path(path).stat().st_mtime
    os.utime(text, (made + 1, made + 1))
    assert not changes(thorough=True).edited, "a new time alone is no edit"
    text.write_text("a c\n")
    os.utime(text, (made + seconds, made + seconds))
    found = changes(thorough=thorough)
    assert (found.edited, found.jobs) == ([str(text)], 1)
    with pytest.raises(MismatchError, match=r"train\.en was edited since these results were made, and 1 job would run"):
        found.refuse()
    if thorough:
        assert not changes(thorough=False).edited


def test_what_follows_a_change_is_counted() -> None:
    """The table was made of scores; those of another system seed, or made again since, count too."""
    study = Study.model_validate(yaml.safe_load(STUDY))
    scores, of_scores = _job(study, "score_system")
    table, of_table = _job(study, "make_table")
    read = {"files": [DigestedFile(path=str(scores), sha256="1")]}
    _changed(scores, of_scores, study)
    _changed(table, of_table.model_copy(update={"inputs": read}), study)
    assert changes_since(study).line is None
    edited = of_scores.model_copy(update={"settings": {**of_scores.settings, "references": [2]}})
    _changed(scores, edited, study)
    changes = changes_since(study)
    assert (changes.jobs, list(changes.settings)) == (2, ["references: -2 +1"])
    again = of_scores.model_copy(update={"outputs": {"scores": DigestedFile(path=str(scores), sha256="2")}})
    _changed(scores, again, study)
    changes = changes_since(study)
    assert not changes.settings
    assert "made again since" in changes.line
