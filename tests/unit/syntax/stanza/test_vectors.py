"""Word vectors; Stanza's own reader is the witness of the file."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from phrasemt.errors import DataError
from phrasemt.stages.syntax import TrainVectors
from phrasemt.syntax.stanza.training import train_vectors


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


def test_no_vectors_need_no_text(tmp_path: Path) -> None:
    from stanza.models.common.pretrain import Pretrain

    train(tmp_path / "vectors.pt", 0)
    assert Pretrain(str(tmp_path / "vectors.pt")).emb.shape == (6, 1)


def test_too_little_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one two\n\n")
    with pytest.raises(DataError) as raised:
        train(tmp_path / "vectors.pt", 4, texts=[tmp_path / "text"])
    assert str(raised.value) == (
        f"{tmp_path / 'text'}: no words to learn vectors from (expected words that occur 2 times). "
        "Next: give more text, or set vectors: 0"
    )
