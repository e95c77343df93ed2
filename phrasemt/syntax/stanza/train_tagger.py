"""The stage `train_tagger`: a part-of-speech tagger, which the parser needs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from phrasemt.files.lines import write_lines, write_text
from phrasemt.stages.syntax import TrainTagger
from phrasemt.syntax.stanza.runtime import prepare_stanza
from phrasemt.syntax.stanza.tagger import load_tagger
from phrasemt.syntax.stanza.training_data import conllu_lines, read_trees, retagged, train_and_dev
from phrasemt.syntax.stanza.training_tools import (
    DEVICE,
    EVALUATIONS,
    SHORTHAND,
    ProgressLog,
    evaluations_of_stanza,
    flags,
    publish_model,
    work_folder,
)
from phrasemt.syntax.trees import leaves

log = logging.getLogger("phrasemt.train_tagger")


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
    from stanza.models.common.utils import set_random_seed

    interval = max(1, settings.tagger_updates // EVALUATIONS)
    with work_folder(tagger) as folder:
        train_trees, dev_trees = train_and_dev(read_trees, train, dev, settings.sentences)
        for name, trees in (("train", train_trees), ("dev", dev_trees)):
            write_lines(folder / name, (line for tree in trees for line in conllu_lines(tree)))
        arguments = program.parse_args(
            flags(
                lang=settings.language,
                shorthand=SHORTHAND,
                train_file=folder / "train",
                eval_file=folder / "dev",
                wordvec_pretrain_file=vectors.absolute(),
                save_dir=folder,
                save_name="model.pt",
                seed=settings.seed,
                device=DEVICE,
                batch_size=32,
                max_steps=interval * EVALUATIONS,
                eval_interval=interval,
                fix_eval_interval=True,
                max_steps_before_stop=max(1, settings.tagger_updates * 5 // 8),
                share_hid=True,  # without it training takes three times as long
                # Half of Stanza's rates, which are for trainings of twenty times this length.
                dropout=0.25,
                word_dropout=0.15,
                num_layers=1,
                hidden_dim=settings.hidden,
                char_hidden_dim=max(1, settings.hidden // 2),
                char_emb_dim=32,
                word_emb_dim=50,
            )
        )
        progress = ProgressLog(log, "train_tagger", "update", interval * EVALUATIONS)
        set_random_seed(arguments["seed"])
        with evaluations_of_stanza(lambda done, score: progress.report(done, score, "accuracy")):
            program.train(arguments)
        publish_model(folder, tagger)
    trained = load_tagger(tagger, vectors, DEVICE)
    accuracies = {}
    for name, gold in (("dev", dev_trees), ("test", read_trees(test))):
        right = [
            leaf.label == tagged.label
            for pair in zip(gold, retagged(trained, gold), strict=True)
            for leaf, tagged in zip(*map(leaves, pair), strict=True)
        ]
        accuracies[f"{name}_accuracy"] = sum(right) / len(right)
    write_text(scores, json.dumps(accuracies, indent=1) + "\n")
    log.info(
        "train_tagger: accuracy %s of test, %s of dev", *(f"{accuracies[f'{n}_accuracy']:.1%}" for n in ("test", "dev"))
    )
