"""`phrase` of a model: how a source is cut into phrases."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from phrasemt.fields import Positions, Settings, UserPath, refuse
from phrasemt.phrase_modes import PHRASE_MODES


class PhraseSegmentation(Settings):
    """The segmentation of a source into the phrases of Xu et al. (X1 to X3).

    L is the number of encoder positions, `</s>` included. n = max(min(ntok_max, ceil(L/ntok_div)), ntok_min) is the
    length of n-gram phrases, and the largest length of phrases from trees.
    """

    mode: Literal["ngram", "parse", "random", "right", "shuffled", "given", "none"] = Field(
        "ngram",
        description="ngram: phrases of n tokens; parse: Algorithm 1 on parses; random, right: Algorithm 1 on random "
        "binary trees or on right-branching trees; shuffled: the phrase lengths of parse in random order; given: the "
        "phrases that you give; none: no phrases, the attended phrases of eq. 8 are 0, a control for its network (X24)",
    )
    ntok_div: Positions = Field(6, description="divisor of L")
    ntok_min: Positions = Field(3, description="smallest n")
    ntok_max: Positions = Field(8, description="largest n")
    ntok_scope: Literal["sentence", "batch"] = Field(
        "sentence",
        description="L of a sentence: its own length, or the padded length of its batch (Neutron; X3). With batch, "
        "scores depend on the other sentences of the batch",
    )
    given: UserPath | None = Field(
        None, description="mode given: folder of <dataset>/<split>.txt, with the phrase ends of each raw pair, in words"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> PhraseSegmentation:
        problems = []
        if self.ntok_min > self.ntok_max:
            problems.append(f"ntok_min ({self.ntok_min}) must not exceed ntok_max ({self.ntok_max})")
        mode = PHRASE_MODES[self.mode]
        if mode.reads_given != (self.given is not None):
            problems.append("the folder `given` must be set with mode: given, and only with it")
        for key in PhraseSegmentation.model_fields:
            if key not in {"mode", "given", *mode.keys} and self.differs(key):
                modes = ", ".join(name for name, other in PHRASE_MODES.items() if key in other.keys)
                problems.append(f"{key} has no effect in mode {self.mode}, only in {modes}")
        refuse(problems)
        return self

    @property
    def reads_parses(self) -> bool:
        return PHRASE_MODES[self.mode].reads_parses

    @property
    def has_columns(self) -> bool:
        """Whether models read the phrases from columns of `extract_phrases`."""
        return PHRASE_MODES[self.mode].stored

    @property
    def folder_name(self) -> str:
        """The mode and all options that differ from their defaults: the folder name of the phrase columns."""
        options = [
            f"{key}-{value}"
            for key, value in self.model_dump(mode="json", exclude={"mode", "given"}, exclude_defaults=True).items()
        ]
        folder = [re.sub(r"[^a-zA-Z0-9.+-]", "-", self.given.name)] if self.given else []
        return "_".join([self.mode, *folder, *options])
