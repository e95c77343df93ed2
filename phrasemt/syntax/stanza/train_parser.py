"""The stage `train_parser`: a constituency parser."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.card import Card
from phrasemt.artefacts.corpus import RawTrees, RegisteredText, UserFile
from phrasemt.artefacts.syntax import ConstituencyParser, Tagger, TaggerScores, Vectors
from phrasemt.errors import DataError
from phrasemt.files.work_folder import work_folder
from phrasemt.stages.syntax import TrainParser
from phrasemt.syntax.bracket_scores import BracketScores
from phrasemt.syntax.stanza.parser import ParserAnnotator, short_text
from phrasemt.syntax.stanza.runtime import prepare_stanza
from phrasemt.syntax.stanza.tagger import load_tagger
from phrasemt.syntax.stanza.training_data import read_trees, retagged, stanza_tree, train_and_dev
from phrasemt.syntax.stanza.training_tools import DEVICE, ProgressLog, flags, publish_model
from phrasemt.syntax.trees import Tree, leaves, parse_tree, words

log = logging.getLogger("phrasemt.train_parser")


def train_parser(
    *,
    settings: TrainParser,
    cores: int,
    train: list[In[RegisteredText | RawTrees | UserFile]],
    dev: list[In[RegisteredText | RawTrees | UserFile]],
    test: list[In[RegisteredText | RawTrees | UserFile]],
    vectors: In[Vectors],
    tagger: In[Tagger],
    tagger_scores: In[TaggerScores],
    constituency: Out[ConstituencyParser],
    annotator: Out[Card],
) -> None:
    """Train a constituency parser, keep its best epoch on dev, and write its card.

    The parser learns from trees with the tags of the tagger, wrong tags included, because it reads such tags later. The
    card holds the scores on test, once with the tags of the tagger and once with the tags of the trees.
    Raises DataError if train, dev or test has no trees, or train only trees of one token.
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
            no_check_valid_states=True,  # dev may have labels that train lacks
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
        progress = ProgressLog(log, "epoch", settings.epochs)
        set_random_seed(arguments["seed"])
        cache = FoundationCache()
        trainer, sequences, silver, transitions = loop.build_trainer(arguments, train_trees, dev_trees, [], cache, None)
        loop.tqdm = lambda items, **_: items  # no bars beside the log
        loop.iterate_training(
            arguments, trainer, train_trees, sequences, transitions, dev_trees, [], silver, cache,
            DevEvaluator(progress),
        )  # fmt: skip
        publish_model(folder, constituency)
    files = {"constituency": constituency, "tagger": tagger, "vectors": vectors}
    scores = {
        **_scores(ParserAnnotator(files, device=DEVICE), read_trees(test)),
        **dict(TaggerScores.read(tagger_scores)),
    }
    log.info(
        "train_parser: test F1 %s, %s with the tags of the trees",
        f"{scores['f1']:.1%}",
        f"{scores['f1_gold_tags']:.1%}",
    )
    card = Card.of_files(kind="constituency", origin="trained", language=settings.language, files=files, scores=scores)
    card.write(annotator)


class DevEvaluator:
    """Scores the parses of dev after each epoch, in place of Stanza's evaluator, which starts Java."""

    def __init__(self, progress: ProgressLog) -> None:
        self._progress, self._epochs = progress, 0

    def process(self, treebank: Sequence[Any]) -> SimpleNamespace:
        """The scores in the fields that Stanza reads. treebank: Stanza's gold trees with predictions."""
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


def _scores(parser: ParserAnnotator, gold: list[Tree]) -> dict[str, float]:
    """All bracket scores with the tags of the tagger, and F1 with the tags of the trees."""
    parses = [annotation.text for annotation in parser.annotate([words(tree) for tree in gold])]
    gold_tags = parser.annotate_tagged([[(leaf.word or "", leaf.label) for leaf in leaves(tree)] for tree in gold])
    scores = []
    for texts in (parses, [annotation.text for annotation in gold_tags]):
        scores.append(BracketScores())
        for tree, text in zip(gold, texts, strict=True):
            scores[-1].add(tree, parse_tree(text) if text else None)
    return {**scores[0].as_dict(), "failures": parses.count(None), "f1_gold_tags": scores[1].f1}
