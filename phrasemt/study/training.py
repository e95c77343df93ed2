"""Settings of a training: optimiser and schedule, size of an update, evaluations, and which weights are averaged."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from phrasemt.fields import Number, Positions, Probability, Settings, Updates

Checkpoints = Annotated[int, Field(gt=0), Number(at_most=1_000, because="all these files of weights stay on the disk")]
Epsilon = Annotated[float, Field(gt=0), Number(at_most=1, because="a larger number would decide the steps alone")]
_LARGE_UPDATE = "an update of so much text takes hours"


class Adam(Settings):
    """Adam with the Noam schedule: factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5)."""

    name: Literal["adam"] = Field("adam", description="Adam (Kingma and Ba 2015)")
    beta1: Probability = Field(0.9, description="decay of the first moment")
    beta2: Probability = Field(0.98, description="decay of the second moment")
    epsilon: Epsilon = Field(1e-9, description="added to the root of the second moment")
    factor: Annotated[float, Field(gt=0), Number(at_most=1_000, because="no training survives such steps")] = Field(
        1.0, description="factor of the schedule (Nguyen et al.: 2)"
    )
    warmup: Updates = Field(8000, description="updates in which the learning rate grows linearly")


class Adadelta(Settings):
    """Adadelta, which needs no learning rate (Zeiler 2012; used by Zhou et al.)."""

    name: Literal["adadelta"] = Field(description="Adadelta")
    rho: Probability = Field(0.95, description="decay of both running means")
    epsilon: Epsilon = Field(1e-6, description="added under both roots")


def kind_of_optimizer(value: Any) -> str:
    """The class of an optimiser by its name (default: Adam), so that mistakes are reported for the right class."""
    name = value.get("name", "adam") if isinstance(value, dict) else getattr(value, "name", "adam")
    return str(name)


Optimizer = Annotated[
    Annotated[Adam, Tag("adam")] | Annotated[Adadelta, Tag("adadelta")], Discriminator(kind_of_optimizer)
]


class Training(Settings):
    """How a system is trained."""

    tokens_per_update: Annotated[int, Field(gt=0), Number(at_most=10_000_000, because=_LARGE_UPDATE)] | None = Field(
        25_000, description="approximate target tokens (with </s>) per update; null with sentences_per_update"
    )
    sentences_per_update: Annotated[int, Field(gt=0), Number(at_most=1_000_000, because=_LARGE_UPDATE)] | None = Field(
        None,
        description="sentence pairs per update, instead of tokens_per_update; the loss is then a mean over sentences "
        "and not over tokens (Zhou et al.)",
    )
    max_updates: Updates = Field(100_000, description="number of updates")
    max_length: Positions = Field(256, description="largest number of subwords of a side; training omits longer pairs")
    label_smoothing: Probability = Field(0.1, description="probability mass of all wrong words together")
    optimizer: Optimizer = Field(default_factory=Adam, description="optimiser and schedule")
    clip_norm: Annotated[float, Field(gt=0), Number()] | None = Field(
        None, description="largest L2 norm of the whole gradient; null: no limit (Zhou et al.: 1)"
    )
    precision: Literal["float32", "tf32", "bfloat16"] = Field(
        "float32",
        description="type of matrix products and their operands; weights and sums are always float32. tf32, for GPUs "
        "from Ampere on: operands have ten bits of mantissa. A device without units for tf32 or bfloat16 trains in "
        "float32",
    )
    evaluate_every: Updates = Field(1500, description="updates between two evaluations on dev")
    checkpoint_every: Updates = Field(1500, description="updates between two checkpoints")
    average_last: Checkpoints = Field(5, description="average the weights of this many last checkpoints")
    average_best: Checkpoints | None = Field(
        None,
        description="instead of average_last: average this many checkpoints with the best dev scores; every evaluation "
        "then writes a checkpoint",
    )
    best_by: Literal["bleu", "perplexity"] = Field(
        "bleu",
        description="dev score of the best checkpoint; always perplexity for language models. Perplexity decides "
        "between equal BLEU scores",
    )
    early_stopping: Updates | None = Field(
        None,
        description="stop after this many evaluations without a new best score (best_by); null: never. With bleu, "
        "evaluations count from the first dev BLEU above 0",
    )

    @model_validator(mode="before")
    @classmethod
    def _sentences_in_place_of_tokens(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("sentences_per_update") is not None:
            return {"tokens_per_update": None, **values}
        return values

    @model_validator(mode="after")
    def _one_size(self) -> Training:
        if (self.tokens_per_update is None) == (self.sentences_per_update is None):
            raise ValueError("give either tokens_per_update or sentences_per_update")
        return self
