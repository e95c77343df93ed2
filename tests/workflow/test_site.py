"""The site of the documents in a browser: `make site`."""

from __future__ import annotations

import functools
import http.server
import itertools
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import browser, needs_browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(repository: Path) -> Path:
    """The folder of the site, built anew."""
    if not Path(sys.executable).with_name("zensical").exists():
        pytest.skip("no Zensical here (make .venv/site)")
    done = subprocess.run(
        [sys.executable, "docs/site/make_site.py"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return repository / "build" / "site" / "html"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address at which the site is served to this machine alone."""
    handler = functools.partial(_Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_each_kind_of_section_has_a_table_of_its_keys(site: Path) -> None:
    text = (site.parent / "pages" / "docs" / "reference" / "study.md").read_text()
    assert re.search(
        r"^## Decoding\n.*?^\| `beam` \| integer \| `\d+` \| &gt; 0 and ≤ ", text, re.MULTILINE | re.DOTALL
    )


@needs_browser
def test_pages_are_found_by_search_and_load_nothing_from_elsewhere(address: str) -> None:
    with browser() as page:
        page.size(1400)
        page.open(f"{address}/index.html")
        assert "phrasemt" in page.run("document.title")
        page.run("document.querySelector('.md-search__button').click()")
        page.wait_for("document.activeElement.shadowRoot?.querySelector('input')")
        page.call("Input.insertText", text="length_penalty_form")
        links = "[...document.activeElement.shadowRoot.querySelectorAll('a')]"
        page.wait_for(f"{links}.some(link => link.href.includes('reference/study.html'))")
        loaded = page.run("performance.getEntriesByType('resource').map(one => one.name)")
        assert loaded
        assert all(name.startswith((address, "blob:", "data:")) for name in loaded)
        assert page.problems == []


@needs_browser
def test_pages_follow_the_scheme_of_the_reader_and_fit_the_window(address: str) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        with browser() as page:  # a page keeps the scheme that it was first shown in
            page.medium(scheme=scheme)
            for width, name in itertools.product((400, 1400), ("index", "docs/reference/study", "docs/tutorials/demo")):
                page.size(width)
                page.open(f"{address}/{name}.html")
                page.wait_for("document.querySelector('h1')")
                assert page.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            colours.add(page.run("getComputedStyle(document.body).backgroundColor"))
            assert page.problems == []
    assert len(colours) == 2


def test_a_broken_link_fails_the_build(site: Path, tmp_path: Path) -> None:
    for name in ("pages", "zensical.toml"):
        source = site.parent / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, tmp_path / name)
    page = tmp_path / "pages" / "README.md"
    page.write_text(page.read_text() + "\n[broken](docs/findings.md#no-such-heading)\n")
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "anchor does not exist" in done.stdout + done.stderr
