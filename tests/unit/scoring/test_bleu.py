"""Witnesses: multi-bleu.perl restated from its definition, hand-worked cases, Perl itself for the compound split."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer

from phrasemt.errors import DamagedFileError, DataError, MismatchError
from phrasemt.files.lines import write_lines, write_text
from phrasemt.scoring.bleu import score_system, split_compounds
from phrasemt.scoring.multi_bleu import tokenised_bleu
from phrasemt.scoring.scores import ScoreFile, Scores, check_comparable, read_artefact
from phrasemt.stages.scoring import ScoreSystem
from phrasemt.study.tokenization import Tokenizer

words = st.lists(st.sampled_from(["die", "der", "Katze", "Hund", "sieht", ".", ","]), max_size=12).map(" ".join)


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU as multi-bleu.perl defines it: clipped counts over the corpus, no smoothing, brevity penalty."""
    correct, total = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        hypothesis_length += len(hypothesis.split())
        reference_length += len(reference.split())
        for order in range(1, 5):
            grams, reference_grams = (
                Counter(tuple(line.split()[start : start + order]) for start in range(len(line.split()) - order + 1))
                for line in (hypothesis, reference)
            )
            total[order - 1] += sum(grams.values())
            correct[order - 1] += sum(min(count, reference_grams[gram]) for gram, count in grams.items())
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


def test_refuses_unequal_sides() -> None:
    with pytest.raises(AssertionError):
        tokenised_bleu(["a", "b"], ["a"])


COMPOUNDS = [
    "E-Mail",
    "a-b-c",
    "a-é-c",
    "x - y",
    "-a",
    "Ost-West-Dialog",
    "a @-@ b",
    "--",
    "1-2-3-4",
    "é-é",
    "",
    "中-文",
]


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


# ------------------------------------------------------------------------------------------------------- score_system


def settings(**changes: object) -> ScoreSystem:
    given = {
        "dataset": "toy",
        "system": "base",
        "seed": 1,
        "test_sets": ["test"],
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
    **changes: object,
) -> Scores:
    paths = {}
    for name, lines in {
        "tokens": tokens,
        "text": text,
        "reference_tokens": reference_tokens,
        "reference": reference,
    }.items():
        paths[name] = [folder / name]
        write_lines(folder / name, lines)
    score_system(settings=settings(**changes), cores=1, scores=folder / "scores.json", **paths)
    return read_artefact(folder / "scores.json", ScoreFile).test_sets["test"]


def test_each_test_set_is_scored_by_itself(tmp_path: Path) -> None:
    test_sets = {"one": score(tmp_path / "one"), "two": score(tmp_path / "two", tokens=REFERENCE_TOKENS)}
    paths = {
        name: [tmp_path / test_set / name for test_set in test_sets]
        for name in ("tokens", "text", "reference_tokens", "reference")
    }
    both = settings(test_sets=list(test_sets))
    score_system(settings=both, cores=1, scores=tmp_path / "scores.json", **paths)
    assert read_artefact(tmp_path / "scores.json", ScoreFile).test_sets == test_sets
    assert test_sets["two"].metrics["bleu_tok"].score == pytest.approx(100)
    paths["text"].pop()
    with pytest.raises(MismatchError, match=r"each test set needs one file \(expected 2: one, two, found 1\)"):
        score_system(settings=both, cores=1, scores=tmp_path / "scores.json", **paths)


def test_each_convention_beside_its_own_program(tmp_path: Path) -> None:
    scores = score(tmp_path)
    assert list(scores.metrics) == ["bleu_tok", "bleu_tok_compound_split", "bleu_detok", "chrf2"]
    assert scores.metrics["bleu_tok"].score == pytest.approx(multi_bleu(TOKENS, REFERENCE_TOKENS))
    split = [[split_compounds(line) for line in side] for side in (TOKENS, REFERENCE_TOKENS)]
    assert scores.metrics["bleu_tok_compound_split"].score == pytest.approx(multi_bleu(*split))
    assert scores.metrics["bleu_tok_compound_split"].score > scores.metrics["bleu_tok"].score
    # sacreBLEU's functions for users, which take their own defaults (13a, exp, cased; chrF2)
    assert scores.metrics["bleu_detok"].score == sacrebleu.corpus_bleu(TEXT, [REFERENCE]).score
    assert scores.metrics["chrf2"].score == sacrebleu.corpus_chrf(TEXT, [REFERENCE]).score


def test_signatures_say_what_was_measured(tmp_path: Path) -> None:
    version = sacrebleu.__version__
    signatures = {name: metric.signature for name, metric in score(tmp_path).metrics.items()}
    tokenised = f"nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:{version}"
    assert signatures == {
        "bleu_tok": f"{tokenised}|moses:unrecorded|aggressive_dash:no",
        "bleu_tok_compound_split": f"{tokenised}|moses:unrecorded|aggressive_dash:no|compounds:t2t",
        "bleu_detok": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrf2": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }


def test_tokeniser_version_is_that_of_the_tokens(tmp_path: Path) -> None:
    """Not that of the installed library, which may be newer than the tokens."""
    sidecar: dict[str, object] = {key: {} for key in ("stage", "settings", "code", "inputs", "outputs")}
    sidecar["versions"] = {"sacremoses": "0.0.7"}
    write_text(tmp_path / "reference_tokens.meta.json", json.dumps(sidecar))
    assert "|moses:sacremoses-0.0.7|" in score(tmp_path).metrics["bleu_tok"].signature


def test_compounds_are_split_once_and_in_german_only(tmp_path: Path) -> None:
    aggressive = score(tmp_path, target_tokenizer=Tokenizer.for_language("de", aggressive_dash=True))
    assert "bleu_tok_compound_split" not in aggressive.metrics
    assert aggressive.metrics["bleu_tok"].signature.endswith("|aggressive_dash:yes")
    assert "bleu_tok_compound_split" not in score(tmp_path, target_tokenizer=Tokenizer.for_language("en")).metrics


def test_chinese_is_scored_by_characters(tmp_path: Path) -> None:
    lines = {
        "tokens": ["我 喜欢 猫"],
        "text": ["我喜欢小猫。"],
        "reference_tokens": ["我 喜欢 狗"],
        "reference": ["我喜欢小狗。"],
    }
    metric = score(tmp_path, **lines, target_tokenizer=Tokenizer.for_language("zh")).metrics["bleu_detok"]
    assert "|tok:zh|" in metric.signature
    assert metric.score > 0


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


def test_normalised_punctuation_is_scored_against_a_normalised_reference_and_says_so(tmp_path: Path) -> None:
    normalize = MosesPunctNormalizer("fr").normalize
    reference = ["C’est l’été – « enfin » !", "Il dit qu’il n’a rien vu…"]
    text = [normalize(line) for line in reference]
    lines = {"tokens": text, "text": text, "reference_tokens": text, "reference": reference}
    for normalised in (False, True):
        chosen = Tokenizer.for_language("fr", normalize_punctuation=normalised)
        metrics = score(tmp_path, **lines, target_tokenizer=chosen).metrics
        assert (metrics["bleu_detok"].score == pytest.approx(100)) == normalised
        for metric in metrics.values():
            assert metric.signature.endswith("|punctuation:moses") == normalised


def test_statistics_add_up_to_the_score(tmp_path: Path) -> None:
    scores = score(tmp_path)
    for name, rows in scores.statistics.items():
        metric = scores.metrics[name]
        sums = [sum(column) for column in zip(*rows, strict=True)]
        assert sums == [*metric.counts, *metric.totals, metric.sys_len, metric.ref_len]
    assert scores.statistics["bleu_tok"][2] == [3, 1, 0, 0, 4, 3, 2, 1, 4, 4]  # "Ja , gern ." by hand
    assert scores.sentences == 3


def test_order_of_sentences_does_not_matter(tmp_path: Path) -> None:
    order = random.Random(3).sample(range(3), 3)
    sides = {"tokens": TOKENS, "text": TEXT, "reference_tokens": REFERENCE_TOKENS, "reference": REFERENCE}
    shuffled = score(tmp_path, **{name: [side[i] for i in order] for name, side in sides.items()})
    for name, metric in score(tmp_path).metrics.items():
        assert shuffled.metrics[name].score == pytest.approx(metric.score, rel=1e-12)


@pytest.mark.parametrize("side", ["tokens", "text", "reference_tokens", "reference"])
@pytest.mark.parametrize("change", [-1, 1])
def test_refuses_unequal_line_counts(tmp_path: Path, side: str, change: int) -> None:
    full = {"tokens": TOKENS, "text": TEXT, "reference_tokens": REFERENCE_TOKENS, "reference": REFERENCE}
    with pytest.raises(DataError, match="unequal numbers of lines") as error:
        score(tmp_path, **{side: full[side][:-1] if change < 0 else [*full[side], ""]})
    assert str(3 + change) in str(error.value.found)
    assert not (tmp_path / "scores.json").exists()


def test_refuses_no_sentences(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the test set is empty"):
        score(tmp_path, tokens=[], text=[], reference_tokens=[], reference=[])


@pytest.mark.parametrize("broken", ["Kat@@ ze .", "Kat@@"])
@pytest.mark.parametrize("side", ["tokens", "text"])
def test_refuses_unjoined_subwords(tmp_path: Path, side: str, broken: str) -> None:
    lines = {"tokens": list(TOKENS), "text": list(TEXT)}
    lines[side][1] = f"die {broken}"
    with pytest.raises(DataError) as error:
        score(tmp_path, **lines)
    assert str(error.value) == (
        f"{tmp_path / side}, line 2: the translations contain subwords, which would inflate BLEU "
        f"(expected whole words, found {f'die {broken}'!r}). Next: join the subwords (remove '@@ ') before scoring"
    )


def test_at_sign_words_are_not_subword_marks(tmp_path: Path) -> None:
    assert score(tmp_path, tokens=[*TOKENS[:2], "Ja @-@ a@@b @@c ."]).sentences == 3


@pytest.mark.parametrize(("lines", "refused"), [(99, False), (100, True)])
def test_refuses_tokenised_text_for_the_detokenised_column(tmp_path: Path, lines: int, refused: bool) -> None:
    text = [TOKENS[0]] * lines
    sides = {"tokens": text, "text": text, "reference_tokens": text, "reference": text}
    if not refused:
        assert score(tmp_path, **sides).sentences == lines
        return
    with pytest.raises(DataError, match=r"still tokenised \(expected fewer than 100 .*, found 100\)"):
        score(tmp_path, **sides)


# --------------------------------------------------------------------------------------------------------- score files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": None}, "seed: Input should be a valid integer"),
        ({"format": 1}, "format: Input should be 2"),
        ({"sentences": 4}, "statistics.bleu_tok is not a table of 4 rows of 10 numbers"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
    ],
)
def test_damaged_score_files_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    score(tmp_path)
    path = tmp_path / "scores.json"
    content = json.loads(path.read_text())
    (content["test_sets"]["test"] if "sentences" in change else content).update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedFileError) as error:
        read_artefact(path, ScoreFile)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize(("metric", "field"), [("bleu_tok", "ref_len"), ("chrf2", "signature")])
def test_a_missing_field_is_named(tmp_path: Path, metric: str, field: str) -> None:
    score(tmp_path)
    path = tmp_path / "scores.json"
    content = json.loads(path.read_text())
    del content["test_sets"]["test"]["metrics"][metric][field]
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match=rf"metrics\.{metric}\.\w+\.{field}: Field required"):
        read_artefact(path, ScoreFile)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": ["Ganz", "etwas", "anderes"]}, "the reference differs"),
        ({"target_tokenizer": Tokenizer.for_language("de", aggressive_dash=True)}, "the set of metrics differs"),
        ({"target_tokenizer": Tokenizer.for_language("zh")}, "the set of metrics differs"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    first, second = score(tmp_path / "a"), score(tmp_path / "b", **changes)
    check_comparable("test", {"a": first, "b": first})
    with pytest.raises(MismatchError) as error:
        check_comparable("test", {"a": first, "b": second})
    assert str(error.value).startswith("b: test cannot be compared with a: ")
    assert message in str(error.value)


def test_scores_of_two_conventions_are_refused(tmp_path: Path) -> None:
    first = score(tmp_path, target_tokenizer=Tokenizer.for_language("en"))
    second = score(tmp_path, target_tokenizer=Tokenizer.for_language("en", aggressive_dash=True))
    with pytest.raises(MismatchError, match=r"the convention of bleu_tok differs .*dash:no, found .*dash:yes"):
        check_comparable("test", {"a": first, "b": second})
