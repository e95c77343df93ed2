"""The programs run without a GPU, so that they are ready when there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).with_name("check.sh")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["first", "second", "kernels"])
def test_command(command, tmp_path):
    variables = {"DEV": "cpu", "OUT": str(tmp_path), "PYTHON": sys.executable}
    done = subprocess.run([CHECK, command], env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.glob("*.json"))
    assert "error" not in done.stdout
