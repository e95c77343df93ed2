"""The stage `score_system`: BLEU in the conventions of the papers and by sacreBLEU, chrF and TER.

Several numbers called "BLEU" are in use. Each column of the table is one of them:

| column | text | as in |
|---|---|---|
| `bleu_tok` | tokens of the data set on both sides, cased | `multi-bleu.perl` (Xu et al. 2020; Nguyen et al. 2020) |
| `bleu_tok_uncased` | the same, A to Z in lower case | `multi-bleu.perl -lc` (Zhou et al. 2017, for NIST sets) |
| `bleu_tok_compound_split` | cased, split at hyphens | Tensor2Tensor's `get_ende_bleu.sh` (Vaswani et al. 2017) |
| `bleu_detok` | detokenised output against the untouched reference | `sacrebleu` |

`chrf2`, `chrf2pp` (chrF++; Popović 2015, 2017) and `ter` (Snover et al. 2006) are sacreBLEU's on the text of
`bleu_detok`. `multi-bleu.perl` does not smooth: without a common 4-gram its score is 0. It equals sacreBLEU with
`tokenize=none` and `smooth_method=none`. sacremoses and the Perl original of Moses differ in some tokens, so the
signature contains the version of sacremoses.

A test set may have several references. The length of the reference is then, sentence by sentence, that of the reference
closest to the hypothesis (`multi-bleu.perl`, mteval-v13a, sacreBLEU).

sacreBLEU has tokenisers of its own for Chinese (`zh`) and Japanese (`ja-mecab`); Thai and others are scored by
characters (`char`). TER cuts Chinese and Japanese by sacreBLEU's `asian_support`, and the others into characters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sacrebleu.metrics import BLEU, CHRF, TER

from phrasemt.artefacts.scores import CONVENTIONS, Convention, MetricScore, Scores, SystemScores
from phrasemt.artefacts.sidecar import Sidecar, sidecar_path
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel
from phrasemt.files.preprocessing import Preprocessing
from phrasemt.files.system import digest_file
from phrasemt.scoring.multi_bleu import multi_bleu
from phrasemt.scoring.scores import of_test_sets, references_of
from phrasemt.scoring.ter import FastTER
from phrasemt.stages.scoring import ScoreSystem
from phrasemt.study.tokenization import Tokenizer

log = logging.getLogger("phrasemt.scoring.bleu")

TOKENISED, UNCASED, COMPOUND_SPLIT = "bleu_tok", "bleu_tok_uncased", "bleu_tok_compound_split"
DETOKENISED, CHRF2, CHRF2PP, TER_ = "bleu_detok", "chrf2", "chrf2pp", "ter"

_LINES_AT_ONCE = 200  # whose n-grams are in memory
_LONG = 100  # words of a line of which TER is slow
# The number of lines that look tokenised at which sacreBLEU warns (mjpost/sacrebleu#162).
_TOKENISED_LINES = 100


def score_system(
    *,
    settings: ScoreSystem,
    cores: int,
    tokens: list[Path],
    text: list[Path],
    reference_tokens: list[Path],
    reference: list[Path],
    scores: Path,
) -> None:
    """Score the translations of a system on each test set in all conventions, and write a `SystemScores`.

    tokens, text: one file for each test set; reference_tokens, reference: for each test set as many files as it has
    references. Raises DataError if the texts of a test set have unequal numbers of lines, if subwords were not joined,
    or if the text for `bleu_detok` is tokenised.
    """
    references = [references_of(files, settings.references) for files in (reference_tokens, reference)]
    test_sets = {}
    for place, (test_set, (of_tokens, of_text)) in enumerate(of_test_sets(settings.test_sets, tokens, text)):
        sides = read_sides(of_tokens, of_text, *(side[place] for side in references))
        part = test_sets[test_set] = score_texts(sides, settings.target_tokenizer)
        found = ", ".join(f"{name} {metric.score:.2f}" for name, metric in part.metrics.items())
        log.info("score_system: %s, %s sentences: %s", test_set, f"{part.sentences:,}", found)
    file = SystemScores(dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets)
    file.write(scores)


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The texts of a test set, line by line. The references are lists of lines, one list for each reference."""

    tokens: list[str]
    text: list[str]
    reference_tokens: list[list[str]]
    reference: list[list[str]]
    digests: dict[Literal["tokens", "text"], list[str]]
    tokens_made_by: dict[str, str]


def read_sides(tokens: Path, text: Path, reference_tokens: Sequence[Path], reference: Sequence[Path]) -> Sides:
    """Read the texts of a test set. Raises DataError as `score_system` does."""
    lines = list(read_parallel(tokens, text, *reference_tokens, *reference))
    if not lines:
        raise DataError("the test set is empty", where=tokens, next_step="give a test set with at least one sentence")
    token_lines, text_lines, *references = (list(side) for side in zip(*lines, strict=True))
    warn_of_leftovers(text, text_lines, check_side(tokens, token_lines, text, text_lines))
    has_sidecar = sidecar_path(reference_tokens[0]).exists()
    return Sides(
        tokens=token_lines,
        text=text_lines,
        reference_tokens=references[: len(reference_tokens)],
        reference=references[len(reference_tokens) :],
        digests={"tokens": list(map(digest_file, reference_tokens)), "text": list(map(digest_file, reference))},
        tokens_made_by=Sidecar.beside(reference_tokens[0]).versions if has_sidecar else {},
    )


def check_side(tokens: Path, token_lines: Sequence[str], text: Path, text_lines: Sequence[str]) -> Preprocessing:
    """Refuse translations or a reference whose scores would mean nothing. tokens, text: their files.

    Returns what was counted in the text, to compare with the other side. Raises DataError for subwords, and for
    text that is tokenised.
    """
    Preprocessing.of(token_lines).check_whole_words(tokens)
    counts = Preprocessing.of(text_lines)
    counts.check_whole_words(text)
    if (count := sum(line.endswith(" .") for line in text_lines)) >= _TOKENISED_LINES:
        raise DataError(
            "the text for detokenised BLEU is still tokenised",
            where=text,
            expected=f"fewer than {_TOKENISED_LINES} lines that end in ' .'",
            found=count,
            next_step="detokenise it, or declare that it consists of tokens",
        )
    return counts


def score_texts(sides: Sides, target: Tokenizer) -> Scores:
    """The scores of one test set in all conventions."""
    tokenizer = _signature_of_tokens(target, sides.tokens_made_by)
    metrics: dict[str, MetricScore] = {}
    statistics: dict[str, list[list[int | float]]] = {}

    def add(name: str, metric: BLEU | CHRF | TER, text: list[str], references: list[list[str]], more: str) -> None:
        metrics[name], statistics[name] = _scored(CONVENTIONS[name], metric, text, references, signature=more)

    add(TOKENISED, multi_bleu(), sides.tokens, sides.reference_tokens, tokenizer)
    lowered, *lowered_references = (list(map(lower_ascii, side)) for side in (sides.tokens, *sides.reference_tokens))
    add(UNCASED, multi_bleu(), lowered, lowered_references, _joined("lower:a-z", tokenizer))
    if target.language == "de" and target.unit == "moses":
        split, *split_references = (
            [split_compounds(line) for line in side] for side in (sides.tokens, *sides.reference_tokens)
        )
        add(COMPOUND_SPLIT, multi_bleu(), split, split_references, f"{tokenizer}|compounds:t2t")
    text, references, cut = sides.text, sides.reference, ""
    # 13a takes a Chinese sentence for one word, so the tokeniser depends on the language.
    add(DETOKENISED, BLEU(tokenize=target.bleu), text, references, "")
    add(CHRF2, CHRF(), text, references, "")
    add(CHRF2PP, CHRF(word_order=2), text, references, "")
    # TER takes a sentence without spaces for one word. sacreBLEU knows the characters of Chinese and Japanese only.
    if target.bleu == "char":
        text, *references = ([" ".join(line.replace(" ", "")) for line in side] for side in (text, *references))
        cut = "tokens:characters"
    is_asian = target.bleu in ("zh", "ja-mecab")
    _warn_of_slow_ter(text)
    add(TER_, FastTER(normalized=is_asian, asian_support=is_asian), text, references, cut)
    return Scores(sentences=len(text), references=sides.digests, metrics=metrics, statistics=statistics)


def _warn_of_slow_ter(text: Sequence[str]) -> None:
    """TER looks for words that moved, and needs up to 3 seconds for 100 words and 12 for 300."""
    if (long := [count for line in text if (count := len(line.split())) > _LONG]) and sum(long) > 10 * _LONG:
        log.warning(
            "score_system: warning: %d lines have more than %d words, and TER needs up to %d minutes for them",
            len(long), _LONG, -(-sum(long) // (20 * _LONG)),
        )  # fmt: skip


def lower_ascii(line: str) -> str:
    """A line with A to Z in lower case, as Perl's `lc` in multi-bleu.perl, which reads bytes: Ä stays Ä."""
    return line.encode().lower().decode()


def split_compounds(line: str) -> str:
    """Tensor2Tensor's `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g` (get_ende_bleu.sh).

    Works on bytes, like Perl in that script. A match takes one byte on each side of the hyphen. Of two hyphens around
    one ASCII letter only the first is therefore split; around "é", which has two bytes, both are split.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode()).decode()


def _scored(
    convention: Convention,
    metric: BLEU | CHRF | TER,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    signature: str,
) -> tuple[MetricScore, list[list[int | float]]]:
    """The score with its extended signature, and the statistics of each sentence (phrasemt/scoring/scores.py)."""
    # sacreBLEU's paired tests call the same functions. The statistics serve the score and the tests.
    rows: list[list[Any]] = []
    for start in range(0, len(hypotheses), _LINES_AT_ONCE):
        part = slice(start, start + _LINES_AT_ONCE)
        rows += metric._extract_corpus_statistics(hypotheses[part], [side[part] for side in references])
    score = metric._aggregate_and_compute(rows)
    scored = convention.score(score.score, _joined(str(metric.get_signature()), signature))
    if isinstance(metric, BLEU):
        rows = [[*counts, sys_len, ref_len] for sys_len, ref_len, *counts in rows]
    return scored, rows


def _joined(*signatures: str) -> str:
    return "|".join(filter(None, signatures))


def _signature_of_tokens(tokenizer: Tokenizer, versions: Mapping[str, str]) -> str:
    """What the tokens of `bleu_tok` are. versions: of the libraries that tokenised the reference."""
    if tokenizer.unit in ("character", "space"):
        return f"tokens:{tokenizer.unit}s"
    if tokenizer.unit == "jieba":
        return f"tokens:jieba-{versions.get('jieba', 'unrecorded')}"
    moses = f"sacremoses-{versions['sacremoses']}" if "sacremoses" in versions else "unrecorded"
    return f"moses:{moses}|aggressive_dash:no"


def warn_of_leftovers(path: Path, lines: Sequence[str], counts: Preprocessing) -> None:
    """Warn of lines with escapes and of lines with <unk>. path: of the text; counts: of its lines."""
    if counts.escaped:
        log.warning(
            "score_system: %s: %d lines contain Moses escapes such as &apos;, which lower BLEU", path, counts.escaped
        )
    if unknown := sum("<unk>" in line for line in lines):
        log.warning(
            "score_system: %s: %d lines contain <unk>, which sacreBLEU splits into several words", path, unknown
        )
