"""One system on one data set with one seed; then the average of its checkpoints (rules/training.smk)."""

from __future__ import annotations

from typing import Any, Literal

from phrasemt.stages.stage import VOCABULARIES, ModelStage, StudyJob, files, of
from phrasemt.study.schema import Training
from phrasemt.study.tokenization import BleuTokenizer


class TrainModel(ModelStage):
    """Train a system, or continue a training that stopped."""

    module = "phrasemt.training.loop"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    inputs = files(
        train="Examples",
        dev="Examples",
        dev_reference="Tokens",
        **VOCABULARIES,
        train_phrases=["PhraseColumns"],
        dev_phrases=["PhraseColumns"],
        train_chunks=["ChunkColumns"],
        dev_chunks=["ChunkColumns"],
        initial_weights=["Weights | UserFile"],
    )
    outputs = files(record="TrainingRecord")
    folders = files(state="TrainingState")
    resumes = True
    libraries = ("torch", "numpy")

    # Width d that the learning rate of Vaswani et al. is scaled by.
    rate_width: int = of("system.model.learning_rate_width")
    training: Training = of("system.training")
    seed: int
    # 13a: dev BLEU counts tokens; otherwise what sacreBLEU makes of the text.
    dev_bleu: BleuTokenizer = of("target_tokenizer.bleu")


class AverageCheckpoints(ModelStage):
    """Average the last or the best checkpoints; score the average on dev."""

    module = "phrasemt.training.average"
    job_name = "{dataset}.{source}-{target}/{system}.{seed}"
    inputs = files(
        record="TrainingRecord",
        dev="Examples",
        dev_reference="Tokens",
        **VOCABULARIES,
        dev_phrases=["PhraseColumns"],
        dev_chunks=["ChunkColumns"],
    )
    outputs = files(weights="Weights", scores="AverageScores")
    libraries = ("torch", "numpy")

    dataset: str
    system: str
    seed: int
    last: int  # number of the last checkpoints in the record that are averaged
    best_by: Literal["bleu", "perplexity"] = of("system.training.best_by")
    dev_bleu: BleuTokenizer = of("target_tokenizer.bleu")

    @classmethod
    def of_job(cls, job: StudyJob) -> dict[str, Any]:
        training = job.system.training
        return {"last": training.average_best or training.average_last}
