"""Capsules: what they hold, that their numbers are computed again, and that whatever was edited is found."""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import GoldenStudy, study_of
from small_systems import slow_except

from phrasemt.cli import main
from phrasemt.commands.capsule import DIGESTS, write_capsule
from phrasemt.errors import DamagedFileError
from phrasemt.files.system import digest_bytes
from phrasemt.study.reading import load_study
from phrasemt.study.schema import Study

Members = dict[str, bytes]
Edit = Callable[[Members], Members]

FOLDER = "results/golden/demo.en-de"
SCORES, COMPARISON, TABLE = f"{FOLDER}/scores/max/1.json", f"{FOLDER}/comparisons/max.json", "results/golden/table.json"
TRANSLATION, REFERENCE = f"{FOLDER}/translations/max/1/test.tok", f"{FOLDER}/corpus/test.de"
LEFT_OUT = "results/golden/captions.de-en/scores/max/1.json"  # the registry does not allow copies of its references


@pytest.fixture(scope="module")
def whole(golden, tmp_path_factory) -> Members:
    """The members of a capsule."""
    folder = tmp_path_factory.mktemp("capsule")
    with contextlib.chdir(golden):
        for name in ("capsule.zip", "again.zip"):
            left_out = write_capsule(study_of(), folder / name, all_references=False)
    assert "results/golden/captions.de-en/corpus/coco.en" in left_out
    assert (folder / "capsule.zip").read_bytes() == (folder / "again.zip").read_bytes()
    with zipfile.ZipFile(folder / "capsule.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


Checked = Callable[[Members], tuple[int, str]]


@pytest.fixture
def checked(here, capsys) -> Checked:
    """The exit code of a check of these members, and what it prints."""

    def check(members: Members) -> tuple[int, str]:
        with zipfile.ZipFile("capsule.zip", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        code = main(["capsule", "--check", "capsule.zip"])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out + printed.err

    return check


def test_numbers_are_computed_again_and_agree(whole: Members, checked: Checked) -> None:
    code, printed = checked(whole)
    assert code == 0, printed
    for name in (SCORES, COMPARISON, TABLE):
        assert f"{name}: computed again, the same\n" in printed
    assert f"{LEFT_OUT}: as its sidecar records, because references are left out\n" in printed
    texts = [name for name in whole if "/corpus/" in name or "/tokens/" in name]
    assert {name.split("/")[2] for name in texts} == {"demo.en-de"}, "references that may be copied"
    listed = dict(line.split("\t") for line in whole[DIGESTS].decode().splitlines())
    assert listed[SCORES] == digest_bytes(whole[SCORES])
    assert "results/golden/captions.de-en/models/base/2/averaged.json" in listed


def _edited(name: str, pattern: bytes, replacement: bytes) -> Edit:
    def edit(members: Members) -> Members:
        changed, count = re.subn(pattern, replacement, members[name], count=1)
        assert count == 1
        assert changed != members[name]
        return members | {name: changed}

    return edit


def _without(*names: str) -> Edit:
    return lambda members: {name: content for name, content in members.items() if name not in names}


def _swapped(members: Members) -> Members:
    other = SCORES.replace("/1.", "/2.")
    return members | {SCORES: members[other], f"{SCORES}.meta.json": members[f"{other}.meta.json"]}


SCORE, VALUE = (rb'("score":)\d+', rb"\g<1>99"), (rb'("value": )[\d.]+', rb"\g<1>99.5")
CHANGED = "study.yaml: study golden: "
# Edits with digests that fit again, so that only the computation can find them, and what is said of each.
FORGERIES: dict[str, tuple[Edit, str]] = {
    "a number of the table": (_edited(TABLE, *VALUE), f"{TABLE}: make_table: "),
    "a number of the table as text": (_edited("results/golden/table.md", rb"\d\d\.\d\d", b"99.99"), "table.md differs"),
    "a score": (_edited(SCORES, *SCORE), f"{SCORES}: score_system: "),
    "a score without its references": (_edited(LEFT_OUT, *SCORE), f"{TABLE}: make_table: "),
    "a p-value": (_edited(COMPARISON, rb'("koehn2004": )[\d.]+', rb"\g<1>0.77"), f"{COMPARISON}: compare_systems: "),
    "a translation": (_edited(TRANSLATION, rb"^\S+", b"Haus Haus"), f"{SCORES}: score_system: "),
    "a reference": (_edited(REFERENCE, rb"^\S+", b"Haus Haus"), f"{SCORES}: score_system: "),
    "scores of another seed": (_swapped, f"{SCORES}: score_system: "),
    "no scores": (_without(SCORES, f"{SCORES}.meta.json"), f"{SCORES}: score_system: "),
    "no table": (_without(TABLE), f"{TABLE}: make_table: "),
    "another number of samples": (_edited("study.yaml", b"samples: 100", b"samples: 99"), CHANGED),
    "another stage": (
        _edited(f"{SCORES}.meta.json", b'"score_system"', b'"score_chunks"'),
        f"{SCORES}: score_system: ",
    ),
    "a deep table": (lambda members: members | {TABLE: b"[" * 100_000}, f"{TABLE}: make_table: "),
}


# One of each way in which a forgery is found; a check takes two seconds.
QUICK = "a number of the table", "a score", "a score without its references", "a p-value", "another number of samples"


@pytest.mark.parametrize("forgery", slow_except(QUICK, FORGERIES))
def test_a_forgery_is_found(whole: Members, checked: Checked, forgery: str) -> None:
    edit, said = FORGERIES[forgery]
    code, printed = checked(_with_digests(edit(whole), whole))
    assert code == 2
    assert said in printed
    assert "all files agree" not in printed


def test_a_file_with_another_digest_is_found(whole: Members, checked: Checked) -> None:
    """Without its references a translation is not scored again."""
    hypothesis = "results/golden/captions.de-en/translations/max/1/coco.tok"
    code, printed = checked({**whole, hypothesis: b"edited\n"})
    assert code == 2
    assert f"{hypothesis}: sha256: not the one in digests.tsv" in printed


def _with_digests(members: Members, honest: Members) -> Members:
    """The members with the digests of their contents in all sidecars and in the list."""

    def renewed(content: bytes) -> bytes:
        for name in honest.keys() & members.keys():
            content = content.replace(digest_bytes(honest[name]).encode(), digest_bytes(members[name]).encode())
        return content

    sidecars = {name: renewed(content) for name, content in members.items() if name.endswith(".meta.json")}
    members = members | sidecars
    return members | {DIGESTS: renewed(members[DIGESTS])}


def test_a_study_in_a_capsule_is_the_study(repository: Path) -> None:
    """With presets and rows of other weights, whose keys are filled in when a study is read."""
    for path in sorted(repository.glob("studies/*.yaml")):
        study = load_study(path)
        assert Study.model_validate(study.model_dump(mode="json", exclude_unset=True)) == study, path


def test_a_family_that_is_not_installed_is_named(whole: Members, checked: Checked) -> None:
    """What needs no model is checked."""
    study = whole["study.yaml"].replace(b"family: transformer", b"family: mine")
    code, printed = checked(_with_digests(whole | {"study.yaml": study}, whole))
    assert code == 2, "a family whose source is not packed"
    source = {"families/mine.py": b"x = 1\n", "study.yaml": study}
    listed = whole[DIGESTS] + f"families/mine.py\t{digest_bytes(b'x = 1' + bytes([10]))}\n".encode()
    code, printed = checked(_with_digests(whole | source | {DIGESTS: listed}, whole))
    assert code == 0, printed
    assert "study.yaml: not compared with the sidecars: phrasemt has no family mine here\n" in printed
    assert f"{TABLE}: computed again, the same\n" in printed


@pytest.mark.parametrize("name", ["../outside", "{}/outside", "a/../../outside", "a//outside", "folder/"])
def test_names_that_lead_elsewhere_are_refused(whole: Members, checked: Checked, tmp_path: Path, name: str) -> None:
    outside = tmp_path.parent / "outside"
    outside.write_bytes(b"x")
    name = name.format(outside.parent)
    code, printed = checked({**whole, name: b"" if name.endswith("/") else b"y"})
    assert code == 2
    assert "names that lead elsewhere" in printed
    assert outside.read_bytes() == b"x"


def test_damaged_capsules_are_refused(whole: Members, checked: Checked, here: Path, capsys) -> None:
    many = {f"more/{number}": b"" for number in range(10_000)}
    for members in (
        _without(DIGESTS)(whole),
        _without("study.yaml")(whole),
        {**whole, "study.yaml": b"["},
        whole | many,
    ):
        code, printed = checked(members)
        assert (code, "not a whole capsule" in printed) == (2, True)
    assert checked({**whole, "more": b"x"})[0] == 2
    content = Path("capsule.zip").read_bytes()
    for damaged in (content[: len(content) // 2], content[:500] + b"\0\0\0\0" + content[504:], b"no zip", b""):
        Path("capsule.zip").write_bytes(damaged)
        assert main(["capsule", "--check", "capsule.zip"]) == 2
        assert "not a whole capsule" in capsys.readouterr().err
    checked(whole)
    with zipfile.ZipFile("capsule.zip", "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(SCORES, b"{}")
    assert main(["capsule", "--check", "capsule.zip"]) == 2
    assert "two of one name" in capsys.readouterr().err
    assert main(["capsule", "--check", "absent.zip"]) != 0
    assert "absent.zip: no such file" in capsys.readouterr().err


def test_a_study_with_an_altered_file_is_not_packed(golden: Path, here: Path) -> None:
    part = GoldenStudy.part(golden, here)
    part.make_table()
    Path(SCORES).write_text(json.dumps(json.loads(Path(SCORES).read_text())))
    with pytest.raises(DamagedFileError, match="not the file that score_system wrote"):
        write_capsule(part.study, Path("capsule.zip"), all_references=False)
    assert not Path("capsule.zip").exists()
