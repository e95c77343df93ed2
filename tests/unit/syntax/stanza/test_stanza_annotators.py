"""Parsing and chunking. Witnesses: Stanza's own Pipeline for the trees, all sequences of tags for the margins."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from phrasemt.artefacts.syntax import ANNOTATION_VERSION, LONGEST
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import read_lines
from phrasemt.syntax.annotations import Annotation
from phrasemt.syntax.stanza import annotators, runtime
from phrasemt.syntax.stanza.annotators import ChunkerAnnotator, ParserAnnotator, bio_tags, load_annotator, short_text
from phrasemt.syntax.stanza.runtime import GaveUpError, batches_by_length, visible_tokens
from phrasemt.syntax.trees import leaves, parse_tree, read_treebank, tree_text, words


@pytest.fixture(scope="module")
def parser(tiny_annotators: tiny.TinyAnnotators) -> ParserAnnotator:
    annotator = load_annotator(tiny_annotators.parser)
    assert isinstance(annotator, ParserAnnotator)
    return annotator


@pytest.fixture(scope="module")
def chunker(tiny_annotators: tiny.TinyAnnotators) -> ChunkerAnnotator:
    annotator = load_annotator(tiny_annotators.chunker)
    assert isinstance(annotator, ChunkerAnnotator)
    return annotator


@pytest.fixture(scope="module")
def sentences(tiny_annotators: tiny.TinyAnnotators) -> list[list[str]]:
    return [words(tree) for path in tiny_annotators.trees["test"] for tree in read_treebank(path)]


def check_tree(annotation: Annotation, tokens: Sequence[str]) -> None:
    tree = parse_tree(annotation.text)
    assert tree_text(tree) == annotation.text
    assert words(tree) == [str(number) for number in range(len(tokens))]


def test_the_trees_are_those_of_stanzas_pipeline(
    tiny_annotators: tiny.TinyAnnotators, parser: ParserAnnotator, sentences: list[list[str]], tmp_path: Path
) -> None:
    import stanza

    (tmp_path / "resources.json").write_text('{"en": {"lang_name": "English", "packages": {"default": {}}}}')
    folder = tiny_annotators.folder
    pipeline = stanza.Pipeline(
        lang="en",
        dir=str(tmp_path),
        processors="tokenize,pos,constituency",
        package=None,
        download_method=None,
        use_gpu=False,
        verbose=False,
        tokenize_pretokenized=True,
        pos_model_path=str(folder / "tagger.pt"),
        pos_pretrain_path=str(folder / "vectors.pt"),
        constituency_model_path=str(folder / "constituency.pt"),
        constituency_pretrain_path=str(folder / "vectors.pt"),
    )
    expected = []
    for sentence in pipeline(sentences).sentences:
        tree = sentence.constituency.replace_words([str(number) for number in range(len(sentence.words))])
        whole = f"{tree:O}"
        expected.append(whole.removeprefix("(ROOT ")[:-1] if whole.startswith("(ROOT (") else whole)
    # What is over a single token keeps its ROOT.
    expected = [f"(ROOT {text})" if text.count("(") == 1 else text for text in expected]
    assert [annotation.text for annotation in parser.annotate(sentences)] == expected


def test_neither_companions_nor_order_change_a_result(
    parser: ParserAnnotator, chunker: ChunkerAnnotator, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled = Random(3).sample(sentences, len(sentences))
    for annotator in (parser, chunker):
        alone = [annotator.annotate([sentence])[0] for sentence in sentences]
        for batch, close in ((50, 1e-3), (7, 1.0)):  # with 1.0 nearly all are annotated once more by themselves
            for name in ("_PARSED_TOGETHER", "_TAGGED_TOGETHER", "_CHUNKED_TOGETHER"):
                monkeypatch.setattr(annotators, name, batch)
            monkeypatch.setattr(runtime, "CLOSE", close)
            assert annotator.annotate(sentences) == alone
            found = annotator.annotate(shuffled)
            assert found == [alone[sentences.index(sentence)] for sentence in shuffled]


@pytest.mark.parametrize(
    "tokens",
    [
        ["."],
        ["The"],
        ["a b", "\u00a0", " ", "\u2028", "\x00", "\x85", "\u200b", "🙂", "\t", "\n"],
        ["(", ")", "-LRB-", "(NN", "&apos;", "_", "*T*", ""],
        ["the"] * 1000,
        ["("] * 200,
        ["and", ","] * 100,
        ["x" * 3000, "y"],
    ],
)
def test_sentences_that_are_hard_to_write_down(
    parser: ParserAnnotator, chunker: ChunkerAnnotator, tokens: list[str]
) -> None:
    (annotation,) = parser.annotate([tokens])
    check_tree(annotation, tokens)
    (annotation,) = chunker.annotate([tokens])
    assert len(annotation.text.split(" ")) == len(tokens)


def test_a_sentence_that_is_too_long_or_empty_is_a_failure(parser: ParserAnnotator, chunker: ChunkerAnnotator) -> None:
    assert parser.annotate([[]]) == [Annotation(None, "no tokens")]
    for annotator in (parser, chunker):
        long, short = annotator.annotate([["the"] * 3000, ["The", "dog", "."]])
        assert long == Annotation(None, "longer than 1000 tokens")
        assert short == annotator.annotate([["The", "dog", "."]])[0]


@pytest.mark.parametrize("which", ["parser", "chunker"])
def test_an_error_for_one_sentence_loses_only_that_one(
    which: str, sentences: list[list[str]], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotator: ParserAnnotator | ChunkerAnnotator = request.getfixturevalue(which)
    before = annotator.annotate(sentences)
    annotate = annotator._annotate

    def fail(part: list[list[str]]) -> list[str]:
        if any("BAD" in tokens for tokens in part):
            raise IndexError("list index out of range")
        return annotate(part)

    monkeypatch.setattr(annotator, "_annotate", fail)
    changed = [*sentences[:5], ["BAD", "."], *sentences[5:], ["BAD"]]
    found = annotator.annotate(changed)
    failure = Annotation(None, f"the {which} failed (IndexError)")
    assert found == [*before[:5], failure, *before[5:], failure]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    ],
)
def test_errors_of_the_machine_are_not_the_sentences(
    parser: ParserAnnotator, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    annotate = parser._annotate

    def fail(part: list[list[str]]) -> list[str]:
        if ["a"] in part:
            raise error
        return annotate(part)

    monkeypatch.setattr(parser, "_annotate", fail)
    with pytest.raises(type(error)):
        parser.annotate([["a"]])


def test_an_error_for_every_sentence_is_no_ones_failure(
    chunker: ChunkerAnnotator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: list[list[str]]) -> list[str]:
        raise AttributeError("renamed in this version")

    monkeypatch.setattr(chunker, "_annotate", fail)
    with pytest.raises(AttributeError, match="renamed"):
        chunker.annotate([["a"], ["b", "."]])


@pytest.fixture
def copied(tiny_annotators: tiny.TinyAnnotators, tmp_path: Path) -> Path:
    """A copy of the models and cards, to be spoilt."""
    folder = tmp_path / "copy"
    shutil.copytree(tiny_annotators.folder, folder)
    return folder


def test_another_version_of_stanza(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotators.importlib.metadata, "version", lambda name: "1.9.9")
    with pytest.raises(MismatchError, match=r"under another version of Stanza \(expected 1.15.0, found 1.9.9"):
        load_annotator(copied / "parser.json")


def test_other_annotations_need_another_version() -> None:
    tree = Node("TOP", Node("S", Node("NP", Node("(", "(")), Node("VP", Node(None, "x"), Node("A B", "y"))))
    outputs = (
        visible_tokens(["a", "@-@", "", "-", "&apos;", "\u00a0"]),
        bio_tags(["B-NP", "I-NP", "B-NP", "E-NP", "I-NP", "S-VP", "I-VP", "<PAD>", "-NP", "B-PP", "I-NP", "O"]),
        short_text(tree, "(xy", ("TOP",)),
        short_text(Node("TOP", Node("CD", "1")), "1", ("TOP",)),
        runtime.CLOSE,
        LONGEST,
    )
    assert outputs == (
        ["a", "-", "_", "-", "&apos;", "\u00a0"],
        ["B-NP", "I-NP", "B-NP", "I-NP", "B-NP", "B-VP", "B-VP", "O", "O", "B-PP", "B-NP", "O"],
        "(S (NP (-LRB- 0)) (VP (X 1) (A_B 2)))",
        "(ROOT (CD 0))",
        1e-3,
        1000,
    ), "raise ANNOTATION_VERSION, then change what is expected here, with the number below"
    assert ANNOTATION_VERSION == 1


def describe(folder: Path, kind: str, **files: str) -> Path:
    """The card of model files that the user gives."""
    return tiny.describe(folder / "card.json", kind, {role: folder / file for role, file in files.items()})


def test_files_of_the_user(copied: Path, parser: ParserAnnotator, sentences: list[list[str]]) -> None:
    card = describe(copied, "constituency", constituency="constituency.pt", tagger="tagger.pt", vectors="vectors.pt")
    assert load_annotator(card).annotate(sentences) == parser.annotate(sentences)
    trained = json.loads((copied / "parser.json").read_text())
    assert json.loads(card.read_text())["fingerprint"] == trained["fingerprint"]


def test_a_file_that_is_no_model(copied: Path) -> None:
    (copied / "text.pt").write_text("not a model")
    files = {"tagger": "tagger.pt", "vectors": "vectors.pt"}
    with pytest.raises(DataError, match=r"text\.pt, .*: Stanza cannot use the model files \(found UnpicklingError"):
        load_annotator(describe(copied, "constituency", constituency="text.pt", **files))
    with pytest.raises(DataError, match=r"vectors\.pt: Stanza cannot use the model files"):
        load_annotator(describe(copied, "chunks", chunker="tagger.pt", vectors="vectors.pt"))


def test_a_tagger_of_names_is_no_chunker(copied: Path, tmp_path: Path) -> None:
    import torch

    path = copied / "chunker.pt"
    content = torch.load(path, weights_only=True)
    tags = content["vocab"]["tag"]["_id2unit"][0]
    tags[:] = [tag.replace("-NP", "-PER") for tag in tags]
    content["vocab"]["tag"]["_unit2id"][0] = {tag: number for number, tag in enumerate(tags)}
    torch.save(content, path)
    with pytest.raises(MismatchError, match=r"chunker\.pt: the chunker gives tags that are no.* found PER\)"):
        load_annotator(describe(copied, "chunks", chunker="chunker.pt", vectors="vectors.pt"))


def test_a_parser_without_the_tagger_it_needs(copied: Path) -> None:
    with pytest.raises(
        MismatchError, match=r"reads parts of speech that the tagger does not give \(.* found no tagger"
    ):
        load_annotator(describe(copied, "constituency", constituency="constituency.pt", vectors="vectors.pt"))


class Node:
    """As much of a tree of Stanza as is read."""

    def __init__(self, label: str | None, *children: Node | str) -> None:
        self.label = label
        self.children = [Node(child) if isinstance(child, str) else child for child in children]

    def is_preterminal(self) -> bool:
        return len(self.children) == 1 and not self.children[0].children


@pytest.mark.parametrize(
    ("tree", "tokens", "text"),
    [
        (Node("ROOT", Node("S", Node("A", "x"), Node("B", "y"))), "xy", "(S (A 0) (B 1))"),
        (Node("ROOT", Node("A", "x")), "x", "(ROOT (A 0))"),
        (Node("ROOT", Node("A", "x"), Node("NP", Node("B", "y"))), "xy", "(ROOT (A 0) (NP (B 1)))"),
        (Node("ROOT", Node("S", Node("(", "("), Node(None, ")"))), "()", "(S (-LRB- 0) (X 1))"),
    ],
)
def test_short_text(tree: Node, tokens: str, text: str) -> None:
    assert short_text(tree, tokens, ("ROOT", "TOP")) == text
    assert tree_text(parse_tree(text)) == text


@pytest.mark.parametrize("tokens", ["x", "xyz", "yx", ""])
def test_a_tree_of_another_sentence_is_refused(tokens: str) -> None:
    with pytest.raises(GaveUpError):
        short_text(Node("ROOT", Node("S", Node("A", "x"), Node("B", "y"))), tokens, ("ROOT",))


@given(
    st.lists(st.integers(1, 30), max_size=40).map(lambda lengths: sorted(lengths, reverse=True)),
    st.integers(1, 10),
    st.integers(1, 100),
    st.booleans(),
)
def test_batches_hold_every_sentence_once(lengths: list[int], most: int, tokens: int, refilled: bool) -> None:
    sentences = [["x"] * length for length in lengths]
    batches = list(batches_by_length(sentences, most, tokens, refilled=refilled))
    assert [number for _, numbers in batches for number in numbers] == list(range(len(sentences)))
    for size, numbers in batches:
        assert 1 <= size <= most
        assert size * lengths[numbers[0]] <= max(tokens, lengths[numbers[0]])
        assert refilled or len(numbers) <= size


def test_margins_of_tag_sequences() -> None:
    import torch

    torch.manual_seed(1)
    scores, transitions, lengths = torch.randn(5, 4, 3), torch.randn(3, 3), [4, 3, 2, 1, 4]
    margins = runtime.margins(scores, transitions, torch.tensor(lengths))
    for sentence, length, margin in zip(scores, lengths, margins, strict=True):
        sums = sorted(
            sum(float(sentence[t, tag]) for t, tag in enumerate(tags))
            + sum(float(transitions[pair]) for pair in itertools.pairwise(tags))
            for tags in itertools.product(range(3), repeat=length)
        )
        assert float(margin) == pytest.approx(sums[-1] - sums[-2], abs=1e-5)


@pytest.fixture
def real(shared_data: Path, tmp_path: Path) -> Callable[..., Any]:
    folder = shared_data / "stanza-models"
    if not folder.is_dir():
        pytest.skip("no models beside the checkout")

    def load(kind: str, **files: str) -> Any:
        given = {role: folder / file for role, file in {**files, "vectors": "vectors_en_100d.pt"}.items()}
        return load_annotator(tiny.describe(tmp_path / "card.json", kind, given))

    return load


def test_real_models(real: Callable[..., Any], shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = itertools.islice(read_lines(shared_data / "multi30k" / "test_2016_flickr.en.gz"), 40)
    sentences = [[*line.removesuffix(".").split(" "), "."] for line in lines]
    parser = real("constituency", constituency="constituency_en_wsj-sample.pt", tagger="pos_en_wsj-sample.pt")
    chunker = real("chunks", chunker="chunker_en_conll2000.pt")
    for annotator in (parser, chunker):
        found = annotator.annotate(sentences)
        assert all(annotation.failure is None for annotation in found)
        for name in ("_TAGGED_TOGETHER", "_PARSED_TOGETHER", "_CHUNKED_TOGETHER"):
            monkeypatch.setattr(annotators, name, 9)
        assert annotator.annotate(sentences[::-1])[::-1] == found
        assert [annotator.annotate([sentence])[0] for sentence in sentences[:10]] == found[:10]
    tree = parse_tree(parser.annotate([["A", "man", "sits", "on", "the", "bench", "."]])[0].text or "")
    assert tree_text(tree) == "(S (NP (DT 0) (NN 1)) (VP (VBZ 2) (PP (IN 3) (NP (DT 4) (NN 5)))) (. 6))"
    assert [leaf.label for leaf in leaves(tree)][:2] == ["DT", "NN"]
    (tags,) = chunker.annotate([["A", "man", "sits", "on", "the", "bench", "."]])
    assert tags.text == "B-NP I-NP B-VP B-PP B-NP I-NP O"
