"""One system on one data set with one seed; then the average of its checkpoints (rules/training.smk)."""

from __future__ import annotations

from typing import Literal

from phrasemt.artefacts.paths import Paths
from phrasemt.stages.stage import ModelStage, files, named, of
from phrasemt.study.schema import Training
from phrasemt.study.tokenization import BleuTokenizer


class TrainModel(ModelStage):
    """Train a system, or continue a training that stopped."""

    module = "phrasemt.training.loop"
    inputs = named(
        "train dev dev_reference source_vocabulary target_vocabulary",
        lists="train_phrases dev_phrases train_chunks dev_chunks initial_weights",
    )
    outputs = files(record=Paths.training_record)
    folders = files(state=Paths.training_state)
    resumes = True
    libraries = ("torch", "numpy")

    # Width d that the learning rate of Vaswani et al. is scaled by.
    rate_width: int = of(lambda job: job.system.model.learning_rate_width)
    training: Training = of(lambda job: job.system.training)
    seed: int
    # 13a: dev BLEU counts tokens; otherwise what sacreBLEU makes of the text.
    dev_bleu: BleuTokenizer = of(lambda job: job.target_tokenizer.bleu)


class AverageCheckpoints(ModelStage):
    """Average the last or the best checkpoints; score the average on dev."""

    module = "phrasemt.training.average"
    inputs = named("record dev dev_reference source_vocabulary target_vocabulary", lists="dev_phrases dev_chunks")
    outputs = files(weights=Paths.weights, scores=Paths.average_scores)
    libraries = ("torch", "numpy")

    dataset: str
    system: str
    seed: int
    # Number of the last checkpoints in the record that are averaged.
    last: int = of(lambda job: job.system.training.average_best or job.system.training.average_last)
    best_by: Literal["bleu", "perplexity"] = of(lambda job: job.system.training.best_by)
    dev_bleu: BleuTokenizer = of(lambda job: job.target_tokenizer.bleu)
