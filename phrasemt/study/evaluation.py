"""How a study compares its systems, what its report analyses, and metrics of the user's own programs."""

from __future__ import annotations

import shlex
import string
from typing import Annotated, Literal

from pydantic import Field, model_validator

from phrasemt.fields import Name, Number, Positions, Settings, Title, UserPath

MOST_SAMPLES = 1_000_000
# The lowest p of so many samples is 2/(SAMPLES + 1). It stays below 0.01 when Holm multiplies it by up to 10 systems.
SAMPLES = 2_000
SEED = 12345  # as in sacreBLEU


class Comparison(Settings):
    """Paired bootstrap tests of the difference to a baseline (Koehn 2004)."""

    baseline: Name | None = Field(
        None,
        description="system that all others are compared with; null: the first system that translates, and for systems "
        "that stand for rows of a paper the one that stands for the baseline of that paper",
    )
    samples: Annotated[
        int, Field(gt=0), Number(at_most=MOST_SAMPLES, because="p-values need no more than thousands")
    ] = Field(SAMPLES, description="bootstrap samples")


class Analyses(Settings):
    """What the report shows beside scores."""

    lengths: list[Positions] = Field(
        [15, 30, 45],
        description="BLEU by length of the source: largest number of words of each group but the last (Xu et al., "
        "Figure 3)",
    )
    attention: Annotated[int, Field(ge=0), Number(at_most=1_000, because="the weights of a pair take a megabyte")] = (
        Field(3, description="sentence pairs of each test set whose attention weights are kept, one by one")
    )

    @model_validator(mode="after")
    def _lengths_increase(self) -> Analyses:
        if self.lengths != sorted(set(self.lengths)):
            raise ValueError(f"lengths must increase, found {self.lengths}")
        return self


class Metric(Settings):
    """A metric that a program of the user computes: a column of the table (phrasemt/scoring/external.py)."""

    command: str = Field(
        description="program and arguments, no shell; {hypotheses}, {references} and {sources} become files with one "
        "sentence per line. It writes one number per line to its standard output"
    )
    heading: Title | None = Field(None, description="heading of the column; null: the name of the metric")
    better: Literal["higher", "lower"] = Field("higher", description="which scores are the better ones")
    files: list[UserPath] = Field(
        default_factory=list, description="files that the command reads; a change of one runs the metric again"
    )

    @model_validator(mode="after")
    def _command_can_be_filled(self) -> Metric:
        known = ("hypotheses", "references", "sources")
        try:
            fields = [(word, *field) for word in self.words for _, *field in string.Formatter().parse(word)]
        except ValueError as error:
            raise ValueError(f"command: {error}; quotes are as in a shell, and {{{{ stands for a brace") from None
        for word, name, form, conversion in fields:
            if form or conversion:
                raise ValueError(f"command: a placeholder is a name in braces, found {word!r}")
            if name is not None and name not in known:
                allowed = ", ".join(f"{{{name}}}" for name in known)
                raise ValueError(f"command: no such placeholder: {{{name}}}, allowed: {allowed}")
            if name == "references" and word != "{references}":
                raise ValueError(f"command: {{references}} must be a word of its own, found {word!r}")
        if "hypotheses" not in {name for _, name, *_ in fields}:
            raise ValueError("command: no {hypotheses}, so it would not see the translations")
        return self

    @property
    def words(self) -> list[str]:
        """The words of the command, cut as by a shell."""
        return shlex.split(self.command)
