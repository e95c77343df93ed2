"""The settings of a phrase-based system of Moses (Koehn et al. 2007). Defaults are Moses' own, with two exceptions.

GIZA++ and MERT are Moses' defaults for the aligner and the tuner; here fast_align and batch MIRA are, so titles name
what a system has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from phrasemt.fields import Number, Settings
from phrasemt.study.rows import TableRow

_IN_MEMORY = "the decoder keeps all of them in memory"
Words = Annotated[int, Field(gt=0), Number(at_most=1_000, because="alignment of longer sentences takes hours")]
Runs = Annotated[int, Field(gt=1), Number(at_most=100, because="each run decodes dev")]
Size = Annotated[int, Field(gt=0), Number(at_most=10_000, because=_IN_MEMORY)]
Order = Annotated[int, Field(ge=2), Number(at_most=6, because="`make moses` builds KenLM for these orders")]

Casing = Literal["truecase", "lower"]


class MosesModel(Settings):
    """What is learnt from the training pairs."""

    family: Literal["moses"] = Field(description="model family")
    case: Casing = Field(
        "truecase",
        description="truecase: the first word of a sentence in the spelling that it has elsewhere, and translations "
        "begin in upper case; lower: all in lower case, for bleu_lc",
    )
    max_words: Words = Field(
        80, description="longest side of a pair that is aligned, in words; longer pairs are left out"
    )
    lm_order: Order = Field(4, description="order of the language model of the target side")

    @property
    def folder_name(self) -> str:
        """Options that differ from their defaults: the folder name of the files that systems with them share."""
        options = self.model_dump(mode="json", exclude={"family"}, exclude_defaults=True)
        return "_".join(f"{key}-{value}" for key, value in options.items()) or "default"


class Search(Settings):
    """Moses' stack decoding, without cube pruning."""

    stack: Size = Field(200, description="hypotheses for each number of translated words")
    distortion_limit: Annotated[int, Field(ge=0), Number(at_most=100, because="the search grows with it")] = Field(
        6, description="longest jump between two phrases, in words; 0: none"
    )


class Tuning(Settings):
    """Tuning of the weights of the features on dev."""

    tuner: Literal["mira", "mert"] = Field(
        "mira", description="batch MIRA (Cherry and Foster 2012), or MERT (Och 2003), Moses' default"
    )
    runs: Runs = Field(
        10, description="largest number of times that dev is decoded; tuning ends before when no weight changes"
    )


class MosesSystem(TableRow):
    """A phrase-based system of Moses: a row that stages of its own train, tune and translate."""

    model: MosesModel = Field(description="what is learnt from the training pairs")
    tuning: Tuning | None = Field(
        default_factory=Tuning, description="tuning of the weights; null: the weights that train-model.perl begins with"
    )
    decoding: Search = Field(default_factory=Search, description="search")

    def heading(self, name: str) -> str:
        """The title with the aligner and the tuner, unless they are GIZA++ and MERT, which "Moses" alone would mean."""
        parts: list[str] = ["fast_align"]
        if self.tuning is None:
            parts.append("untuned")
        elif self.tuning.tuner == "mira":
            parts.append("batch MIRA")
        return f"{self.title or name} ({', '.join(parts)})"

    def seeds_among(self, of_study: Sequence[int]) -> list[int]:
        """The seeds of the study, for the tuner; the first one for a system without tuning, which draws nothing."""
        return list(of_study if self.tuning else of_study[:1])
