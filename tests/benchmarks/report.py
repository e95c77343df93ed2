"""Time and size of a large report, and how soon a browser shows it. Run: python tests/benchmarks/report.py --help

The study is invented: 3,003 sentences of 10 to 40 words, like the sentences of newstest2014, and seven systems.
Its words are drawn at random from 5,000, so they compress worse than real text. The first paint and the explorer are
timed in a headless Chromium, if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import string
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
import browser
import invented_files
import invented_study

SYSTEMS = ("base", "max", "mean", "four", "five", "six", "seven")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=3003)
    parser.add_argument("--folder", type=Path, help="for the study (default: a temporary one)")
    options = parser.parse_args()
    draw = random.Random(1)
    invented_files.SENTENCES = options.sentences
    invented_files.WORDS_OF_A_SENTENCE = (10, 40)
    invented_files.WORDS = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(5000)]
    with tempfile.TemporaryDirectory(prefix="phrasemt-benchmark-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        study = invented_study.build(folder, seeds=(1,), systems=SYSTEMS, datasets=("demo",))
        with contextlib.chdir(folder):
            study.make_table()
            begin = time.process_time()
            study.write_report()
        page = folder / "results" / "invented" / "report.html"
        print(f"write_report: {time.process_time() - begin:.1f} CPU s, {page.stat().st_size / 1e6:.2f} MB")
        if browser.PROGRAM:
            show(page)


def show(page: Path) -> None:
    """Print when a browser paints the page, and how long the explorer takes to open and to sort."""
    with browser.browser() as chromium:
        chromium.size(1280)
        chromium.open(page)
        chromium.wait_for(PAINT)
        print(f"first paint: {chromium.run(PAINT):.0f} ms")
        for what, action in (
            ("explorer opens", "document.getElementById('sentences').scrollIntoView()"),
            ("explorer sorts", "order.value = 'best'; order.dispatchEvent(new Event('input'))"),
        ):
            begin = time.perf_counter()
            chromium.run(f"(() => {{ const order = document.querySelector('[name=order]'); {action}; }})()")
            chromium.wait_for("document.querySelector('.row')")
            print(f"{what}: {1000 * (time.perf_counter() - begin):.0f} ms")


if __name__ == "__main__":
    main()
