"""The declaration of a stage: everything about it but its code and its rule.

A stage is one class here, one function `<name>` in its module, one subcommand and one rule, all of one name. It turns
input files into output files under settings that are a small part of the study.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from phrasemt.fields import Settings
from phrasemt.study.architectures import Architecture, ModelInputs, ModelSettings
from phrasemt.study.schema import Study

Wildcards = Mapping[str, str]


class Stage(Settings):
    """Base of all declarations. The fields of a subclass are the settings that its function reads.

    Settings are data: a rule passes them to the subcommand as JSON, and they decide whether a finished artefact is
    still valid. A function reads their fields only. A value that is computed from the study is computed in `from_study`
    and is a field, so that a change of the computation is a change of the settings.
    """

    module: ClassVar[str]
    """Module of the function `<name>(*, settings, <inputs>, <outputs>, <folders>, cores)`."""
    job_name: ClassVar[str] = ""
    """Pattern of wildcards that tells the jobs of the stage apart, in logs and displays; empty: there is one job."""
    inputs: ClassVar[tuple[str, ...]] = ()
    """Names of input files; a name that ends in `*` is a list of files (the function's argument has no `*`)."""
    outputs: ClassVar[tuple[str, ...]] = ()
    """Names of output files."""
    folders: ClassVar[Mapping[str, str]] = {}
    """Folders that stay between runs and are neither inputs nor outputs: name -> place in the command of a rule."""
    resumes: ClassVar[bool] = False
    """Whether the stage may run in several processes and may stop before its end, to continue in the next run. Its
    function then takes `processes` and `minutes`, too."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions stand in the sidecars of the outputs."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs of Moses that the stage runs, whose checksums stand in the sidecars of the outputs."""
    cached: ClassVar[bool] = False
    """Whether the cache that studies share keeps the outputs (phrasemt/workflow/cache.py)."""
    located: ClassVar[tuple[str, ...]] = ()
    """Inputs whose paths the stage writes into an output; the paths then belong to the key in the cache."""

    @classmethod
    def stage_name(cls) -> str:
        """The name of the stage: TrainModel is train_model."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def from_study(cls, study: Study, wildcards: Wildcards) -> Self:
        """The settings of the stage in a study for a job's wildcards."""
        return cls()

    def chosen_module(self) -> str | None:
        """The module that the settings choose (a family of models, a segmenter); its code belongs to the stage."""
        return None

    def code_modules(self) -> tuple[str, ...]:
        """The modules whose code, with all that they import, decides the outputs."""
        chosen = self.chosen_module()
        return (self.module, chosen) if chosen else (self.module,)

    def cache_key(self, made_of: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The facts that decide the outputs, for the key in the cache; None: the cache does not keep these outputs.

        made_of: inputs, settings, code and versions of the outputs (phrasemt/workflow/cache.py).
        """
        return made_of


class ModelStage(Stage):
    """Base of the stages that run a model. The code of the model's family belongs to the code of the stage."""

    model: ModelSettings
    reads: ModelInputs

    @staticmethod
    def of_model(model: Architecture) -> dict[str, Any]:
        """The values of these fields: the part of the model's settings that its weights depend on, and its inputs."""
        return {"model": model.trained_part, "reads": model.model_inputs}

    def chosen_module(self) -> str:
        return f"phrasemt.models.{self.model.family}"


def flag(name: str) -> str:
    """The command line's flag for an input, output or folder of a stage."""
    return "--" + name.rstrip("*").replace("_", "-")
