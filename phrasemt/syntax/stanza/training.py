"""The stages `train_vectors`, `train_tagger`, `train_parser` and `train_chunker`.

Word vectors are those of skip-gram (Mikolov et al. 2013).

Stanza's command-line programs ask for a network, for Java and for much more time than a study has. The stages therefore
call Stanza's training loops in this process, with small models and with an evaluation of our own, and remove all paths
from the saved models: equal data and settings give equal bytes. A training uses one core and no GPU, whatever `cores`
says: more threads change the sums, and they hardly speed up models of this size. Progress stands in Stanza's messages.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import pickle
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from phrasemt.artefacts.syntax import Card, TaggerScores
from phrasemt.errors import DataError, PhrasemtError
from phrasemt.files.lines import read_lines, write_lines, write_text
from phrasemt.files.system import work_folder
from phrasemt.stages.syntax import TrainChunker, TrainParser, TrainTagger, TrainVectors
from phrasemt.syntax.conll import chunk_scores, read_conll
from phrasemt.syntax.stanza.annotators import (
    ChunkerAnnotator,
    ParserAnnotator,
    StanzaTagger,
    load_tagger,
    tree_of_stanza,
)
from phrasemt.syntax.stanza.runtime import Device, prepare_stanza, save_model
from phrasemt.syntax.trees import Tree, bracket_scores, leaves, parse_tree, read_treebank, words

log = logging.getLogger("phrasemt.syntax.stanza.training")
_STANZA_LOG = logging.getLogger("stanza")

_WINDOW, _NEGATIVE, _EPOCHS = 3, 8, 8  # of word vectors
_LEAST_COUNT = 2
_MOST_WORDS = 200_000

# The device of training and scoring, so that the results do not depend on whether the machine has a GPU.
DEVICE: Device = "cpu"
# Number of evaluations in the training of a tagger or chunker.
EVALUATIONS = 8
# Stanza stores this name in its models.
SHORTHAND = "phrasemt_trained"

Item = TypeVar("Item")
ChunkedSentence = tuple[list[str], list[str]]  # tokens and their chunk tags


def train_vectors(
    *, settings: TrainVectors, cores: int, texts: list[Path], trees: list[Path], chunks: list[Path], vectors: Path
) -> None:
    """Learn vectors from texts (one sentence per line), and from the words of trees and of CoNLL columns.

    With width 0 the stage writes only the file that Stanza requires: two words with vectors of a single zero. It uses
    one core, so that equal texts give equal bytes. Raises DataError if no word occurs twice.
    """
    if settings.vectors == 0:
        _save_vectors(["the", "of"], None, vectors)
        log.info("train_vectors: the study sets vectors: 0")
        return
    with work_folder(vectors) as folder:
        sentences = itertools.chain(
            _tokenised(texts, settings.language),
            (words(tree) for path in trees for tree in read_treebank(path)),
            (tokens for path in chunks for tokens, _ in read_conll(path) if tokens),
        )
        # Tokenise once, because the text is read several times.
        count = write_lines(folder / "text", (" ".join("_".join(token.split()) for token in s) for s in sentences))
        known, matrix = _learn_vectors(folder / "text", settings)
    if not known:
        raise DataError(
            "no words to learn vectors from",
            where=", ".join(map(str, [*texts, *trees, *chunks])),
            expected=f"words that occur {_LEAST_COUNT} times",
            next_step="give more text, or set vectors: 0",
        )
    _save_vectors(known, matrix, vectors)
    log.info("train_vectors: %s words from %s sentences", f"{len(known):,}", f"{count:,}")


def _tokenised(texts: list[Path], language: str) -> Iterator[list[str]]:
    """The tokens of raw texts as parsers see them: Moses tokens without escapes."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(language)
    for path in texts:
        for line in read_lines(path):
            yield moses.tokenize(line, escape=False)


def _learn_vectors(text: Path, settings: TrainVectors) -> tuple[list[str], Any]:
    """The words of a text of tokens by decreasing frequency, and their vectors, float32 [words, width]."""
    from gensim.models.word2vec import LineSentence, Word2Vec

    model = Word2Vec(
        vector_size=settings.vectors,
        window=_WINDOW,
        sg=1,
        negative=_NEGATIVE,
        min_count=_LEAST_COUNT,
        max_final_vocab=_MOST_WORDS,
        workers=1,  # with several workers, chance would decide the order of updates
        seed=settings.seed,
        hashfxn=lambda text: zlib.crc32(text.encode()),  # Python's own hash differs between processes
    )
    model.build_vocab(LineSentence(text))
    if not len(model.wv):
        return [], None
    model.train(LineSentence(text), total_examples=model.corpus_count, epochs=_EPOCHS)
    return model.wv.index_to_key, model.wv.vectors


def _save_vectors(known: list[str], matrix: Any, path: Path) -> None:
    """Write vectors in the format of Stanza's Pretrain: special words first, with zero vectors."""
    import torch
    from stanza.models.common.pretrain import PretrainedWordVocab
    from stanza.models.common.vocab import VOCAB_PREFIX_SIZE

    learned = torch.zeros(len(known), 1) if matrix is None else torch.from_numpy(matrix)
    vectors = torch.cat([torch.zeros(VOCAB_PREFIX_SIZE, learned.shape[1]), learned])
    save_model({"vocab": PretrainedWordVocab(known).state_dict(), "emb": vectors}, path)


def train_tagger(
    *,
    settings: TrainTagger,
    cores: int,
    train: list[Path],
    dev: list[Path],
    test: list[Path],
    vectors: Path,
    tagger: Path,
    scores: Path,
) -> None:
    """Train a tagger on the parts of speech in trees, and write its accuracy on dev and test.

    Raises DataError if train, dev or test has no trees.
    """
    prepare_stanza(DEVICE)
    from stanza.models import tagger as program

    with work_folder(tagger) as folder:
        train_trees, dev_trees = train_and_dev(read_trees, train, dev, settings.sentences)
        for name, trees in (("train", train_trees), ("dev", dev_trees)):
            write_lines(folder / name, (line for tree in trees for line in conllu_lines(tree)))
        train_by_updates(
            program, folder, tagger, vectors=vectors, settings=settings, updates=settings.tagger_updates,
            lang=settings.language, fix_eval_interval=True,
            max_steps_before_stop=max(1, settings.tagger_updates * 5 // 8),
            share_hid=True,  # without it training takes three times as long
            # Half of Stanza's rates, which are for trainings of twenty times this length.
            dropout=0.25, word_dropout=0.15, num_layers=1, word_emb_dim=50,
        )  # fmt: skip
    trained = load_tagger(tagger, vectors, DEVICE)
    accuracies: dict[str, float] = {}
    for name, gold in (("dev", dev_trees), ("test", read_trees(test))):
        right = [
            leaf.label == tagged.label
            for pair in zip(gold, retagged(trained, gold), strict=True)
            for leaf, tagged in zip(*map(leaves, pair), strict=True)
        ]
        accuracies[f"{name}_accuracy"] = sum(right) / len(right)
    TaggerScores.model_validate(accuracies).write(scores)
    log.info(
        "train_tagger: accuracy %s of test, %s of dev", *(f"{accuracies[f'{n}_accuracy']:.1%}" for n in ("test", "dev"))
    )


def train_parser(
    *,
    settings: TrainParser,
    cores: int,
    train: list[Path],
    dev: list[Path],
    test: list[Path],
    vectors: Path,
    tagger: Path,
    tagger_scores: Path,
    constituency: Path,
    annotator: Path,
) -> None:
    """Train a constituency parser, keep its best epoch on dev, and write its card.

    The parser learns from trees with the tags of the tagger, wrong tags included, because it reads such tags later. The
    card has the scores on test. Raises DataError if train, dev or test has no trees, or train only trees of one token.
    """
    prepare_stanza(DEVICE)
    from stanza.models import constituency_parser as program
    from stanza.models.common.foundation_cache import FoundationCache
    from stanza.models.common.utils import set_random_seed
    from stanza.models.constituency import parser_training as loop
    from stanza.models.constituency.utils import remove_duplicate_trees, remove_singleton_trees

    with work_folder(constituency) as folder:
        options = flags(
            folder, vectors, settings.seed, lang=settings.language,
            eval_file="dev",  # Stanza uses it in messages only
            epochs=settings.epochs,
            epoch_size=0,  # all trees
            train_batch_size=30, no_multistage=True, optim="adadelta", hidden_size=settings.hidden, num_lstm_layers=1,
            delta_embedding_dim=50,
            no_check_valid_states=True,  # dev may have labels that are not in train
            no_checkpoint=True, no_retag=True,
        )  # fmt: skip
        arguments = program.parse_args(options)
        # Stanza stores these in the model: the parser reads XPOS tags. Without them it would be given UPOS tags.
        arguments |= {"retag_package": "local", "retag_method": "xpos", "retag_xpos": True}
        trained_tagger = load_tagger(tagger, vectors, DEVICE)
        train_trees, dev_trees = (
            remove_duplicate_trees([stanza_tree(tree) for tree in retagged(trained_tagger, trees)], name)
            for name, trees in zip(
                ("train", "dev"), train_and_dev(read_trees, train, dev, settings.sentences), strict=True
            )
        )
        if not (train_trees := remove_singleton_trees(train_trees)):
            raise DataError("only trees of one token to learn from", where=", ".join(map(str, train)))
        set_random_seed(arguments["seed"])
        cache = FoundationCache()
        trainer, sequences, silver, transitions = loop.build_trainer(arguments, train_trees, dev_trees, [], cache, None)
        loop.tqdm = lambda items, **_: items  # no bars beside the log
        _STANZA_LOG.setLevel(logging.INFO)
        with whole_models():
            loop.iterate_training(
                arguments, trainer, train_trees, sequences, transitions, dev_trees, [], silver, cache, DevEvaluator()
            )
            publish_model(folder, constituency)
    files = {"constituency": constituency, "tagger": tagger, "vectors": vectors}
    gold = read_trees(test)
    parses = ParserAnnotator(files, device=DEVICE).annotate([words(tree) for tree in gold])
    trees = [parse_tree(parse.text) if parse.text else None for parse in parses]
    of_trees = bracket_scores(zip(gold, trees, strict=True))
    scores = {**of_trees, "failures": trees.count(None), **dict(TaggerScores.read(tagger_scores))}
    log.info("train_parser: test F1 %s", f"{of_trees['f1']:.1%}")
    card = Card.of_files(kind="constituency", origin="trained", language=settings.language, files=files, scores=scores)
    card.write(annotator)


class DevEvaluator:
    """Scores the parses of dev after each epoch, in place of Stanza's evaluator, which starts Java."""

    def process(self, treebank: Sequence[Any]) -> SimpleNamespace:
        """The scores in the fields that Stanza reads. treebank: Stanza's gold trees with predictions."""
        golds = (tree_of_stanza(result.gold, ("ROOT",)) for result in treebank)
        parses = (tree_of_stanza(result.predictions[0].tree, ("ROOT",)) for result in treebank)
        return SimpleNamespace(
            f1=bracket_scores(zip(golds, parses, strict=True))["f1"], treeF1=[], HasField=lambda name: False
        )


def train_chunker(
    *,
    settings: TrainChunker,
    cores: int,
    train: list[Path],
    dev: list[Path],
    test: list[Path],
    vectors: Path,
    chunker: Path,
    annotator: Path,
) -> None:
    """Train a chunk tagger on CoNLL columns, keep its best evaluation on dev, and write its card with scores on test.

    Raises DataError if train, dev or test has no sentences.
    """
    prepare_stanza(DEVICE)
    from stanza.models import ner_tagger as program

    with work_folder(chunker) as folder:
        parts = train_and_dev(read_chunked, train, dev, settings.sentences)
        for name, sentences in zip(("train", "dev"), parts, strict=True):
            document = [
                [{"text": token, "ner": tag} for token, tag in zip(*sentence, strict=True)] for sentence in sentences
            ]
            write_text(folder / name, json.dumps(document))
        train_by_updates(
            program, folder, chunker, vectors=vectors, settings=settings, updates=settings.updates,
            optim="adam", lr=0.002, patience=1, dropout=0.4, scheme="bioes",
        )  # fmt: skip
    files = {"chunker": chunker, "vectors": vectors}
    gold = read_chunked(test)
    annotations = ChunkerAnnotator(files, device=DEVICE).annotate([tokens for tokens, _ in gold])
    # A sentence that is too long for the chunker counts as a sentence without chunks.
    predicted = [
        annotation.text.split(" ") if annotation.text else ["O"] * len(tokens)
        for annotation, (tokens, _) in zip(annotations, gold, strict=True)
    ]
    scores = chunk_scores([tags for _, tags in gold], predicted)
    log.info("train_chunker: test F1 %s", f"{scores['f1']:.1%}")
    card = Card.of_files(kind="chunks", origin="trained", language=settings.language, files=files, scores=scores)
    card.write(annotator)


def read_trees(paths: list[Path], most: int | None = None) -> list[Tree]:
    """The trees of all files, at most the first `most`. Raises DataError if there are none."""
    return _some((tree for path in paths for tree in _with_one_child(path)), most, paths, "trees")


def _with_one_child(path: Path) -> Iterator[Tree]:
    """The trees of a file, in which a ROOT of several (a sentence and its full stop) is an X, as Stanza needs it."""
    for tree in read_treebank(path):
        yield replace(tree, label="X") if len(tree.children) > 1 and tree.label == "ROOT" else tree


def read_chunked(paths: list[Path], most: int | None = None) -> list[ChunkedSentence]:
    """The sentences of CoNLL files, at most the first `most`. Raises DataError if there are none."""
    sentences = (sentence for path in paths for sentence in read_conll(path) if sentence[0])
    return _some(sentences, most, paths, "sentences with chunks")


def train_and_dev(
    read: Callable[..., list[Item]], train: list[Path], dev: list[Path], most: int | None
) -> tuple[list[Item], list[Item]]:
    """Sentences to learn from, and sentences that choose the best epoch.

    Without dev files every twelfth sentence of train becomes dev. most: largest number of sentences read from train.
    """
    learned = read(train, most)
    if dev:
        return learned, read(dev)
    return [item for number, item in enumerate(learned) if number % 12 != 11], learned[11::12] or learned[:1]


def _some(items: Iterable[Item], most: int | None, paths: list[Path], what: str) -> list[Item]:
    chosen = list(itertools.islice(items, most))
    if not chosen:
        raise DataError(f"there are no {what}", where=", ".join(map(str, paths)), next_step="give other files")
    return chosen


def conllu_lines(tree: Tree) -> Iterator[str]:
    """A sentence in CoNLL-U with XPOS tags. Each word depends on the first one, because Stanza's scorer needs heads."""
    for number, leaf in enumerate(leaves(tree), start=1):
        word = re.sub(r"\s", "_", leaf.word or "_")  # CoNLL-U readers split at any Unicode space
        head = "0\troot" if number == 1 else "1\tdep"
        yield f"{number}\t{word}\t_\t_\t{leaf.label}\t_\t{head}\t_\t_"
    yield ""


def retagged(tagger: StanzaTagger, trees: list[Tree]) -> list[Tree]:
    """The trees with the tags that a tagger gives their words."""

    def retag(node: Tree, tags: Iterator[str]) -> Tree:
        if node.word is not None:
            return replace(node, label=next(tags))
        return replace(node, children=tuple(retag(child, tags) for child in node.children))

    order = sorted(range(len(trees)), key=lambda number: len(words(trees[number])), reverse=True)
    tagged = tagger.tag([words(trees[number]) for number in order])
    retagged_trees = {number: retag(trees[number], iter(tags)) for number, tags in zip(order, tagged, strict=True)}
    return [retagged_trees[number] for number in range(len(trees))]


def stanza_tree(tree: Tree) -> Any:
    """The tree as Stanza's class, below a ROOT."""
    from stanza.models.constituency.parse_tree import Tree as StanzaTree

    def convert(node: Tree) -> Any:
        if node.word is not None:
            return StanzaTree(node.label, StanzaTree(node.word))
        return StanzaTree(node.label, [convert(child) for child in node.children])

    return convert(tree) if tree.label == "ROOT" else StanzaTree("ROOT", convert(tree))


def flags(folder: Path, vectors: Path, seed: int, **options: object) -> list[str]:
    """Command-line options for Stanza's programs, which train in a work folder; True means a flag without value."""
    shared = {
        "shorthand": SHORTHAND,
        "wordvec_pretrain_file": vectors.absolute(),
        "save_dir": folder,
        "save_name": "model.pt",
        "seed": seed,
        "device": DEVICE,
    }
    return [
        text
        for name, value in (shared | options).items()
        for text in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]


def train_by_updates(
    program: Any, folder: Path, output: Path, *, vectors: Path, settings: Any, updates: int, **options: object
) -> None:
    """Train a tagger or chunker by Stanza's program, and keep its best evaluation on dev.

    folder: a work folder with the files `train` and `dev`.
    """
    from stanza.models.common.utils import set_random_seed

    interval = max(1, updates // EVALUATIONS)
    sizes = {
        "batch_size": 32,
        "max_steps": interval * EVALUATIONS,
        "eval_interval": interval,
        "hidden_dim": settings.hidden,
        "char_hidden_dim": max(1, settings.hidden // 2),
        "char_emb_dim": 32,
    }
    files = {"train_file": folder / "train", "eval_file": folder / "dev"}
    arguments = program.parse_args(flags(folder, vectors, settings.seed, **files, **sizes, **options))
    set_random_seed(arguments["seed"])
    _STANZA_LOG.setLevel(logging.INFO)
    with whole_models():
        program.train(arguments)
        publish_model(folder, output)


@contextlib.contextmanager
def whole_models() -> Iterator[None]:
    """Stanza only warns when it cannot save a model, and then reads it again."""
    try:
        yield
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        if not re.search(r"unexpected EOF|corrupted|PytorchStream|Ran out of input|unexpected pos", str(error)):
            raise
        what = "Stanza could not save its model: the disk is full, or files may not be so large"
        raise PhrasemtError(what, found=str(error).split("\n")[0], next_step="free space and run again") from None


def publish_model(folder: Path, output: Path) -> None:
    """Write the model that a training left in its work folder. Paths and orders, which differ between runs, go."""
    import torch

    content = torch.load(folder / "model.pt", map_location="cpu", weights_only=True)
    parameters = content.get("params", content)
    parameters["config"] = {
        name: Path(value).name.replace(folder.name, "") if isinstance(value, str) and value.startswith("/") else value
        for name, value in parameters["config"].items()
    }
    if "rare_words" in parameters:
        parameters["rare_words"] = sorted(parameters["rare_words"])
    save_model(content, output)
