"""The stage `score_system`: BLEU in the conventions of the papers, and by sacreBLEU.

Three numbers called "BLEU" are in use for English-German. Each column of the table is one of them:

| column | text | as in |
|---|---|---|
| `bleu_tok` | tokens of the data set on both sides, cased | `multi-bleu.perl` (Xu et al. 2020; Nguyen et al. 2020) |
| `bleu_tok_compound_split` | the same, split at hyphens | Tensor2Tensor's `get_ende_bleu.sh` (Vaswani et al. 2017) |
| `bleu_detok` | detokenised output against the untouched reference | `sacrebleu` |

`chrf2` (Popović 2015, 2016) is computed with `bleu_detok`. `multi-bleu.perl` does not smooth: without a common 4-gram
its score is 0. It equals sacreBLEU with `tokenize=none` and `smooth_method=none`. sacremoses and the Perl original of
Moses differ in some tokens, so the signature contains the version of sacremoses.

sacreBLEU has tokenisers of its own for Chinese (`zh`) and Japanese (`ja-mecab`); Thai and others are scored by
characters (`char`). With `normalize_punctuation`, translations and reference are normalised before `bleu_detok` and
`chrf2`, and the signature says `punctuation:moses`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from phrasemt.errors import DataError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import read_parallel, write_text
from phrasemt.files.sidecars import read_sidecar, sidecar_path
from phrasemt.languages import punctuation_normalizer
from phrasemt.scoring.multi_bleu import multi_bleu
from phrasemt.scoring.scores import BleuScore, MetricScore, ScoreFile, Scores, of_test_sets
from phrasemt.stages.scoring import ScoreSystem
from phrasemt.study.tokenization import Tokenizer

log = logging.getLogger("phrasemt.scoring.bleu")

TOKENISED, COMPOUND_SPLIT, DETOKENISED, CHRF2 = "bleu_tok", "bleu_tok_compound_split", "bleu_detok", "chrf2"

# A subword mark at the end of a token shows that subwords were not joined.
_SUBWORD_MARK = re.compile(r"@@(?: |$)")
_MOSES_ESCAPE = re.compile(r"&(?:apos|quot|#91|#93|#124);")
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
    """Score the translations of a system on each test set in all conventions, and write a `ScoreFile`.

    tokens, text, reference_tokens, reference: one file for each test set. Raises DataError if the four texts of a test
    set have unequal numbers of lines, if subwords were not joined, or if the text for `bleu_detok` is tokenised.
    """
    test_sets = {}
    for test_set, files in of_test_sets(settings.test_sets, tokens, text, reference_tokens, reference):
        part = test_sets[test_set] = _scores(settings, *files)
        found = ", ".join(f"{name} {metric.score:.2f}" for name, metric in part.metrics.items())
        log.info("score_system: %s, %s sentences: %s", test_set, f"{part.sentences:,}", found)
    file = ScoreFile(
        format=2, dataset=settings.dataset, system=settings.system, seed=settings.seed, test_sets=test_sets
    )
    write_text(scores, file.model_dump_json() + "\n")


def _scores(settings: ScoreSystem, tokens: Path, text: Path, reference_tokens: Path, reference: Path) -> Scores:
    """The scores of one test set."""
    lines = list(read_parallel(tokens, text, reference_tokens, reference))
    if not lines:
        raise DataError("the test set is empty", where=tokens, next_step="give a test set with at least one sentence")
    token_lines, text_lines, reference_token_lines, reference_lines = (list(side) for side in zip(*lines, strict=True))
    for path, hypotheses in ((tokens, token_lines), (text, text_lines)):
        _refuse_subwords(path, hypotheses)
    _refuse_tokenised(text, text_lines)
    _warn_of_leftovers(text, text_lines)

    target = settings.target_tokenizer
    tokenizer = _signature_of_tokens(target, reference_tokens)
    metrics: dict[str, BleuScore | MetricScore] = {}
    statistics: dict[str, list[list[int]]] = {}
    metrics[TOKENISED], statistics[TOKENISED] = _bleu(
        multi_bleu(), token_lines, reference_token_lines, signature=tokenizer
    )
    # Moses' option -a has already split at hyphens. Nobody uses the combination of both splits.
    if target.language == "de" and target.unit == "moses" and not target.aggressive_dash:
        metrics[COMPOUND_SPLIT], statistics[COMPOUND_SPLIT] = _bleu(
            multi_bleu(),
            [split_compounds(line) for line in token_lines],
            [split_compounds(line) for line in reference_token_lines],
            signature=f"{tokenizer}|compounds:t2t",
        )
    text_signature = ""
    if target.normalize_punctuation:
        normalize = punctuation_normalizer(target.language)
        text_lines, reference_lines = ([normalize(line) for line in side] for side in (text_lines, reference_lines))
        text_signature = "punctuation:moses"
    # 13a takes a Chinese sentence for one word, so the tokeniser depends on the language.
    metrics[DETOKENISED], statistics[DETOKENISED] = _bleu(
        BLEU(tokenize=target.bleu), text_lines, reference_lines, signature=text_signature
    )
    chrf = CHRF()
    chrf_score = chrf.corpus_score(text_lines, [reference_lines]).score
    metrics[CHRF2] = MetricScore(score=chrf_score, signature=_joined(str(chrf.get_signature()), text_signature))

    return Scores(
        sentences=len(lines),
        references={"tokens": digest_file(reference_tokens), "text": digest_file(reference)},
        metrics=metrics,
        statistics=statistics,
    )


def split_compounds(line: str) -> str:
    """Tensor2Tensor's `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g` (get_ende_bleu.sh).

    Works on bytes, like Perl in that script. A match takes one byte on each side of the hyphen. Of two hyphens around
    one ASCII letter only the first is therefore split; around "é", which has two bytes, both are split.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode()).decode()


def _bleu(
    metric: BLEU, hypotheses: Sequence[str], references: Sequence[str], *, signature: str = ""
) -> tuple[BleuScore, list[list[int]]]:
    """The score with its extended signature, and the statistics of each sentence (columns as in `scores`)."""
    # sacreBLEU's paired tests call the same functions. The statistics serve the score and the bootstrap.
    rows = metric._extract_corpus_statistics(hypotheses, [references])
    score = metric._aggregate_and_compute(rows)
    bleu = BleuScore(
        score=score.score,
        signature=_joined(str(metric.get_signature()), signature),
        counts=score.counts,
        totals=score.totals,
        precisions=score.precisions,
        brevity_penalty=score.bp,
        sys_len=score.sys_len,
        ref_len=score.ref_len,
    )
    return bleu, [[*counts, sys_len, ref_len] for sys_len, ref_len, *counts in rows]


def _joined(*signatures: str) -> str:
    return "|".join(filter(None, signatures))


def _signature_of_tokens(tokenizer: Tokenizer, reference_tokens: Path) -> str:
    """What the tokens of `bleu_tok` are. The versions are those that tokenised the reference, from its sidecar."""
    if tokenizer.unit == "character":
        return "tokens:characters"
    has_sidecar = sidecar_path(reference_tokens).exists()
    versions = read_sidecar(reference_tokens)["versions"] if has_sidecar else {}
    if tokenizer.unit == "jieba":
        return f"tokens:jieba-{versions.get('jieba', 'unrecorded')}"
    moses = f"sacremoses-{versions.get('sacremoses', 'unrecorded')}" if has_sidecar else "unrecorded"
    dash = "yes" if tokenizer.aggressive_dash else "no"
    punctuation = "punctuation:moses" if tokenizer.normalize_punctuation else ""
    return _joined(f"moses:{moses}|aggressive_dash:{dash}", punctuation)


def _refuse_subwords(path: Path, hypotheses: Sequence[str]) -> None:
    for number, line in enumerate(hypotheses, start=1):
        if mark := _SUBWORD_MARK.search(line):
            raise DataError(
                "the translations contain subwords, which would inflate BLEU",
                where=f"{path}, line {number}",
                expected="whole words",
                found=repr(line[max(0, mark.start() - 20) : mark.end() + 20]),
                next_step="join the subwords (remove '@@ ') before scoring",
            )


def _refuse_tokenised(path: Path, hypotheses: Sequence[str]) -> None:
    if (count := sum(line.endswith(" .") for line in hypotheses)) >= _TOKENISED_LINES:
        raise DataError(
            "the text for detokenised BLEU is still tokenised",
            where=path,
            expected=f"fewer than {_TOKENISED_LINES} lines that end in ' .'",
            found=count,
            next_step="detokenise the translations",
        )


def _warn_of_leftovers(path: Path, hypotheses: Sequence[str]) -> None:
    if escaped := sum(bool(_MOSES_ESCAPE.search(line)) for line in hypotheses):
        log.warning("score_system: %s: %d lines contain Moses escapes such as &apos;, which lower BLEU", path, escaped)
    if unknown := sum("<unk>" in line for line in hypotheses):
        log.warning(
            "score_system: %s: %d lines contain <unk>, which sacreBLEU splits into several words", path, unknown
        )
