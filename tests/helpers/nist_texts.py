"""Small texts in place of those that studies/zhou2017-zh-en.yaml expects from the user."""

from __future__ import annotations

from pathlib import Path

CHINESE = ["我们今天开会。", "他不在这里。"]
ENGLISH = ["We meet today .", "He is not here ."]


def write_nist_texts(folder: Path) -> None:
    """The layout of docs/papers/zhou2017.md."""
    sets = [f"MT0{year}" for year in (2, 3, 4, 5)]
    chinese = [f"nist/{name}.zh" for name in sets]
    english = [f"nist/{name}.en.{number}" for name in sets for number in range(4)]
    for names, lines in ((chinese, CHINESE), (english, ENGLISH)):
        for path in (folder / name for name in names):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
