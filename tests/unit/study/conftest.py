"""Studies with mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from phrasemt.errors import StudyError
from phrasemt.study.reading import load_study


@pytest.fixture
def problems_of(tmp_path: Path) -> Callable[..., list[str]]:
    """The mistakes that are named in a study: its text, its values or its file."""

    def problems(study: str | dict[str, Any] | Path, read: Callable[[Path], object] = load_study) -> list[str]:
        path = study if isinstance(study, Path) else tmp_path / "study.yaml"
        if not isinstance(study, Path):
            path.write_text(study if isinstance(study, str) else yaml.safe_dump(study, sort_keys=False))
        with pytest.raises(StudyError) as caught:
            read(path)
        return caught.value.problems

    return problems
