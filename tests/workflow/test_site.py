"""The site of the documents in a browser: `make site`."""

from __future__ import annotations

import functools
import http.server
import json
import re
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


def test_the_search_leaves_out_the_logs(site: Path) -> None:
    assert (site / "docs" / "log" / "results.html").exists()
    places = [item["location"] for item in json.loads((site / "search.json").read_text())["items"]]
    assert any(place.startswith("docs/results.html") for place in places)
    assert not [place for place in places if place.startswith("docs/log/")]


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
