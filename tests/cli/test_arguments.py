"""The argument STUDY is the same for all verbs; what the command line says about itself."""

from __future__ import annotations

import argparse
import errno
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import phrasemt
from phrasemt import verbs
from phrasemt.cli import main
from phrasemt.verbs import check, describe, phrases, plan, show, status, trace, tree

ABOUT_A_STUDY = [
    (check, [], {}),
    (describe, ["max"], {"system": "max"}),
    (phrases, [], {}),
    (plan, [], {"names": []}),
    (show, [], {}),
    (status, [], {}),
    (trace, ["test:17"], {"pair": "test:17"}),
    (tree, ["test:17"], {"pair": "test:17"}),
]


@pytest.mark.parametrize(
    ("verb", "others", "expected"), ABOUT_A_STUDY, ids=lambda value: getattr(value, "__name__", "")
)
@pytest.mark.parametrize("study", ["studies/multi30k.yaml", None])
def test_the_study_is_the_first_argument_or_config_yaml(
    verb: ModuleType, others: list[str], expected: dict[str, object], study: str | None
) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    options = vars(parser.parse_args([*([study] if study else []), *others]))
    assert options.items() >= {"study": Path(study or "config.yaml"), **expected}.items()


@pytest.mark.parametrize("verb", ["show", "status", "runs"])
def test_verbs_about_results_take_a_name_too(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, "small"]) == 2
    message = capsys.readouterr().err
    assert "small" in message
    assert "--configfile STUDY.yaml" in message


def test_each_verb_is_listed_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    modules = {module.name.removesuffix("_model") for module in pkgutil.iter_modules(verbs.__path__)}
    assert {name for name in modules if not name.startswith("_")} == verbs.VERBS.keys()
    for verb in ("import", "gc", "store"):
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--help"])
        assert f"usage: phrasemt {verb} " in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"phrasemt {phrasemt.__version__}\n"


def _raise(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    "runs_out",
    [
        lambda: bytearray(1 << 60),
        lambda: np.empty(1 << 58),
        lambda: torch.empty(1 << 58),
        lambda: _raise(torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 MiB.")),
        lambda: _raise(OSError(errno.ENOMEM, "Cannot allocate memory")),
    ],
    ids=["Python", "numpy", "torch on a CPU", "torch on a GPU", "the system"],
)
def test_a_lack_of_memory_is_no_mistake_of_phrasemt(
    runs_out: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "run", lambda options: runs_out())
    assert main(["check"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("phrasemt check: error: memory ran out")
    assert line.endswith(". Next: run again with fewer cores or more memory")
