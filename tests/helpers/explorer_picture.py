"""Takes the picture of the explorer for the README, docs/explorer.png, from the report of the demo (needs Chromium).

It shows the sentence that the phrases of n tokens improve most.
"""

from __future__ import annotations

import sys
from pathlib import Path

from browser import browser

REPOSITORY = Path(__file__).parents[2]
REPORT = REPOSITORY / "results" / "demo" / "report.html"
CHOOSE = """
const choose = (name, value) => {
  const control = document.querySelector(`#explorer-controls [name=${name}]`);
  control.value = value;
  control.dispatchEvent(new Event('input'));
};
choose('order', 'best');
document.getElementById('explorer').scrollIntoView();
"""


def main() -> None:
    if not REPORT.exists():
        sys.exit(f"{REPORT}: no such file. Next: make demo")
    with browser() as page:
        page.size(1400, 1000)
        page.open(REPORT)
        page.run("document.getElementById('sentences').scrollIntoView()")
        page.wait_for("document.querySelector('.row')")
        page.run(f"{{{CHOOSE}}}")
        page.wait_for("document.querySelector('#explorer-detail .sentence')")
        page.picture(REPOSITORY / "docs" / "explorer.png")


if __name__ == "__main__":
    main()
