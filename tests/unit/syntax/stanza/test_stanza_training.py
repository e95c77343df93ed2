"""Training of taggers, parsers and chunkers, on a few trees for a few steps. How well they learn is for the demo."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tiny import chunker, no_vectors, parser, tagger

from democorpus.pairs import conll, demo_pairs
from phrasemt.artefacts.syntax import TaggerScores
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.system import work_folder
from phrasemt.stages.syntax import TrainVectors
from phrasemt.syntax.stanza.runtime import save_model
from phrasemt.syntax.stanza.training import train_and_dev, train_vectors, whole_models
from phrasemt.syntax.trees import read_treebank, tree_text, words

RARE = "(FRAG (ADVP (RB so)) (XQ (XX .)))"  # a label, a tag and words that no training tree has
ROOT_OF_TWO = "(VROOT (S (NP (NN dog)) (VP (VBZ runs))) (. .))"  # Stanza's parsers make no such trees


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return no_vectors(tmp_path_factory.mktemp("vectors"))


@pytest.fixture
def trees(tmp_path: Path) -> dict[str, list[Path]]:
    """Twenty trees to learn from, in two files, and some to be judged by."""
    drawn = [pair.tree for pair in demo_pairs(split="train", pairs=28, seed=2)]
    files = {
        "train": ["\n".join([*drawn[:12], "(. .)", ROOT_OF_TWO]), "\n".join(drawn[12:20])],
        "dev": ["\n".join([*drawn[20:24], RARE, ROOT_OF_TWO])],
        "test": ["\n".join([*drawn[24:], RARE, "( (CD 1) )"])],
    }
    paths = {}
    for name, texts in files.items():
        paths[name] = [tmp_path / f"{name}{number}.trees" for number in range(len(texts))]
        for path, text in zip(paths[name], texts, strict=True):
            path.write_text(text + "\n")
    return paths


@pytest.fixture
def chunks(tmp_path: Path) -> dict[str, list[Path]]:
    drawn = [conll(pair.source_tokens, pair.source_chunks) for pair in demo_pairs(split="train", pairs=24, seed=2)]
    rare = "Oh\tB-INTJ\n!\tO\n\n\n"
    paths = {name: [tmp_path / f"{name}.chunks"] for name in ("train", "dev", "test")}
    for name, text in (("train", drawn[:18]), ("dev", [*drawn[18:21], rare]), ("test", [*drawn[21:], rare])):
        paths[name][0].write_text("".join(text))
    return paths


@pytest.mark.slow
def test_the_same_settings_give_the_same_bytes(
    tmp_path: Path,
    vectors: Path,
    trees: dict[str, list[Path]],
    chunks: dict[str, list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    devices: set[str] = set()
    move = torch.nn.Module.to

    def moved(module: torch.nn.Module, *arguments: Any, **options: Any) -> torch.nn.Module:
        devices.update(map(str, (*arguments, *options.values())))
        return move(module, *arguments, **options)

    monkeypatch.setattr(torch.nn.Module, "to", moved)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # would show if anything but "cpu" were asked for
    folders = [tmp_path / "one", tmp_path / "another"]
    for folder in folders:
        folder.mkdir()
        tagger(folder, vectors, trees)
        parser(folder, vectors, trees)
        chunker(folder, vectors, chunks)
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert devices == {"cpu"}
    names = {"tagger.pt", "tagger.json", "constituency.pt", "parser.json", "chunker.pt", "chunker.json"}
    assert set(first) == names  # and nothing else is left in the folder
    assert first == second
    assert str(tmp_path).encode() not in b"".join(first[name] for name in names if name.endswith(".pt"))
    tagger(folders[0], vectors, trees, seed=2)
    assert (folders[0] / "tagger.pt").read_bytes() != first["tagger.pt"]


def test_scores_and_progress(
    tmp_path: Path, vectors: Path, trees: dict[str, list[Path]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="phrasemt")
    accuracies = dict(TaggerScores.read(tagger(tmp_path, vectors, trees)["scores"]))
    scores = parser(tmp_path, vectors, trees).scores
    assert {**scores, **accuracies} == scores
    assert scores["sentences"] == 6
    assert scores["failures"] == 0
    for name in ("f1", "precision", "recall", "exact"):
        assert 0 <= scores[name] <= 1
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "Best dev score (    2)" in line]
    assert [line for line in lines if line.startswith("step 8: train_loss = ")]


def test_sentences_limits_what_is_learned_from(tmp_path: Path, vectors: Path, trees: dict[str, list[Path]]) -> None:
    tagger(tmp_path, vectors, trees, sentences=14)
    limited = (tmp_path / "tagger.pt").read_bytes()
    tagger(tmp_path, vectors, {**trees, "train": trees["train"][:1]})
    assert (tmp_path / "tagger.pt").read_bytes() == limited


def test_nothing_to_learn_from(
    tmp_path: Path, vectors: Path, trees: dict[str, list[Path]], chunks: dict[str, list[Path]]
) -> None:
    empty, single = tmp_path / "empty", tmp_path / "single"
    empty.write_text("\n\n")
    single.write_text("(. .)\n(. ?)\n")
    for part in ("train", "dev", "test"):
        with pytest.raises(DataError, match=r"empty: there are no trees"):
            tagger(tmp_path, vectors, {**trees, part: [empty]}, tagger_updates=8)
        with pytest.raises(DataError, match=r"empty: there are no sentences with chunks"):
            chunker(tmp_path, vectors, {**chunks, part: [empty]}, updates=8)
    tagger(tmp_path, vectors, trees)
    with pytest.raises(DataError, match=r"single: only trees of one token to learn from"):
        parser(tmp_path, vectors, {**trees, "train": [single]})
    assert not [path for path in tmp_path.iterdir() if "work" in path.name]


def test_odd_words_in_trees(tmp_path: Path, vectors: Path, trees: dict[str, list[Path]]) -> None:
    odd = tmp_path / "odd"
    odd.write_text("(S (NP (-LRB- -LRB-) (NN a\u00a0b)) (VP (VBZ \u2028) (NN #) (NN _)))\n" * 3)
    text = "(S (NP (-LRB- 0) (NN 1)) (VP (VBZ 2) (NN 3) (NN 4)))"
    (tree, *_) = read_treebank(odd)
    assert (tree_text(tree), words(tree)) == (text, ["(", "a\u00a0b", "\u2028", "#", "_"])
    odd_trees = {"train": [*trees["train"], odd], "dev": [odd], "test": [odd]}
    tagger(tmp_path, vectors, odd_trees)
    assert parser(tmp_path, vectors, odd_trees).scores["failures"] == 0


def test_the_folder_of_a_killed_run_goes_with_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from phrasemt.files.system import work_folder\n"
        "with work_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'half').touch(); print('there', flush=True); time.sleep(60)"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / ".model.pt.77.part")], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout.readline() == "there\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    (left,) = tmp_path.iterdir()
    with work_folder(tmp_path / ".model.pt.78.part") as folder:
        assert list(tmp_path.iterdir()) == [folder] == [left]
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_without_dev_every_twelfth_sentence_is_held_out() -> None:
    def read(paths: list[Path], most: int | None = None) -> list[int]:
        return list(range(30 if paths == [Path("train")] else 5))[:most]

    learned, judged = train_and_dev(read, [Path("train")], [], None)
    assert judged == [11, 23]
    assert sorted([*learned, *judged]) == list(range(30))
    assert train_and_dev(read, [Path("train")], [Path("dev")], 3) == ([0, 1, 2], [0, 1, 2, 3, 4])
    assert train_and_dev(read, [Path("train")], [], 2) == ([0, 1], [0])  # too few to hold one out


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences about two things, whose words never meet."""
    random = Random(1)
    topics = (["sun", "rain", "wind", "&"], ["bread", "salt", "soup", "("])
    lines = [" ".join(random.choices(random.choice(topics), k=6)) for _ in range(600)]
    path = tmp_path / "text"
    path.write_text("\n".join([*lines, "once"]) + "\n")
    return path


def train(path: Path, width: int, *, seed: int = 1, **texts: list[Path]) -> bytes:
    settings = TrainVectors(language="en", vectors=width, seed=seed)
    train_vectors(settings=settings, cores=2, **{"texts": [], "trees": [], "chunks": [], **texts}, vectors=path)
    return path.read_bytes()


def test_words_that_meet_are_near_each_other(tmp_path: Path, text: Path) -> None:
    from stanza.models.common.pretrain import Pretrain
    from torch.nn.functional import cosine_similarity

    train(tmp_path / "vectors.pt", 8, texts=[text])
    pretrain = Pretrain(str(tmp_path / "vectors.pt"))
    assert pretrain.emb.shape == (4 + 8, 8)
    assert not pretrain.emb[:4].any()
    assert "once" not in pretrain.vocab

    def similarity(word: str, other: str) -> float:
        vectors = [pretrain.emb[pretrain.vocab[each]] for each in (word, other)]
        return float(cosine_similarity(*vectors, dim=0))

    assert similarity("sun", "rain") > similarity("sun", "soup")
    assert similarity("&", "wind") > similarity("&", "(")  # not &amp;
    assert similarity("bread", "(") > similarity("bread", "wind")


def test_the_same_text_gives_the_same_bytes(tmp_path: Path, text: Path) -> None:
    first = train(tmp_path / "a.pt", 8, texts=[text])
    assert train(tmp_path / "other.pt", 8, texts=[text]) == first
    assert train(tmp_path / "other.pt", 8, texts=[text], seed=2) != first
    assert {path.name for path in tmp_path.iterdir()} == {"text", "a.pt", "other.pt"}


def test_words_of_trees_and_chunks(tmp_path: Path) -> None:
    from stanza.models.common.pretrain import Pretrain

    (tmp_path / "trees").write_text("(S (NP (-LRB- -LRB-) (NN cat)) (VP (VBZ sits)))\n" * 30)
    (tmp_path / "chunks").write_text("a dog\tB-NP\nruns\tB-VP\n\n" * 30)  # a token with a space in it
    train(tmp_path / "vectors.pt", 4, trees=[tmp_path / "trees"], chunks=[tmp_path / "chunks"])
    vocabulary = Pretrain(str(tmp_path / "vectors.pt")).vocab
    assert {word for word in ("(", "cat", "sits", "a_dog", "runs") if word in vocabulary} == {
        "(", "cat", "sits", "a_dog", "runs",
    }  # fmt: skip


def test_too_little_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one two\n\n")
    with pytest.raises(DataError) as raised:
        train(tmp_path / "vectors.pt", 4, texts=[tmp_path / "text"])
    assert str(raised.value) == (
        f"{tmp_path / 'text'}: no words to learn vectors from (expected words that occur 2 times). "
        "Next: give more text, or set vectors: 0"
    )


def test_a_full_disk_is_told_as_such() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        save_model({"a": [1]}, Path("/dev/full"))
    assert caught.value.filename == "/dev/full"
    said = "PytorchStreamReader failed reading zip archive"
    with pytest.raises(PhrasemtError, match="the disk is full"), whole_models():  # as torch reads half a model
        raise RuntimeError(said)
    with pytest.raises(RuntimeError, match="another"), whole_models():
        raise RuntimeError("another")
