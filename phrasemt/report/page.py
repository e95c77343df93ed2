"""The frame of a page that needs no other file and no network: `page.html`, `.css` and `.js`, and the sections in it.

Templates, which `fill` fills in, escape every value, so text of corpora and titles of systems are never HTML. The
policy of the page forbids browsers to load anything, and to run scripts other than those that stand here
(Content-Security-Policy with the digest of each script).
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from phrasemt.report.figures import Drawing

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page. anchor: its id; heading: also its name in the navigation; script: JavaScript it needs.

    finding: its result in a few words, which stands beside the heading of the folded section; without it the section is
    open.
    """

    anchor: str
    heading: str
    content: Markup
    finding: str = ""
    script: str = ""


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of text. Cells of the first column are the headings of their rows, and may have links."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    links: Mapping[str, str] = field(default_factory=dict)


def fill(template: str, **values: Any) -> Markup:
    """Fill in a template of this folder, such as `sections/results.html`. Its name begins with that of its module."""
    return Markup(_environment().get_template(template).render(**values))


def text_of(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def write_page(title: str, answer: str, caveat: str, sections: Sequence[Section]) -> str:
    """Return the page. answer: what was found, in large type; caveat: what limits it."""
    scripts = [*(section.script for section in sections if section.script), text_of("page.js")]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    return fill(
        "page.html",
        title=title,
        answer=answer,
        caveat=caveat,
        sections=sections,
        style=Markup(text_of("figures.css") + text_of("page.css")),
        scripts=[Markup(script) for script in scripts],
        script_policy=" ".join(f"'sha256-{digest}'" for digest in digests),
    )


def drawings_in(page: str) -> list[Drawing]:
    """Return the figures of a page that was written here, in their order."""
    found = re.findall(r'<figcaption>(.*?)</figcaption>(<svg class="plot".*?</svg>)', page)
    return [Drawing(svg=svg, title=html.unescape(title)) for title, svg in found]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        minus=lambda text: re.sub(r"(?<!\w)-(?=\d)", "−", text), inline=_inline, breakable=_breakable
    )
    return environment


def _inline(drawing: Drawing) -> Markup:
    return Markup("<figcaption>{}</figcaption>{}").format(drawing.title, Markup(drawing.svg))


def _breakable(name: str) -> Markup:
    """A name of a program, which a narrow column may break after `_`, `.` and `/` and not within words."""
    return Markup("<wbr>").join(re.split(r"(?<=[_./])", name))
