"""Builds the documents as a site: `make site` writes build/site/html/.

The documents keep their places in the repository, so their links lead to the same pages here and there. The builder
adds the generated reference, and links each document that a page names between
backticks. Zensical builds the pages, and refuses a link that leads nowhere. Nothing of it needs a network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import reference

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "build" / "site"
PAGES = BUILD / "pages"
_DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md", "profiles/README.md", "docs/**/*.md")
_PICTURES = ("docs/**/*.svg", "docs/**/*.png")
_LOGS = "docs/log/"  # history; a search does not show it
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?<![\[`])`((?:[\w-]+/)*[\w-]+\.md)`(?!\])")


def _originals(*patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        for path in sorted(REPOSITORY.glob(pattern)):
            yield path.relative_to(REPOSITORY)


def linked(text: str, page: Path, pages: set[str]) -> str:
    """The text with a link at each document that it names in backticks, outside of blocks of code."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        if name not in pages or name == page.as_posix():
            return match[0]
        return f"[`{name}`]({os.path.relpath(name, page.parent)})"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _NAMED.sub(link, part) for part in parts)


def write_pages() -> None:
    """Write the pages that Zensical reads."""
    shutil.rmtree(PAGES, ignore_errors=True)
    written = {f"docs/reference/{name}.md": "\n".join(make()) + "\n" for name, make in reference.PAGES.items()}
    texts = written | {path.as_posix(): (REPOSITORY / path).read_text() for path in _originals(*_DOCUMENTS)}
    for name in [*texts, *map(str, _originals(*_PICTURES))]:
        page = PAGES / name
        page.parent.mkdir(parents=True, exist_ok=True)
        if name in texts:
            header = _NOT_SEARCHED if name.startswith(_LOGS) else ""
            page.write_text(header + linked(texts[name], Path(name), set(texts)))
        else:
            shutil.copyfile(REPOSITORY / name, page)
    shutil.copyfile(Path(__file__).with_name("site.css"), PAGES / "site.css")


def main() -> None:
    os.chdir(REPOSITORY)
    write_pages()
    shutil.copyfile(Path(__file__).with_name("zensical.toml"), BUILD / "zensical.toml")
    shutil.rmtree(BUILD / "html", ignore_errors=True)
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=BUILD, check=False)
    if done.returncode:
        sys.exit(
            "make site: a page is wrong, its message is above. Next: correct the document, then run `make site` again"
        )
    print(f"The site is {BUILD / 'html'}. As a file it has no search. Next: python3 -m http.server -d {BUILD / 'html'}")


if __name__ == "__main__":
    main()
