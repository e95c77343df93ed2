"""One system on one data set with one seed; then the average of its checkpoints (rules/training.smk)."""

from __future__ import annotations

from typing import Literal, Self

from phrasemt.stages.stage import ModelStage, Wildcards
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import BleuTokenizer
from phrasemt.study.training import Training


class TrainModel(ModelStage):
    """Train a system, or continue a training that stopped."""

    module = "phrasemt.training.loop"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    libraries = ("torch", "numpy")

    rate_width: int  # width d that the learning rate of Vaswani et al. is scaled by
    training: Training
    seed: int
    dev_bleu: BleuTokenizer  # 13a: dev BLEU counts tokens; otherwise what sacreBLEU makes of the text

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        system = study.models[wildcards["system"]]
        return cls(
            **cls.of_model(system.model),
            rate_width=system.model.learning_rate_width,
            training=system.training,
            seed=int(wildcards["seed"]),
            dev_bleu=study.datasets[wildcards["dataset"]].tokenizer("target").bleu,
        )


class AverageCheckpoints(ModelStage):
    """Average the last or the best checkpoints; score the average on dev."""

    module = "phrasemt.training.average"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    libraries = ("torch", "numpy")

    dataset: str
    system: str
    seed: int
    last: int  # number of the last checkpoints in the record that are averaged
    average: Literal["all", "auto"]
    best_by: Literal["bleu", "perplexity"]
    dev_bleu: BleuTokenizer  # as in TrainModel

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        system = study.models[wildcards["system"]]
        training = system.training
        return cls(
            **cls.of_model(system.model),
            dataset=wildcards["dataset"],
            system=wildcards["system"],
            seed=int(wildcards["seed"]),
            last=training.average_best or training.average_last,
            average=training.average,
            best_by=training.best_by,
            dev_bleu=study.datasets[wildcards["dataset"]].tokenizer("target").bleu,
        )
