"""Capsules: what they hold, that every number in them is computed again, and that whatever was edited is found."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import GoldenStudy, study_of

from phrasemt.cli import main
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.system import digest_bytes
from phrasemt.report.capsule import MANIFEST, check_capsule, opened_capsule, write_capsule
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

Members = dict[str, bytes]

SCORES = "results/golden/demo.en-de/scores/max/1.json"
LEFT_OUT = "results/golden/captions.de-en/scores/max/1.json"  # the registry does not allow copies of its references
TRANSLATION = "results/golden/demo.en-de/translations/max/1/test.tok"
COMPARISON = "results/golden/demo.en-de/comparisons/max.json"
TABLE = "results/golden/table.json"
HYPOTHESIS = "results/golden/captions.de-en/translations/max/1/coco.tok"


@pytest.fixture(scope="module")
def whole(golden, tmp_path_factory):
    """The members of a capsule."""
    folder = tmp_path_factory.mktemp("capsule")
    with contextlib.chdir(golden):
        for name in ("capsule.zip", "again.zip"):
            write_capsule(study_of(), folder / name, all_references=False)
    assert (folder / "capsule.zip").read_bytes() == (folder / "again.zip").read_bytes()
    with zipfile.ZipFile(folder / "capsule.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def capsule(tmp_path):
    """Writes members as a capsule."""

    def write(members: Members) -> Path:
        with zipfile.ZipFile(tmp_path / "capsule.zip", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return tmp_path / "capsule.zip"

    return write


def _differences(path: Path) -> dict[str, str]:
    with opened_capsule(path) as (folder, note):
        checked, _ = check_capsule(folder, note)
        return {one.path: " ".join(one.differences) for one in checked if one.differences}


def _edited(content: bytes, pattern: bytes, replacement: bytes) -> bytes:
    changed, count = re.subn(pattern, replacement, content, count=1)
    assert count == 1
    assert changed != content
    return changed


def test_every_number_is_computed_again_and_agrees(whole, capsule, monkeypatch, tmp_path, capsys):
    path = capsule(whole)
    monkeypatch.chdir(tmp_path)
    assert main(["capsule", "--check", str(path)]) == 0
    said = capsys.readouterr().out
    for name in (SCORES, COMPARISON, TABLE):
        assert re.search(rf"^{re.escape(name)}: [1-9]\d* values computed again, all agree$", said, re.MULTILINE), name
    assert "results/golden/table.md: written again, the same text\n" in said
    assert re.search(rf"^{LEFT_OUT}: \d\d+ scores computed again from the statistics", said, re.MULTILINE)
    assert "may be copied: results/golden/captions.de-en/corpus/coco.en, " in said
    assert f"{path}: all " in said


def test_a_capsule_holds_references_only_where_they_may_be_copied(whole):
    texts = [name for name in whole if "/corpus/" in name or "/tokens/" in name]
    assert {name.split("/")[2] for name in texts} == {"demo.en-de"}
    assert whole["results/golden/demo.en-de/corpus/test.de"]
    listed = dict(line.split("\t") for line in whole["digests.tsv"].decode().splitlines())
    assert listed[SCORES] == digest_bytes(whole[SCORES])
    assert "results/golden/captions.de-en/models/base/2/averaged.json" in listed


# An edit with checksums that fit again, so that only the computation can find it.
@pytest.mark.parametrize(
    ("name", "pattern", "replacement", "found_in"),
    [
        (SCORES, rb'("score":)\d+', rb"\g<1>99", SCORES),
        (LEFT_OUT, rb'("score":)\d+', rb"\g<1>99", LEFT_OUT),
        (TRANSLATION, rb"^\S+", b"Haus Haus", SCORES),
        (COMPARISON, rb'("koehn2004": )[\d.]+', rb"\g<1>0.77", COMPARISON),
        (TABLE, rb'("value": )[\d.]+', rb"\g<1>99.5", TABLE),
        ("results/golden/table.md", rb"\d\d\.\d\d", b"99.99", "results/golden/table.md"),
    ],
)
def test_an_edited_number_is_found_although_its_checksums_fit(whole, capsule, name, pattern, replacement, found_in):
    changed = {name: _edited(whole[name], pattern, replacement)}
    differences = _differences(capsule(_with_digests(whole | changed, whole)))
    assert "recorded" in differences[found_in]
    assert "sha256" not in differences[found_in]


SIDECAR, TABLE_SIDECAR = f"{SCORES}.meta.json", f"{TABLE}.meta.json"
TABLES = [f"results/golden/table.{ending}" for ending in ("json", "md", "tex", "csv")]
BLEU = (rb'("score":)\d+', rb"\g<1>99")
VALUE = (rb'("value": )[\d.]+', rb"\g<1>99.5")


def _edit(name: str, pattern: bytes, replacement: bytes) -> Callable[[Members], Members]:
    return lambda members: members | {name: _edited(members[name], pattern, replacement)}


def _without(*names: str) -> Callable[[Members], Members]:
    return lambda members: {name: content for name, content in members.items() if name not in names}


def _every(*edits: Callable[[Members], Members]) -> Callable[[Members], Members]:
    return lambda members: functools.reduce(lambda so_far, edit: edit(so_far), edits, members)


def _of_stage(name: str, stage: bytes) -> Callable[[Members], Members]:
    return _edit(f"{name}.meta.json", rb'"stage": "\w+"', b'"stage": ' + stage)


# What somebody would do who wants other numbers to be believed; all digests are made to fit. Of each: a file that is
# then named, and what is said of it.
FORGERIES = {
    "a table without its sidecar": (
        _every(_edit(TABLE, *VALUE), _without(*(f"{name}.meta.json" for name in TABLES))),
        TABLE,
        "expected an output of make_table",
    ),
    "no table": (_without(*TABLES, *(f"{name}.meta.json" for name in TABLES)), TABLE, "expected an output of make_"),
    "scores without their sidecar": (_every(_edit(SCORES, *BLEU), _without(SIDECAR)), SCORES, "of score_system"),
    "scores of another stage": (
        _every(_edit(SCORES, *BLEU), _of_stage(SCORES, b'"score_chunks"')),
        SCORES,
        "found a sidecar of score_chunks",
    ),
    "scores of no hypotheses": (
        _edit(SIDECAR, rb'"tokens": \[[^]]*\]', b'"tokens": []'),
        SCORES,
        "score_system refuses",
    ),
    "a table of no scores": (
        _edit(TABLE_SIDECAR, rb'"system_scores": \[[^]]*\]', b'"system_scores": []'),
        TABLE,
        "make_table refuses",
    ),
    "counts beside left-out references": (_edit(LEFT_OUT, rb'"counts":\[\d+', b'"counts":[9999'), LEFT_OUT, "counts"),
    "a score without statistics": (
        _edit(LEFT_OUT, rb',"ter":\[\[.*?\]\]', b""),
        LEFT_OUT,
        "ter stands only in one of metrics and statistics",
    ),
    "another title of a row": (_edit(MANIFEST, b"Transformer", b"Our system"), TABLE, "recorded"),
    "fewer samples": (_edit(MANIFEST, b'"samples": 100', b'"samples": 99'), COMPARISON, "recorded 100, computed 99"),
    "a number beyond all floats": (_edit(TABLE, VALUE[0], rb"\g<1>1" + b"0" * 400), TABLE, "make_table refuses"),
    "a deep table": (lambda members: members | {TABLE: b"[" * 100_000}, TABLE, "make_table refuses"),
}


@pytest.mark.parametrize(("edit", "name", "said"), FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_is_found_although_all_digests_fit(whole, capsule, capsys, edit, name, said):
    path = capsule(_with_digests(edit(whole), whole))
    assert main(["capsule", "--check", str(path)]) == 2
    printed = capsys.readouterr()
    assert said in "".join(line for line in printed.out.splitlines() if line.startswith(name))
    assert "values agree" not in printed.out
    assert "Traceback" not in printed.err


def _with_digests(members: Members, honest: Members) -> Members:
    """The members with the digests of their contents in all sidecars and in the note, which names no others."""
    known = {digest_bytes(content): name for name, content in honest.items()}

    def renewed(text: bytes) -> bytes:
        return re.sub(
            rb"[0-9a-f]{64}",
            lambda found: (
                digest_bytes(members.get(known.get(found[0].decode(), ""), b"")).encode()
                if known.get(found[0].decode()) in members
                else found[0]
            ),
            text,
        )

    for name in sorted(members):
        if name.endswith(".meta.json"):
            members = members | {name: renewed(members[name])}
    note = json.loads(members[MANIFEST])
    note["files"] = [
        one | ({"sha256": digest_bytes(members[one["member"]])} if one.get("member") in members else {})
        for one in note["files"]
        if one.get("member", None) is None or one["member"] in members
    ]
    return members | {MANIFEST: json.dumps(note).encode()}


def test_a_study_in_a_capsule_is_the_study(repository):
    """With presets and rows of other weights, whose keys are filled in when a study is read."""
    for path in sorted(repository.glob("studies/*.yaml")):
        study = load_study(path)
        assert Study.model_validate(study.model_dump(mode="json", exclude_unset=True)) == study, path


def test_an_edited_translation_without_its_reference_is_found_by_its_checksum(whole, capsule):
    path = capsule({**whole, HYPOTHESIS: b"edited\n"})
    assert _differences(path)[HYPOTHESIS].startswith("sha256: recorded ")


def test_scores_of_other_translations_are_found(whole, capsule):
    changed = {HYPOTHESIS: whole[HYPOTHESIS] + b"one more line\n"}
    note = whole[MANIFEST].replace(digest_bytes(whole[HYPOTHESIS]).encode(), digest_bytes(changed[HYPOTHESIS]).encode())
    path = capsule({**whole, **changed, MANIFEST: note})
    assert f"its sidecar names {HYPOTHESIS}" in _differences(path)[LEFT_OUT]


ELSEWHERE = ("../outside", "{}/outside", "a/../../outside", "a//outside", "folder/")


@pytest.mark.parametrize(
    ("name", "named"),
    # The last two are ordinary names outside Windows.
    [*itertools.product(ELSEWHERE, (False, True)), ("a\\..\\outside", False), ("C:/outside", False)],
)
def test_names_that_lead_elsewhere_are_refused(whole, capsule, tmp_path, name, named):
    """Also when the manifest names them, and a file of this name and digest lies there."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    name, note = name.format(tmp_path), json.loads(whole[MANIFEST])
    if named:
        note["files"].append({"path": "more", "member": name, "sha256": digest_bytes(b"x")})
    path = capsule({**whole, MANIFEST: json.dumps(note).encode(), name: b"" if name.endswith("/") else b"y"})
    with pytest.raises(DamagedFileError, match="lead elsewhere"), opened_capsule(path):
        pass
    assert outside.read_bytes() == b"x"
    assert list(tmp_path.rglob("outside")) == [outside]


def test_two_members_of_one_name_are_refused(whole, capsule):
    path = capsule(whole)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(SCORES, b"{}")
    with pytest.raises(DamagedFileError, match="two of one name"), opened_capsule(path):
        pass


def test_damaged_capsules_are_refused(whole, capsule, tmp_path):
    path = capsule(whole)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content[:500] + b"\0\0\0\0" + content[504:], b"no zip", b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match="not a whole capsule"), opened_capsule(path):
            pass
    for members in (
        {name: content for name, content in whole.items() if name != MANIFEST},
        {name: content for name, content in whole.items() if name != SCORES},
        {**whole, "more": b"x"},
        {**whole, MANIFEST: whole[MANIFEST].replace(b'"format": 1', b'"format": 9')},
        {**whole, MANIFEST: b"[" * 100_000},
        {**whole, **{f"more/{number}": b"" for number in range(10_000)}},
        {**whole, MANIFEST: _edited(whole[MANIFEST], b'"samples": 100', b'"samples": 300000000')},
    ):
        with pytest.raises(DamagedFileError, match="not a whole capsule"), opened_capsule(capsule(members)):
            pass
    with pytest.raises(FileNotFoundError), opened_capsule(tmp_path / "absent.zip"):
        pass


def test_a_study_without_a_table_or_with_an_altered_file_is_not_packed(golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    part = GoldenStudy.part(golden, tmp_path)
    with pytest.raises(PhrasemtError, match="there are no results yet"):
        write_capsule(part.study, Path("capsule.zip"), all_references=False)
    part.make_table()
    scores = Path(SCORES)
    scores.write_text(json.dumps(json.loads(scores.read_text())))
    with pytest.raises(DamagedFileError, match="not the file that score_system wrote"):
        write_capsule(part.study, Path("capsule.zip"), all_references=False)
    assert not Path("capsule.zip").exists()
