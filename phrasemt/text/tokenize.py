"""The stage `tokenize_text`: a text as tokens, and what differs in the text that is made of these tokens again.

Tokens are Moses' (`moses`), words between spaces, characters or Chinese words. Among the latter two a space of the text
is a token of its own, U+2581, so the text comes back exactly. The round trip tokenises a text, detokenises the tokens,
and counts the lines that have changed. Its BLEU is the best that a perfect translation can reach, but BLEU cuts words
at punctuation, and so does not see where spaces stand beside it.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sacrebleu.metrics import BLEU

from phrasemt.artefacts.corpus import RoundTrip
from phrasemt.files.lines import read_parallel
from phrasemt.files.parallel import convert_lines
from phrasemt.languages import WITH_MOSES_RULES
from phrasemt.stages.subwords import TokenizeText
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import SPACE, escape, unescape

log = logging.getLogger("phrasemt.tokenize_text")

# Lines of the round trip, at equal distances in the text. The stage reads a text of any size, and scores are slow.
_ROUND_TRIP_LINES = 2_000
# Of the lines of English and German news, 5 to 7 % change, for instance because of times such as 12:30.
_GOOD_ROUND_TRIP = 0.1
_CONTROL = re.compile(r"[\x00-\x1f]")


def tokenize_text(*, settings: TokenizeText, cores: int, text: Path, tokens: Path, round_trip: Path) -> None:
    """Write each line of a text as tokens with escaped XML characters.

    round_trip: JSON with the score of the round trip (0 to 100), its signature, and the numbers of compared and of
    changed lines. More than a tenth of changed lines are a warning in the log.
    """
    if settings.tokenizer.unit == "moses" and settings.tokenizer.language not in WITH_MOSES_RULES:
        log.warning(
            "tokenize_text: warning: Moses has no rules for %r; the rules for all languages are used, with the "
            "abbreviations of English",
            settings.tokenizer.language,
        )
    lines, count = convert_lines(text, tokens, cores=cores, prepare=line_tokenizer, arguments=(settings.tokenizer,))
    log.info("tokenize_text: %s lines, %s tokens", f"{lines:,}", f"{count:,}")
    _measure_round_trip(settings.tokenizer, text, tokens, lines, round_trip)


def line_tokenizer(settings: Tokenizer) -> Callable[[str], str]:
    """A function from a line of text to its escaped tokens, separated by single spaces."""
    if settings.unit == "character":
        return lambda line: _unspaced(_plain(line))
    if settings.unit == "jieba":
        return _jieba_tokenizer()
    if settings.unit == "space":
        return lambda line: escape(_plain(line))
    from phrasemt.text.moses import moses_tokenizer  # a second, for sacremoses: trainings need only `join_unspaced`

    return moses_tokenizer(settings.language)


def line_detokenizer(settings: Tokenizer) -> Callable[[str], str]:
    """A function from a line of escaped tokens to its text."""
    if settings.unit == "moses":
        from phrasemt.text.moses import moses_detokenizer

        return moses_detokenizer(settings.language)
    return unescape if settings.unit == "space" else join_unspaced


def join_unspaced(line: str) -> str:
    """The text of a line of characters or Chinese words."""
    text = unescape(line).replace(" ", "").replace(SPACE, " ")
    return " ".join(text.split())


def _jieba_tokenizer() -> Callable[[str], str]:
    import jieba  # takes 0.3 s, and only Chinese texts need it

    words = jieba.Tokenizer()
    # Not `initialize`, which reads a cache by marshal from a folder that every user of the machine can write to.
    with words.get_dict_file() as dictionary:
        words.FREQ, words.total = words.gen_pfdict(dictionary)
    words.initialized = True
    return lambda line: _unspaced(words.cut(_plain(line)))


def _plain(line: str) -> str:
    """A line with single spaces, and without control characters, which the tokenisers of Moses remove, too."""
    return _CONTROL.sub("", " ".join(line.split())).strip()


def _unspaced(words: Iterable[str]) -> str:
    return " ".join(escape(word.replace(" ", SPACE)) for word in words)


def _measure_round_trip(settings: Tokenizer, text: Path, tokens: Path, lines: int, round_trip: Path) -> None:
    # Short texts may have no 4-grams, and without the effective order their score would be 0.
    metric = BLEU(tokenize=settings.bleu, effective_order=True, force=True)
    before, after = [], []
    for line, again in _sample(settings, text, tokens, lines):
        before.append(line)
        after.append(again)
    changed = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    # An empty text, or one without a letter, scores 0.
    score = max(metric.corpus_score(after or [""], [before or [""]]).score, 0.0 if changed else 100.0)
    RoundTrip(
        language=settings.language,
        score=round(score, 4),
        signature=str(metric.get_signature()),
        lines=len(before),
        changed_lines=len(changed),
    ).write(round_trip)
    result = f"{len(changed):,} of {len(before):,} lines change, BLEU {score:.2f} ({settings.bleu})"
    log.info("tokenize_text: round trip: %s", result)
    if len(changed) > _GOOD_ROUND_TRIP * len(before):
        # The line in which most of the text differs shows the reason best.
        worst = min(changed, key=lambda number: metric.sentence_score(after[number], [before[number]]).score)
        log.warning(
            "tokenize_text: warning: detokenisation does not restore this text, so a perfect translation would differ "
            "from its reference: %s, such as %r to %r. Next: choose another `tokenization` for this side, or compare "
            "systems by bleu_tok",
            result,
            before[worst],
            after[worst],
        )


def _sample(settings: Tokenizer, text: Path, tokens: Path, lines: int) -> Iterator[tuple[str, str]]:
    """Lines of the text, and the same lines made of tokens again."""
    detokenize = line_detokenizer(settings)
    step = max(1, -(-lines // _ROUND_TRIP_LINES))
    for line, line_of_tokens in itertools.islice(read_parallel(text, tokens), 0, None, step):
        yield line, detokenize(line_of_tokens)
