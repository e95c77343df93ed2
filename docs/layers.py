"""Draws the layers of the import contract in pyproject.toml: `make layers` writes docs/layers.svg."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

WIDTH, HEIGHT, GAP, MARGIN = 760, 30, 8, 50  # pixels
STYLE = (
    "text{font:14px monospace;fill:#123;text-anchor:middle} rect{fill:#e8f0fa;stroke:#57a} path{fill:none;stroke:#57a}"
)


def draw(layers: list[str]) -> str:
    """An SVG with a row for each layer, the highest on top. Rooms separated by `:` may import each other: one box."""
    height = len(layers) * (HEIGHT + GAP) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">', f"<style>{STYLE}</style>"]
    parts.append(f'<path d="M25 {GAP} V{height - GAP} l-6 -10 m6 10 l6 -10"/>')
    parts.append(f'<text transform="translate(16 {height / 2}) rotate(-90)">imports</text>')
    for row, layer in enumerate(layers):
        top = GAP + row * (HEIGHT + GAP)
        boxes = layer.split("|")
        width = (WIDTH - MARGIN - GAP * len(boxes)) / len(boxes)
        for column, box in enumerate(boxes):
            left = MARGIN + column * (width + GAP)
            parts.append(f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{HEIGHT}" rx="4"/>')
            rooms = re.findall(r"phrasemt\.([\w.]+)", box)
            for number, room in enumerate(rooms):
                middle = left + width * (2 * number + 1) / (2 * len(rooms))
                parts.append(f'<text class="room" x="{middle:.0f}" y="{top + 20}">{room}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    folder = Path(__file__).parent
    contracts = tomllib.loads((folder.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (folder / "layers.svg").write_text(draw(contracts[0]["layers"]))
