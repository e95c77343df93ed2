"""The stages `train_tagger`, `train_parser` and `train_chunker`: models of our own, by Stanza's training code.

Stanza's programs for this ask for a network, for Java and for much more time than a study has. So its training loops
are called from here, in this process, with small models, with an evaluation of our own, and with all the paths taken
out of what they save: the same trees and settings give the same bytes. One core is used and no GPU, whatever `cores`
says; the number of threads would change the sums, and more of them hardly help models of this size.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from phrasemt.errors import DataError
from phrasemt.files.lines import write_lines, write_text
from phrasemt.settings import ChunkerSettings, ParserSettings, TaggerSettings
from phrasemt.syntax.annotator import Card
from phrasemt.syntax.bracket_scores import BracketScores
from phrasemt.syntax.chunks.conll import chunk_scores, read_conll
from phrasemt.syntax.stanza.annotators import (
    ChunkerAnnotator,
    Device,
    ParserAnnotator,
    Tagger,
    load_tagger,
    prepare_stanza,
    short_text,
)
from phrasemt.syntax.stanza.workbench import ProgressLog, save_model, work_folder
from phrasemt.syntax.trees import Tree, leaves, parse_tree, read_treebank, words

log = logging.getLogger("phrasemt.syntax.stanza.training")

Item = TypeVar("Item")
# Of all that is done here, so that what is learned and scored does not depend on the machine's having a GPU.
_DEVICE: Device = "cpu"
# How often Stanza's taggers are evaluated during a training.
_EVALUATIONS = 8
_SHORTHAND = "phrasemt_trained"
# Nodes above each other in a tree. Those of sentences have a third of that; twice of it is more than Stanza can take.
_DEEPEST = 100
# Nodes with a single child above each other. Treebanks have about five at most; Stanza fails where it needs many more.
_LONGEST_CHAIN = 10


def train_tagger(
    *,
    settings: TaggerSettings,
    cores: int,
    train: list[Path],
    dev: list[Path],
    test: list[Path],
    vectors: Path,
    tagger: Path,
    scores: Path,
) -> None:
    """Train a tagger on the parts of speech in trees, and write its accuracy on dev and test.

    Raises DataError when a part has no trees.
    """
    prepare_stanza(_DEVICE)
    from stanza.models import tagger as program
    from stanza.models.common.utils import set_random_seed

    interval = max(1, settings.tagger_updates // _EVALUATIONS)
    with work_folder(tagger) as folder:
        learned, judged = _learned_and_judged(_trees, train, dev, settings.sentences)
        for name, trees in (("train", learned), ("dev", judged)):
            write_lines(folder / name, (line for tree in trees for line in _conllu(tree)))
        arguments = program.parse_args(
            _flags(
                lang=settings.language,
                shorthand=_SHORTHAND,
                train_file=folder / "train",
                eval_file=folder / "dev",
                wordvec_pretrain_file=vectors.absolute(),
                save_dir=folder,
                save_name="model.pt",
                seed=settings.seed,
                device=_DEVICE,
                batch_size=32,
                max_steps=interval * _EVALUATIONS,
                eval_interval=interval,
                fix_eval_interval=True,
                max_steps_before_stop=max(1, settings.tagger_updates * 5 // 8),
                share_hid=True,  # without it training takes three times as long
                # Half of Stanza's own: those are for trainings that are twenty times as long.
                dropout=0.25,
                word_dropout=0.15,
                num_layers=1,
                hidden_dim=settings.hidden,
                char_hidden_dim=max(1, settings.hidden // 2),
                char_emb_dim=32,
                word_emb_dim=50,
            )
        )
        progress = ProgressLog(log, "train_tagger", "update", interval * _EVALUATIONS)
        set_random_seed(arguments["seed"])
        with _listening(lambda done, score: progress.report(done, score, "accuracy")):
            program.train(arguments)
        _publish(folder, tagger)
    given = load_tagger(tagger, vectors, _DEVICE)
    accuracies = {}
    for name, gold in (("dev", judged), ("test", _trees(test))):
        right = [
            leaf.label == tagged.label
            for pair in zip(gold, _retagged(given, gold), strict=True)
            for leaf, tagged in zip(*map(leaves, pair), strict=True)
        ]
        accuracies[f"{name}_accuracy"] = sum(right) / len(right)
    write_text(scores, json.dumps(accuracies, indent=1) + "\n")
    log.info(
        "train_tagger: accuracy %s of test, %s of dev", *(f"{accuracies[f'{n}_accuracy']:.1%}" for n in ("test", "dev"))
    )


def train_parser(
    *,
    settings: ParserSettings,
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
    """Train a constituency parser; the best epoch on dev is kept.

    It learns from trees with the tags that the tagger gives their words, wrong ones included, as it will read them. Its
    scores on test, with the tags of the tagger and with those of the trees, go into the annotator's card.
    Raises DataError when a part has no trees, or train none that a parser can learn from.
    """
    prepare_stanza(_DEVICE)
    from stanza.models import constituency_parser as program
    from stanza.models.common.foundation_cache import FoundationCache
    from stanza.models.common.utils import set_random_seed
    from stanza.models.constituency import parser_training as loop
    from stanza.models.constituency.utils import remove_duplicate_trees, remove_singleton_trees

    with work_folder(constituency) as folder:
        arguments = program.parse_args(
            _flags(
                lang=settings.language,
                shorthand=_SHORTHAND,
                eval_file="dev",  # only named in messages
                wordvec_pretrain_file=vectors.absolute(),
                save_dir=folder,
                save_name="model.pt",
                seed=settings.seed,
                device=_DEVICE,
                epochs=settings.epochs,
                epoch_size=0,  # all trees
                train_batch_size=30,
                no_multistage=True,
                optim="adadelta",
                hidden_size=settings.hidden,
                num_lstm_layers=1,
                delta_embedding_dim=50,
                no_check_valid_states=True,  # dev may have labels that train has not
                no_checkpoint=True,
                no_retag=True,
            )
        )
        # Remembered in the model: it was trained on XPOS tags. Without this it would be given the other ones.
        arguments |= {"retag_package": "local", "retag_method": "xpos", "retag_xpos": True}
        given = load_tagger(tagger, vectors, _DEVICE)
        learned, judged = (
            remove_duplicate_trees([_stanza_tree(tree) for tree in _retagged(given, trees)], name)
            for name, trees in zip(
                ("train", "dev"), _learned_and_judged(_trees, train, dev, settings.sentences), strict=True
            )
        )
        if not (learned := remove_singleton_trees(learned)):
            raise DataError("only trees of one token to learn from", where=", ".join(map(str, train)))
        progress = ProgressLog(log, "train_parser", "epoch", settings.epochs)
        set_random_seed(arguments["seed"])
        cache = FoundationCache()
        trainer, sequences, silver, transitions = loop.build_trainer(arguments, learned, judged, [], cache, None)
        with _replaced(loop, "tqdm", lambda items, **_: items):
            loop.iterate_training(
                arguments, trainer, learned, sequences, transitions, judged, [], silver, cache, _Evaluator(progress)
            )
        _publish(folder, constituency)
    files = {"constituency": constituency, "tagger": tagger, "vectors": vectors}
    scores = {
        **_parser_scores(ParserAnnotator(files, device=_DEVICE), _trees(test)),
        **json.loads(tagger_scores.read_text("utf-8")),
    }
    log.info(
        "train_parser: test F1 %s, %s with the tags of the trees",
        f"{scores['f1']:.1%}",
        f"{scores['f1_gold_tags']:.1%}",
    )
    Card.of_files(kind="constituency", origin="trained", language=settings.language, files=files, scores=scores).write(
        annotator
    )


def train_chunker(
    *,
    settings: ChunkerSettings,
    cores: int,
    train: list[Path],
    dev: list[Path],
    test: list[Path],
    vectors: Path,
    chunker: Path,
    annotator: Path,
) -> None:
    """Train a chunk tagger on CoNLL columns; the best evaluation on dev is kept, the scores on test go into the card.

    Raises DataError when a part has no sentences.
    """
    prepare_stanza(_DEVICE)
    from stanza.models import ner_tagger as program
    from stanza.models.common.utils import set_random_seed

    interval = max(1, settings.updates // _EVALUATIONS)
    with work_folder(chunker) as folder:
        learned, judged = _learned_and_judged(_chunked, train, dev, settings.sentences)
        for name, sentences in (("train", learned), ("dev", judged)):
            document = [
                [{"text": token, "ner": tag} for token, tag in zip(*sentence, strict=True)] for sentence in sentences
            ]
            write_text(folder / name, json.dumps(document))
        arguments = program.parse_args(
            _flags(
                shorthand=_SHORTHAND,
                train_file=folder / "train",
                eval_file=folder / "dev",
                wordvec_pretrain_file=vectors.absolute(),
                save_dir=folder,
                save_name="model.pt",
                seed=settings.seed,
                device=_DEVICE,
                batch_size=32,
                max_steps=interval * _EVALUATIONS,
                eval_interval=interval,
                optim="adam",
                lr=0.002,
                patience=1,
                dropout=0.4,
                hidden_dim=settings.hidden,
                char_hidden_dim=max(1, settings.hidden // 2),
                char_emb_dim=32,
                scheme="bioes",
            )
        )
        progress = ProgressLog(log, "train_chunker", "update", interval * _EVALUATIONS)
        set_random_seed(arguments["seed"])
        with _listening(lambda done, score: progress.report(done, score, "F1")):
            program.train(arguments)
        _publish(folder, chunker)
    files = {"chunker": chunker, "vectors": vectors}
    sentences = _chunked(test)
    annotations = ChunkerAnnotator(files, device=_DEVICE).annotate([tokens for tokens, _ in sentences])
    # A sentence that is too long for the chunker has no chunks.
    given = [
        annotation.text.split(" ") if annotation.text else ["O"] * len(tokens)
        for annotation, (tokens, _) in zip(annotations, sentences, strict=True)
    ]
    scores = chunk_scores([tags for _, tags in sentences], given)
    log.info("train_chunker: test F1 %s", f"{scores.f1:.1%}")
    Card.of_files(
        kind="chunks", origin="trained", language=settings.language, files=files, scores=scores.as_dict()
    ).write(annotator)


# ---------------------------------------------------------------------------------------------------------------- data


def _trees(paths: list[Path], most: int | None = None) -> list[Tree]:
    return _some((tree for path in paths for tree in _not_too_deep(path)), most, paths, "trees")


def _not_too_deep(path: Path) -> Iterator[Tree]:
    """The trees of a file. Raises DataError for one that Stanza's recursive functions or transitions cannot make."""
    for tree in read_treebank(path):
        depth, longest_chain, level = 0, 0, [(tree, 0)]
        while level:
            depth, longest_chain = depth + 1, max(longest_chain, *(chain for _, chain in level))
            level = [
                (child, chain + 1 if len(node.children) == 1 else 0) for node, chain in level for child in node.children
            ]
        for found, most, what in (
            (depth, _DEEPEST, "nodes above each other"),
            (longest_chain, _LONGEST_CHAIN, "nodes with a single child above each other"),
        ):
            if found > most:
                raise DataError(
                    "a tree that is too deep to learn from",
                    where=path,
                    expected=f"at most {most} {what}",
                    found=f"{found} in the tree that begins {' '.join(words(tree)[:8])!r}",
                    next_step="repair or remove the tree",
                )
        yield tree


def _chunked(paths: list[Path], most: int | None = None) -> list[tuple[list[str], list[str]]]:
    sentences = (sentence for path in paths for sentence in read_conll(path) if sentence[0])
    return _some(sentences, most, paths, "sentences with chunks")


def _learned_and_judged(
    read: Callable[..., list[Item]], train: list[Path], dev: list[Path], most: int | None
) -> tuple[list[Item], list[Item]]:
    """Sentences to learn from and those that choose the best epoch: without dev every twelfth one of train."""
    learned = read(train, most)
    if dev:
        return learned, read(dev)
    return [item for number, item in enumerate(learned) if number % 12 != 11], learned[11::12] or learned[:1]


def _some(items: Iterable[Item], most: int | None, paths: list[Path], what: str) -> list[Item]:
    """The first items of all files; `most` None: all. Raises DataError when there are none."""
    found = list(islice(items, most))
    if not found:
        raise DataError(f"there are no {what}", where=", ".join(map(str, paths)), next_step="give other files")
    return found


def _conllu(tree: Tree) -> Iterator[str]:
    """The lines of a sentence with XPOS tags; Stanza's scorer also wants heads, so all words hang on the first."""
    for number, leaf in enumerate(leaves(tree), start=1):
        word = re.sub(r"\s", "_", leaf.word or "_")  # the readers of this format cut at any Unicode space
        head = "0\troot" if number == 1 else "1\tdep"
        yield f"{number}\t{word}\t_\t_\t{leaf.label}\t_\t{head}\t_\t_"
    yield ""


def _retagged(tagger: Tagger, trees: list[Tree]) -> list[Tree]:
    """The trees with the tags of a tagger."""

    def retag(node: Tree, tags: Iterator[str]) -> Tree:
        if node.word is not None:
            return replace(node, label=next(tags))
        return replace(node, children=tuple(retag(child, tags) for child in node.children))

    order = sorted(range(len(trees)), key=lambda number: len(words(trees[number])), reverse=True)
    tagged = tagger.tag([words(trees[number]) for number in order])
    retagged = {number: retag(trees[number], iter(tags)) for number, tags in zip(order, tagged, strict=True)}
    return [retagged[number] for number in range(len(trees))]


def _stanza_tree(tree: Tree) -> Any:
    """The same as a tree of Stanza, with its ROOT."""
    from stanza.models.constituency.parse_tree import Tree as StanzaTree

    def convert(node: Tree) -> Any:
        if node.word is not None:
            return StanzaTree(node.label, StanzaTree(node.word))
        return StanzaTree(node.label, [convert(child) for child in node.children])

    return convert(tree) if tree.label == "ROOT" else StanzaTree("ROOT", convert(tree))


# -------------------------------------------------------------------------------------------------------------- scores


class _Evaluator:
    """In place of Stanza's evaluator, which starts Java: judges the parses of dev after each epoch."""

    def __init__(self, progress: ProgressLog) -> None:
        self._progress, self._epochs = progress, 0

    def process(self, treebank: Sequence[Any]) -> SimpleNamespace:
        """treebank: gold trees with predictions. The answer has the fields that Stanza reads."""
        scores = BracketScores()
        for result in treebank:
            tokens = result.gold.leaf_labels()
            gold, predicted = (
                parse_tree(short_text(tree, tokens, ("ROOT",))) for tree in (result.gold, result.predictions[0].tree)
            )
            scores.add(gold, predicted)
        self._epochs += 1
        self._progress.report(self._epochs, scores.f1, "F1")
        return SimpleNamespace(f1=scores.f1, treeF1=[], HasField=lambda name: False)


def _parser_scores(parser: ParserAnnotator, gold: list[Tree]) -> dict[str, float]:
    """F1 and the like with the tags of the tagger, and F1 with the tags of the trees."""
    parses = [annotation.text for annotation in parser.annotate([words(tree) for tree in gold])]
    gold_tags = parser.annotate_tagged([[(leaf.word or "", leaf.label) for leaf in leaves(tree)] for tree in gold])
    scores = []
    for texts in (parses, [annotation.text for annotation in gold_tags]):
        scores.append(BracketScores())
        for tree, text in zip(gold, texts, strict=True):
            scores[-1].add(tree, parse_tree(text) if text else None)
    return {**scores[0].as_dict(), "failures": parses.count(None), "f1_gold_tags": scores[1].f1}


# -------------------------------------------------------------------------------------------------------------- Stanza


def _flags(**options: object) -> list[str]:
    """Options of Stanza's programs; True: a flag without value."""
    return [
        text
        for name, value in options.items()
        for text in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]


@contextlib.contextmanager
def _listening(report: Callable[[int, float], None]) -> Iterator[None]:
    """Calls report(update, dev score) for each evaluation that Stanza's log speaks of; nothing else of it is heard."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if match := re.search(r"step (\d+): .*dev_score = ([\d.]+)", record.getMessage()):
                report(int(match[1]), float(match[2]))

    stanza = logging.getLogger("stanza")
    before = stanza.handlers, stanza.level, stanza.propagate
    stanza.handlers, stanza.level, stanza.propagate = [Listener()], logging.INFO, False
    try:
        yield
    finally:
        stanza.handlers, stanza.level, stanza.propagate = before


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _publish(folder: Path, output: Path) -> None:
    """Write the model that a training has kept in its folder, without what differs from run to run: paths and order."""
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
