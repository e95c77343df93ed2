"""White space in a line of text, what makes two lines the same sentence, and what shows that a text was preprocessed:
forms that no plain text has, Moses' escapes, a full stop apart from its word.

Stages that clean and that divide texts agree in what the same sentence is; otherwise one could be in train and in test.

Models and scores compare texts. Texts that were preprocessed in different ways make both of them wrong, and nothing
fails: a perfect translation of an escaped reference scores 27 BLEU. Sentences with the same brackets or numbers around
them look alike to BLEU: wrong translations score 61 as JSON, and right ones 0.3 in the order of a log. A text has a
form if so many of its lines have it that it is no chance, as it is in texts from the web.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from phrasemt.errors import DataError
from phrasemt.symbols import INVISIBLE, SEPARATOR, SPACE


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


# \s matches the white space of Unicode; the rest are control characters (Cc) and the byte order mark.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
_BLANK = re.compile(f"[{INVISIBLE}\\s]*")

# &amp;, &lt; and &gt; are also found in texts from web pages.
_ESCAPE = re.compile(r"&(?:apos|quot|#91|#93|#124);")
_FULL_STOP_APART = (" .", " 。")

# From these fractions of the lines on, a text counts as escaped or tokenised. Another text of the same kind then has a
# tenth of the fraction at least, if it is so long that five such lines are expected: by chance, fewer than one text in
# 100 has none.
_PREPROCESSED = (
    ("escaped", "Moses' escapes such as &apos;", 0.03),
    ("tokenised", "a full stop apart from its word", 0.3),
)
_ALIKE, _EXPECTED = 0.1, 5


def normalise_spaces(line: str) -> str:
    """Replace each run of white space and control characters by one space, and strip the line.

    Such characters are form feeds, U+0085, U+2028, no-break spaces, carriage returns and the byte order mark. Every
    tokenizer splits at them, and a tool that takes one of them for a line end would shift one side against the other.
    Other invisible characters stay, but a line of nothing else is blank.
    """
    if not line.isprintable() or "  " in line:  # false for nearly all lines
        line = _SPACE.sub(" ", line)
    return "" if _BLANK.fullmatch(line) else line.strip(" ")


def comparable(line: str) -> str:
    """A line with composed letters (NFC) and without invisible characters: equal for lines that look the same."""
    if line.isascii():
        return line
    line, invisible = _INVISIBLE.subn("", unicodedata.normalize("NFC", line))
    return " ".join(line.split()) if invisible else line


@dataclass
class Preprocessing:
    """Numbers of the lines of a text that show preprocessing. first: the first line of each form, and its piece."""

    lines: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    escaped: int = 0
    tokenised: int = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> Preprocessing:
        counts = cls()
        for line in lines:
            counts.lines += 1
            if found := form_of(line, counts.lines):
                counts.add(counts.lines, *found)
            counts.escaped += "&" in line and _ESCAPE.search(line) is not None
            counts.tokenised += line.endswith(_FULL_STOP_APART)
        return counts

    def add(self, number: int, form: str, piece: str) -> None:
        """Count a line of a form. number: of the line; piece: of it, which shows the form."""
        self.forms[form] += 1
        self.first.setdefault(form, (number, piece))

    def check_plain_text(self, where: object) -> None:
        """Raise DataError, with a line, if so many lines have a form of no plain text that it is no chance.

        where: name of the text.
        """
        for form, count in self.forms.items():
            is_first = form == "headings" and self.first[form][0] == 1
            if is_first or count > max(1, FORMS[form].share * looked_at(form, self.lines)):
                raise self._refusal(form, where)

    def check_whole_words(self, where: object) -> None:
        """Raise DataError if any line holds subwords. where: name of the text."""
        if self.forms["subwords"]:
            raise self._refusal("subwords", where)

    def _refusal(self, form: str, where: object) -> DataError:
        number, piece = self.first[form]
        found = f"{piece!r}, and the like in {self.forms[form]:,} of {looked_at(form, self.lines):,} lines"
        return DataError(
            FORMS[form].what,
            where=f"{where}, line {number}",
            expected="one plain sentence per line",
            found=found,
            next_step=FORMS[form].next_step,
        )


def check_same_preprocessing(texts: Mapping[str, Preprocessing]) -> None:
    """Raise DataError if one of several texts is escaped or tokenised and another one is not. texts: by name."""
    for key, pattern, least in _PREPROCESSED:
        fractions = {name: getattr(counts, key) / max(1, counts.lines) for name, counts in texts.items()}
        first, fraction = max(fractions.items(), key=lambda one: one[1])
        for name, counts in texts.items():
            if fraction >= least and fractions[name] <= _ALIKE * fraction and fraction * counts.lines >= _EXPECTED:
                raise DataError(
                    "two texts of one language were preprocessed in different ways",
                    where=f"{first}, {name}",
                    expected=f"lines with {pattern} in both, or in neither",
                    found=f"{fraction:.1%} and {fractions[name]:.1%} of the lines",
                    next_step="undo the escapes and tokens of one text, or preprocess the other one in the same way",
                )
