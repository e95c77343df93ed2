"""Lines that are no plain sentences: pieces of other formats, and outputs of other programs.

Sentences with the same brackets or numbers around them look alike to BLEU: wrong translations score 61 as JSON, and
right ones 0.3 in the order of a log. A text has a form if so many of its lines have it that it is no chance, as it is
in texts from the web.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from phrasemt.symbols import SEPARATOR, SPACE


class Form(NamedTuple):
    """A form of lines. share: of the lines that have it, above which a text is refused."""

    what: str
    share: float
    next_step: str


_TAGS = (
    r"of SGM keep the segments (sed -n 's/.*<seg[^>]*> *\(.*\)<\/seg>.*/\1/p' FILE); of training texts remove the "
    "lines of tags from both sides"
)
# The name of the group of a pattern is that of the form. A line of a text has no white space in front.
FORMS = {
    "subwords": Form("the text is cut into subwords", 0.01, "join the subwords (remove '@@ ')"),
    "tags": Form("the text holds tags", 0.01, _TAGS),
    "elements": Form("the lines stand in tags", 0.1, "sed -E 's/<[^<>]*>//g' FILE"),
    "json": Form(
        "the lines are JSON",
        0.1,
        "python -c 'import json, sys; [print(json.loads(line)[\"KEY\"]) for line in sys.stdin]' < FILE, with the KEY "
        "of the text",
    ),
    "csv": Form(
        "the text is a table (CSV)",
        0.5,
        "python -c 'import csv, sys; [print(row[0]) for row in csv.reader(sys.stdin)]' < FILE, with the column of the "
        "text, counted from 0, and without the line of headings",
    ),
    "headings": Form("the text is a table with headings", 1, "tail -n +2 FILE, and take the column of the text"),
    "columns": Form("the text is a table with tabulators", 0.1, "cut -f 2 FILE, with the column of the text"),
    "fairseq": Form("a log of fairseq", 0.1, "grep ^H- FILE | LC_ALL=C sort -V | cut -f 3"),
    "nbest": Form(
        "a list of n-best translations, or several texts in a line",
        0.1,
        "awk -F ' [|][|][|] ' 'NR == 1 || $1 != last {print $2} {last = $1}' FILE",
    ),
    "labels": Form("a log with labels in front of sentences", 0.1, r"sed -nE 's/^PRED [0-9]+: //p' FILE"),
    "bounds": Form("the sentences hold <s> or </s>", 0.1, "sed -E 's/^ *<s> *//; s/ *<\\/s> *$//' FILE"),
    "names": Form("a name of the sentence ends each line", 0.5, r"sed -E 's/ *\([^() ]+\) *$//' FILE"),
    "numbers": Form("a number begins each line", 0.5, r"sed -E 's/^([A-Za-z]+\.? )?[^ ]*[0-9][^ ]* +//' FILE"),
    "quotes": Form("each line is quoted", 0.9, 'sed -E \'s/^ *"(.*)" *$/\\1/; s/""/"/g\' FILE'),
    "times": Form("subtitles or a log with times", 0.1, "remove the lines of times and numbers"),
    "factors": Form("each word has a tag", 0.5, "sed -E 's/[|_/][^ |_/]+( |$)/\\1/g' FILE"),
    "trees": Form("the lines are trees", 0.3, r"sed -E 's/\([^ ()]+ |\)//g' FILE"),
    "bullets": Form("a mark of a list begins each line", 0.9, r"sed -E 's/^ *[-*•] +//' FILE"),
}
# Lines of WMT's SGM, of IWSLT's training texts and of other documents.
_TAG_OF_DOCUMENTS = (
    r"\s*<(?:[?!]|/?(?:srcset|refset|tstset|doc|seg|hl|title|description|url|keywords|talkid|speaker|reviewer"
    r"|translator|tmx|tuv?|xliff|html|body)\b)[^<]*>"
)
_NAMED = "p|li|br|div|span|td|tr|verse|v|line|l|s|text|sentence|tok|source|target"
_HEADING = "id|idx|index|src|tgt|source|target|text|sentence|translation|reference|score|lang|en|de|fr|zh|ru|es|label"
_CELL = r'(?:"(?:[^"]|"")*"|[^",;\s][^",;]*|)'
_PATTERNS = {
    "bounds": r"</?(?:s|bos|eos|pad)>|.*(?:</s>|<eos>|<pad>)$",
    "elements": rf"<(?:{_NAMED})\b[^<>]*>|<(?!unk>)[a-z][\w.-]*\b[^<>]*>(?:.*</\w+>)?$|</\w+>$",
    "json": r"""\{\s*["'].*\},?$|\[\s*["'\{\[].*\],?$|"[^"]{1,40}"\s*:""",
    "headings": rf"(?:{_HEADING})(?:[,;\t|](?:{_HEADING}))+$",
    "fairseq": r"[A-Z]-\d+\t",
    "nbest": r"[^|]*\|\|\||\|.*\|$",
    "columns": r"[^\t]*\t",
    "labels": r"(?:\[.*?\] )?(?:SENT|PRED|GOLD)\b.{,20}?:|msg(?:id|str|ctxt)\b"
    r"|(?:source|target|src|tgt|ref|reference|hyp|hypothesis|input|output)\s*[:=]",
    "times": r"[\d:.,]+ *-->|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d",
    "trees": r"\(+[A-Z$.,:-]* ?\([A-Z$.,:-]+ ",
    "csv": rf'(?=.*"){_CELL}(?:[,;]{_CELL})+$|\d+,(?=[^\s\d])|[^",;]*[a-z.?!],(?=[^\W\d])[^",;]*$',
    "numbers": r"[(\[#]?(?:[^\W\d_]\w{,30}[._:-])?\d[\d._:-]*[.:)\]|]* +(?=[^\W\d])|[^\W\d]{2,5}\.? \d+:\d+ ",
    "quotes": r'"(?:[^"\\]|""|\\.)*",?$',
    "names": r".*\([\w.]{,40}[^\W\d_][\w.]{,40}[-_]\d+\)$",
    "bullets": r"[-*•] ",
    "factors": r"(?:[^\s|/_]+[|/_][^\s|/_]+\s+)+[^\s|/_]+[|/_]\S+$",
}
_PATTERN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()), re.IGNORECASE)
_TAG = re.compile(_TAG_OF_DOCUMENTS, re.IGNORECASE)
# `@@` at the end of a piece of a word (subword-nmt), U+2581 at the beginning of a word (SentencePiece).
_SUBWORD = re.compile(rf"(?<=\S){SEPARATOR}(?=\s|$)|(?:(?<=\s)|^){SPACE}(?=\S)")
# The patterns take 10 microseconds for a line, as much as all of cleaning, so they see a part of a long text.
_ALL_OF, _EVERY = 128, 128


def form_of(line: str, number: int) -> tuple[str, str] | None:
    """The form of a raw line, with the place that shows it; None for nearly all lines. number: of the line, from 1.

    Subwords and tags of documents are found in all lines, other forms in the lines that `looked_at` counts.
    """
    if "<" in line and (tag := _TAG.match(line)):
        return "tags", tag[0][:60]
    if (SEPARATOR in line or SPACE in line) and (mark := _SUBWORD.search(line)):
        return "subwords", line[max(0, mark.start() - 20) : mark.end() + 20]
    if (number <= _ALL_OF or number % _EVERY == 0) and (match := _PATTERN.match(line.strip())):
        assert match.lastgroup is not None
        return match.lastgroup, match[0][:60]
    return None


def looked_at(form: str, lines: int) -> int:
    """In how many of the lines of a text `form_of` looks for a form."""
    return lines if form in ("subwords", "tags") else min(lines, _ALL_OF) + max(0, lines - _ALL_OF) // _EVERY
