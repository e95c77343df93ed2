"""The stage `train_tagger`: a part-of-speech tagger, which the parser needs."""

from __future__ import annotations

import logging

from phrasemt.artefacts.artefact import In, Out
from phrasemt.artefacts.corpus import RawTrees, RegisteredText, UserFile
from phrasemt.artefacts.syntax import Tagger, TaggerScores, Vectors
from phrasemt.files.lines import write_lines
from phrasemt.files.work_folder import work_folder
from phrasemt.stages.syntax import TrainTagger
from phrasemt.syntax.stanza.runtime import prepare_stanza
from phrasemt.syntax.stanza.tagger import load_tagger
from phrasemt.syntax.stanza.training_data import conllu_lines, read_trees, retagged, train_and_dev
from phrasemt.syntax.stanza.training_tools import DEVICE, train_by_updates
from phrasemt.syntax.trees import leaves

log = logging.getLogger("phrasemt.train_tagger")


def train_tagger(
    *,
    settings: TrainTagger,
    cores: int,
    train: list[In[RegisteredText | RawTrees | UserFile]],
    dev: list[In[RegisteredText | RawTrees | UserFile]],
    test: list[In[RegisteredText | RawTrees | UserFile]],
    vectors: In[Vectors],
    tagger: Out[Tagger],
    scores: Out[TaggerScores],
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
            program, folder, tagger, log, "accuracy", vectors=vectors, settings=settings,
            updates=settings.tagger_updates, lang=settings.language, fix_eval_interval=True,
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
