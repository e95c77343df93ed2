"""Witnesses: multi-bleu.perl restated from its definition, hand-worked cases, Perl itself for the compound split."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from phrasemt.artefacts.scores import MetricScore, Scores, SystemScores
from phrasemt.artefacts.sidecar import Sidecar, sidecar_path
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.scoring.bleu import score_system, split_compounds
from phrasemt.scoring.multi_bleu import multi_bleu as multi_bleu_of_sacrebleu
from phrasemt.scoring.multi_bleu import tokenised_bleu
from phrasemt.scoring.scores import check_comparable, corpus_bleu, corpus_scores
from phrasemt.stages.scoring import ScoreSystem
from phrasemt.study.tokenization import Tokenizer

words = st.lists(st.sampled_from(["die", "der", "Katze", "Hund", "sieht", ".", ","]), max_size=12).map(" ".join)


def multi_bleu(hypotheses: list[str], *references: list[str], lowercase: bool = False) -> float:
    """BLEU as multi-bleu.perl defines it: clipped counts over the corpus, no smoothing, brevity penalty.

    An n-gram counts as often as in the reference that has it most often. The length of the references is that of the
    reference closest to the hypothesis, the shorter one of two equally close ones.
    """
    correct, total = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, *of_sentence in zip(hypotheses, *references, strict=True):
        words, *references_words = (
            (re.sub("[A-Z]", lambda letter: letter[0].lower(), line) if lowercase else line).split()
            for line in (hypothesis, *of_sentence)
        )
        lengths = sorted(map(len, references_words))
        hypothesis_length += len(words)
        reference_length += min(lengths, key=lambda n: abs(n - len(words)))
        for order in range(1, 5):
            grams, *references_grams = (
                Counter(tuple(line[start : start + order]) for start in range(len(line) - order + 1))
                for line in (words, *references_words)
            )
            total[order - 1] += sum(grams.values())
            for gram, count in grams.items():
                correct[order - 1] += min(count, max(of_reference[gram] for of_reference in references_grams))
    if not all(correct):
        return 0.0
    brevity = min(1.0, math.exp(1 - reference_length / hypothesis_length))
    return 100 * brevity * math.prod(c / t for c, t in zip(correct, total, strict=True)) ** 0.25


@given(st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_tokenised_bleu_is_that_of_multi_bleu(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = (list(side) for side in zip(*pairs, strict=True))
    assert tokenised_bleu(hypotheses, references) == pytest.approx(multi_bleu(hypotheses, references), abs=1e-9)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c d e f", "a b c d e g", 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25),  # 1/3 under the root
        ("a b c d e", "a b c d e f", 100 * math.exp(1 - 6 / 5)),  # all n-grams right, one word short
        ("a b c d e f", "a b c d e", 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25),  # no penalty for length
        ("the the the the", "the cat the cat", 0.0),  # clipped unigrams, no bigram: no smoothing
        ("a b c", "a b c", 0.0),  # too short for a 4-gram
        ("", "a b c d", 0.0),
        ("A b c d", "a b c d", 0.0),  # cased: no common 4-gram
    ],
)
def test_hand_worked(hypothesis: str, reference: str, expected: float) -> None:
    assert tokenised_bleu([hypothesis], [reference]) == pytest.approx(expected, abs=1e-9)
    assert multi_bleu([hypothesis], [reference]) == pytest.approx(expected, abs=1e-9)


COMPOUNDS = ["E-Mail", "a-b-c", "a-é-c", "x - y", "-a", "a @-@ b", "--", "1-2-3-4", "é-é", "", "中-文"]


def test_compound_split_by_hand() -> None:
    assert split_compounds("eine E-Mail an a-b-c") == "eine E ##AT##-##AT## Mail an a ##AT##-##AT## b-c"


@pytest.mark.skipif(shutil.which("perl") is None, reason="the witness is Perl")
def test_compound_split_is_that_of_perl() -> None:
    """The command is the one of tensor2tensor/utils/get_ende_bleu.sh."""
    found = subprocess.run(
        ["perl", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"],
        input="\n".join(COMPOUNDS).encode() + b"\n",
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert [split_compounds(line) for line in COMPOUNDS] == found.removesuffix("\n").split("\n")


def settings(**changes: object) -> ScoreSystem:
    given = {
        "dataset": "toy",
        "system": "base",
        "seed": 1,
        "test_sets": ["test"],
        "references": [1],
        "target_tokenizer": Tokenizer.for_language("de"),
    }
    return ScoreSystem.model_validate({**given, **changes})


TOKENS = ["Der Hund sieht die Katze an .", "Sie schreibt eine E-Mail an &apos; uns &apos; .", "Ja , gern ."]
TEXT = ["Der Hund sieht die Katze an.", "Sie schreibt eine E-Mail an 'uns'.", "Ja, gern."]
REFERENCE_TOKENS = ["Der Hund sieht eine Katze an .", "Sie schreibt eine E-Mail an &apos; uns &apos; .", "Ja , gerne ."]
REFERENCE = ["Der Hund sieht eine Katze an.", "Sie schreibt eine E-Mail an 'uns'.", "Ja, gerne."]


def score(
    folder: Path,
    *,
    tokens: list[str] = TOKENS,
    text: list[str] = TEXT,
    reference_tokens: list[str] = REFERENCE_TOKENS,
    reference: list[str] = REFERENCE,
    further: list[list[str]] | None = None,
    **changes: object,
) -> Scores:
    """Score one test set. further: further references, whose tokens are those of their text."""
    more = further or []
    paths: dict[str, list[Path]] = {}
    for name, texts in {
        "tokens": [tokens],
        "text": [text],
        "reference_tokens": [reference_tokens, *more],
        "reference": [reference, *more],
    }.items():
        paths[name] = [folder / f"{name}.{number}" if number else folder / name for number in range(len(texts))]
        for path, lines in zip(paths[name], texts, strict=True):
            write_lines(path, lines)
    chosen = settings(references=[1 + len(more)], **changes)
    score_system(settings=chosen, cores=1, scores=folder / "scores.json", **paths)
    return SystemScores.read(folder / "scores.json").test_sets["test"]


def test_each_test_set_is_scored_by_itself(tmp_path: Path) -> None:
    test_sets = {"one": score(tmp_path / "one"), "two": score(tmp_path / "two", tokens=REFERENCE_TOKENS)}
    paths = {
        name: [tmp_path / test_set / name for test_set in test_sets]
        for name in ("tokens", "text", "reference_tokens", "reference")
    }
    both = settings(test_sets=list(test_sets), references=[1, 1])
    score_system(settings=both, cores=1, scores=tmp_path / "scores.json", **paths)
    assert SystemScores.read(tmp_path / "scores.json").test_sets == test_sets
    assert test_sets["two"].metrics["bleu_tok"].score == pytest.approx(100)
    paths["text"].pop()
    with pytest.raises(MismatchError, match=r"each test set needs one file \(one, two\) \(expected 2, found 1\)"):
        score_system(settings=both, cores=1, scores=tmp_path / "scores.json", **paths)


def test_each_convention_beside_its_own_program(tmp_path: Path) -> None:
    scores = score(tmp_path)
    columns = "bleu_tok bleu_tok_uncased bleu_tok_compound_split bleu_detok chrf2 chrf2pp ter"
    assert list(scores.metrics) == columns.split()
    assert scores.metrics["bleu_tok"].score == pytest.approx(multi_bleu(TOKENS, REFERENCE_TOKENS))
    split = [[split_compounds(line) for line in side] for side in (TOKENS, REFERENCE_TOKENS)]
    assert scores.metrics["bleu_tok_compound_split"].score == pytest.approx(multi_bleu(*split))
    assert scores.metrics["bleu_tok_compound_split"].score > scores.metrics["bleu_tok"].score
    # sacreBLEU's functions for users, which take their own defaults (13a, exp, cased; chrF2)
    assert scores.metrics["bleu_detok"].score == sacrebleu.corpus_bleu(TEXT, [REFERENCE]).score
    assert scores.metrics["chrf2"].score == sacrebleu.corpus_chrf(TEXT, [REFERENCE]).score
    assert scores.metrics["chrf2pp"].score == sacrebleu.corpus_chrf(TEXT, [REFERENCE], word_order=2).score
    assert scores.metrics["ter"].score == sacrebleu.corpus_ter(TEXT, [REFERENCE]).score


def test_lower_case_is_that_of_multi_bleu(tmp_path: Path) -> None:
    tokens = [line.upper() for line in TOKENS]
    metrics = score(tmp_path, tokens=tokens).metrics
    assert metrics["bleu_tok_uncased"].score == pytest.approx(multi_bleu(tokens, REFERENCE_TOKENS, lowercase=True))
    assert metrics["bleu_tok_uncased"].score > 50 > metrics["bleu_tok"].score
    assert metrics["bleu_tok_uncased"].signature.count("|lower:a-z|") == 1


def test_lower_case_is_that_of_the_perl_original(shared_data: Path, tmp_path: Path) -> None:
    if shutil.which("perl") is None:
        pytest.skip("needs perl")
    with tarfile.open(shared_data / "moses/moses-src.tar.xz") as archive:
        script = archive.extractfile("moses-src/scripts/generic/multi-bleu.perl")
        assert script is not None
        (tmp_path / "multi-bleu.perl").write_bytes(script.read())
    reference = ["Über den Ärger in Österreich sprach niemand .", "ДА , МЫ ЗНАЕМ ЭТО .", "ÉTÉ À Paris , dit Élodie ."]
    tokens = [line.swapcase() for line in reference]
    write_lines(tmp_path / "reference", reference)
    command = ["perl", tmp_path / "multi-bleu.perl", "-lc", tmp_path / "reference"]
    done = subprocess.run(command, input="\n".join(tokens) + "\n", capture_output=True, text=True, check=True)
    expected = float(done.stdout.removeprefix("BLEU = ").split(",")[0])
    metrics = score(tmp_path, tokens=tokens, reference_tokens=reference, text=tokens, reference=reference).metrics
    assert metrics["bleu_tok_uncased"].score == pytest.approx(expected, abs=0.005)


FURTHER = [
    ["Der Hund sieht die Katze an .", "Eine E-Mail schreibt sie uns .", "Gern ."],
    ["Der alte Hund schaut die Katze lange an .", "Sie schickt uns eine E-Mail .", "Ja ."],
    ["Ein Hund sieht die Katze .", "Uns schreibt sie .", "Ja , sehr gern ."],
]


@given(st.lists(st.tuples(words, words, words, words, words), min_size=1, max_size=6))
def test_four_references_are_those_of_multi_bleu(rows: list[tuple[str, ...]]) -> None:
    hypotheses, *references = (list(side) for side in zip(*rows, strict=True))
    found = multi_bleu_of_sacrebleu().corpus_score(hypotheses, references).score
    assert found == pytest.approx(multi_bleu(hypotheses, *references), abs=1e-9)


def test_columns_with_four_references(tmp_path: Path) -> None:
    scores = score(tmp_path, further=FURTHER)
    references = [REFERENCE_TOKENS, *FURTHER]
    for name, lowercase in (("bleu_tok", False), ("bleu_tok_uncased", True)):
        expected = multi_bleu(TOKENS, *references, lowercase=lowercase)
        assert scores.metrics[name].score == pytest.approx(expected)
        assert scores.metrics[name].signature.startswith("nrefs:4|")
    assert scores.metrics["bleu_detok"].score == sacrebleu.corpus_bleu(TEXT, [REFERENCE, *FURTHER]).score
    assert scores.metrics["chrf2"].score == sacrebleu.corpus_chrf(TEXT, [REFERENCE, *FURTHER]).score
    assert scores.metrics["ter"].score == sacrebleu.corpus_ter(TEXT, [REFERENCE, *FURTHER]).score


def test_lengths_of_references_by_hand(tmp_path: Path) -> None:
    """A hypothesis of 6 words is as close to 5 as to 7 words, and the shorter one counts; 7 is closest to one of 8."""
    hypothesis = "a b c d e f"
    tokens = {"tokens": [hypothesis, f"{hypothesis} g h"], "text": [hypothesis] * 2}
    seven, nine, five = "a b c d e f g", "a b c d e f g h i", "a b c d e"
    lines = {"reference_tokens": [seven, seven], "reference": [seven, seven]}
    rows = score(tmp_path, **tokens, **lines, further=[[nine, nine], [five, five]]).statistics["bleu_tok"]
    assert [row[-1] for row in rows] == [5, 7]


def test_empty_hypotheses_and_no_matches_score_0(tmp_path: Path) -> None:
    for number, line in enumerate(("", "x y z")):
        sides = {"tokens": [line] * 3, "text": [line] * 3}
        metrics = score(tmp_path / str(number), **sides).metrics
        assert {name: metric.score for name, metric in metrics.items() if name.startswith("bleu_tok")} == dict.fromkeys(
            ("bleu_tok", "bleu_tok_uncased", "bleu_tok_compound_split"), 0
        )
    assert metrics["ter"].score == sacrebleu.corpus_ter(["x y z"] * 3, [REFERENCE]).score


def test_signatures_say_what_was_measured(tmp_path: Path) -> None:
    version = sacrebleu.__version__
    signatures = {name: metric.signature for name, metric in score(tmp_path).metrics.items()}
    tokenised = f"nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:{version}"
    assert signatures == {
        "bleu_tok": f"{tokenised}|moses:unrecorded|aggressive_dash:no",
        "bleu_tok_uncased": f"{tokenised}|lower:a-z|moses:unrecorded|aggressive_dash:no",
        "bleu_tok_compound_split": f"{tokenised}|moses:unrecorded|aggressive_dash:no|compounds:t2t",
        "bleu_detok": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrf2": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
        "chrf2pp": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}",
        "ter": f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version}",
    }


def test_tokeniser_version_is_that_of_the_tokens(tmp_path: Path) -> None:
    """Not that of the installed library, which may be newer than the tokens."""
    versions = {"sacremoses": "0.0.7"}
    sidecar = Sidecar(stage="tokenize_text", settings={}, code="", versions=versions, inputs={}, outputs={})
    sidecar.write(sidecar_path(tmp_path / "reference_tokens"))
    assert "|moses:sacremoses-0.0.7|" in score(tmp_path).metrics["bleu_tok"].signature


def test_compounds_are_split_in_german_only(tmp_path: Path) -> None:
    assert "bleu_tok_compound_split" not in score(tmp_path, target_tokenizer=Tokenizer.for_language("en")).metrics


@pytest.mark.parametrize(
    ("chosen", "bleu", "signature"),
    [
        (Tokenizer.for_language("zh"), "zh", "|tokens:jieba-unrecorded"),
        (Tokenizer.for_language("zh", "character"), "zh", "|tokens:characters"),
        (Tokenizer.for_language("ja"), "ja-mecab", "|tokens:characters"),
        (Tokenizer.for_language("th", "character"), "char", "|tokens:characters"),
    ],
)
def test_a_text_without_spaces_is_scored_by_sacrebleu_for_its_language(
    tmp_path: Path, chosen: Tokenizer, bleu: str, signature: str
) -> None:
    text, reference = ["私は毎日日本語を勉強しています。"], ["私は毎日中国語を勉強しています。"]
    lines = {"tokens": [" ".join(text[0])], "reference_tokens": [" ".join(reference[0])]}
    metrics = score(tmp_path, **lines, text=text, reference=reference, target_tokenizer=chosen).metrics
    assert metrics["bleu_detok"].score == sacrebleu.corpus_bleu(text, [reference], tokenize=bleu).score
    assert f"|tok:{bleu}" in metrics["bleu_detok"].signature
    assert metrics["bleu_tok"].signature.endswith(signature)
    assert "bleu_tok_compound_split" not in metrics


@pytest.mark.parametrize(
    ("language", "text", "reference", "words"),
    [
        ("zh", "我喜欢红色的汽车。", "我喜欢蓝色的汽车。", 9),
        ("yue", "佢哋今日唔喺度。", "佢哋尋日唔喺度。", 8),
        ("ja", "東京は大都市です。", "京都は大都市です。", 8),  # tercom takes kana together
        ("th", "ฉันกินข้าว", "ฉันกินข้าว", 10),
        ("km", "ខ្ញុំស្រលាញ់", "ខ្ញុំស្រឡាញ់", 12),
        ("lo", "ຂ້ອຍກິນ ເຂົ້າ", "ຂ້ອຍກິນເຂົ້າ", 12),
        ("my", "ကျွန်တော်", "ကျွန်တော့", 9),
        ("bo", "བོད་ཡིག", "བོད་སྐད", 7),
    ],
)
def test_ter_of_languages_without_spaces_counts_characters(
    tmp_path: Path, language: str, text: str, reference: str, words: int
) -> None:
    """By words, TER would be 0 or 100. Every difference here is one edit, or a block of them of known length."""
    chosen = Tokenizer.for_language(language, "character")
    lines = {"tokens": [" ".join(text)], "reference_tokens": [" ".join(reference)]}
    scores = score(tmp_path, **lines, text=[text], reference=[reference], target_tokenizer=chosen)
    edits, length = scores.statistics["ter"][0]
    assert length == words
    different = sum(one != other for one, other in zip(text.replace(" ", ""), reference, strict=True))
    assert edits <= different
    assert (edits == 0) == (different == 0)
    assert ("|asian:yes" in scores.metrics["ter"].signature) == (language in ("zh", "yue", "ja"))
    assert scores.metrics["ter"].signature.endswith("|tokens:characters") == (
        language in ("th", "lo", "km", "my", "bo")
    )


def test_ter_of_long_lines_is_announced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = " ".join(map(str, range(400)))
    for line, announced in ((long, True), ("Ja .", False)):
        caplog.clear()
        score(tmp_path, tokens=[line] * 3, text=[line] * 3, reference_tokens=[line] * 3, reference=[line] * 3)
        assert ("TER needs up to 1 minutes" in caplog.text) == announced


def test_statistics_add_up_to_the_score(tmp_path: Path) -> None:
    scores = score(tmp_path)
    for name, rows in scores.statistics.items():
        metric = scores.metrics[name]
        sums = [sum(column) for column in zip(*rows, strict=True)]
        assert float(corpus_scores(metric, np.array(sums, dtype=float))) == pytest.approx(metric.score)
    assert scores.statistics["bleu_tok"][2] == [3, 1, 0, 0, 4, 3, 2, 1, 4, 4]  # "Ja , gern ." by hand
    assert scores.sentences == 3


@pytest.mark.parametrize("side", ["tokens", "text", "reference_tokens", "reference"])
def test_refuses_unequal_line_counts(tmp_path: Path, side: str) -> None:
    full = {"tokens": TOKENS, "text": TEXT, "reference_tokens": REFERENCE_TOKENS, "reference": REFERENCE}
    with pytest.raises(DataError, match="unequal numbers of lines"):
        score(tmp_path, **{side: full[side][:-1]})
    assert not (tmp_path / "scores.json").exists()


def test_refuses_no_sentences(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the test set is empty"):
        score(tmp_path, tokens=[], text=[], reference_tokens=[], reference=[])


def test_at_sign_words_are_not_subword_marks(tmp_path: Path) -> None:
    assert score(tmp_path, tokens=[*TOKENS[:2], "Ja @-@ a@@b @@c ."]).sentences == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": ["Ganz", "etwas", "anderes"]}, "the reference differs"),
        ({"target_tokenizer": Tokenizer.for_language("zh")}, "the set of metrics differs"),
        ({"target_tokenizer": Tokenizer.for_language("en")}, "the set of metrics differs"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    first, second = score(tmp_path / "a"), score(tmp_path / "b", **changes)
    check_comparable("test", {"a": first, "b": first})
    with pytest.raises(MismatchError) as error:
        check_comparable("test", {"a": first, "b": second})
    assert str(error.value).startswith("b: test cannot be compared with a: ")
    assert message in str(error.value)


@pytest.mark.parametrize("metric", [CHRF(), CHRF(word_order=2), TER(), BLEU()])
def test_scores_of_summed_statistics_are_those_of_sacrebleu(metric: BLEU | CHRF | TER) -> None:
    """On whole texts, single sentences, empty hypotheses and empty references."""
    draw, words = random.Random(2), ["der", "die", "das", "Hund", "Katze", "sieht", "und", "alte", ","]
    sentences = [draw.choices(words, k=draw.randint(4, 15)) for _ in range(20)]
    worse = [[draw.choice(words) if draw.random() < 0.4 else word for word in one] for one in sentences]
    references = [*map(" ".join, sentences), "a b c d", ""]
    hypotheses = [*map(" ".join, worse), "", "a"]
    rows = metric._extract_corpus_statistics(hypotheses, [references])
    # the score files have the lengths of BLEU behind its counts
    ours = [[*row[2:], *row[:2]] if isinstance(metric, BLEU) else row for row in rows]
    formula = {CHRF: "chrF", TER: "TER", BLEU: "BLEU"}[type(metric)]
    described = MetricScore(score=0, metric=formula, better="higher", signature=str(metric.get_signature()))
    for chosen in ([*range(22)], [0], [20], [21], [20, 21], [3, 3, 21]):
        expected = metric._aggregate_and_compute([rows[row] for row in chosen]).score
        found = corpus_scores(described, np.array([ours[row] for row in chosen], dtype=float).sum(0))
        assert float(found) == pytest.approx(expected, abs=1e-9)


counts = st.integers(0, 30)


@given(st.lists(st.tuples(counts, counts), min_size=4, max_size=4), counts, st.sampled_from(["none", "exp"]))
def test_corpus_bleu_equals_sacrebleu(orders: list[tuple[int, int]], reference_length: int, smoothing: str) -> None:
    # Totals fall with the order: whoever has no bigram has no trigram.
    totals = sorted((max(pair) for pair in orders), reverse=True)
    system_length = totals[0]  # its unigrams
    correct = [min(total, min(pair)) for pair, total in zip(orders, totals, strict=True)]
    expected = BLEU.compute_bleu(
        list(correct), list(totals), system_length, reference_length, smooth_method=smoothing
    ).score
    found = corpus_bleu(np.array([*correct, *totals, system_length, reference_length], dtype=float), smoothing)
    assert float(found) == pytest.approx(expected, abs=1e-9)
