"""What papers say in sentences: claims, each with the measurements that speak for or against it.

They stand in the files of the papers beside the printed figures. phrasemt/report/claims.py has a function for each
analysis that a measurement names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from phrasemt.fields import Name, Number, Settings, Title

Hedge = Literal["none", "speculation", "inference", "deontic"]
AnalysisName = Literal[
    "table", "parameters", "training time", "contrasts", "lengths", "length growth", "phrase mass", "entropy",
    "level weights", "overfitting", "over-translation",
]  # fmt: skip
Limit = Annotated[float, Number()]


class Range(Settings):
    """Numbers from low to high, both included; None: no limit."""

    low: Limit | None = None
    high: Limit | None = None

    @model_validator(mode="after")
    def _has_numbers(self) -> Range:
        if (self.low, self.high) == (None, None):
            raise ValueError("low or high is needed")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low ({self.low}) exceeds high ({self.high})")
        return self

    def holds(self, low: float, high: float) -> bool:
        """Whether all numbers from `low` to `high` are in the range."""
        return (self.low is None or low >= self.low) and (self.high is None or high <= self.high)

    def misses(self, low: float, high: float) -> bool:
        """Whether no number from `low` to `high` is in the range."""
        return (self.low is not None and high < self.low) or (self.high is not None and low > self.high)

    @property
    def told(self) -> str:
        """The range in words."""
        if self.low is None:
            return f"at most {self.high:g}"
        return f"at least {self.low:g}" if self.high is None else f"{self.low:g} to {self.high:g}"


class Measured(Settings):
    """A measurement for a claim: an analysis of a system, often compared with that of another system.

    row, than: rows of the paper, `table/row`, that systems stand for; than: None for the figure of one system.
    expected: where the figure lies if the claim holds; of two systems their difference, of costs their ratio.
    measure: analysis table, the measure of the paper. words: analyses lengths and contrasts, the group in words.
    mistake: analysis contrasts, the kind. layer: analysis phrase mass, one layer of all. places: analysis entropy, the
    attentions (phrasemt/files/attention.py); than_places: others of the same system, with which they are compared.
    """

    analysis: AnalysisName
    row: str
    than: str | None = None
    expected: Range
    measure: Name | None = None
    words: Range | None = None
    mistake: Name | None = None
    layer: Literal["middle", "top"] | None = None
    places: list[Name] = Field(default_factory=list)
    than_places: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits_the_analysis(self) -> Measured:
        needed = {"table": "measure", "lengths": "words", "entropy": "places"}.get(self.analysis)
        if needed and not getattr(self, needed):
            raise ValueError(f"the analysis {self.analysis!r} needs {needed}")
        if self.than is None and self.analysis in ("parameters", "training time"):
            raise ValueError(f"the analysis {self.analysis!r} is a ratio and needs `than`")
        return self


class Claim(Settings):
    """A claim of a paper. content: in our words. hedge: how the paper qualifies it. where: in the paper.

    evidence: what would be evidence for it. measured: how it is measured.
    """

    content: Title
    hedge: Hedge
    where: Title
    evidence: Title
    measured: list[Measured] = Field(min_length=1)
