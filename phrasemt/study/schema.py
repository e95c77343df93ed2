"""The study: all settings of an experiment with their types, allowed values, defaults, units and descriptions.

A study file is complete. Unknown keys are errors, and all mistakes of a file are reported at once. Settings of the
machine (cores, memory, GPUs, the size of micro-batches) belong to the profiles and never change a result.
`make schema` writes `workflow/schemas/study.schema.json` from `Study`.
"""

from __future__ import annotations

import difflib
import shlex
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticKnownError

from phrasemt.errors import did_you_mean
from phrasemt.fields import Name, Number, Positions, Probability, Seed, Settings, Title, Updates, UserPath, sections
from phrasemt.printed.results import baseline_place
from phrasemt.study.annotators import Chunker, Parser
from phrasemt.study.architectures import ModelSettings, PhraseSegmentation, own_settings
from phrasemt.study.datasets import Dataset, TargetChunks, keys_of
from phrasemt.study.presets import PRESETS, RENAMED, fill_in
from phrasemt.study.rows import MosesModel, MosesSystem, OutsideSystem, TableRow

Checkpoints = Annotated[int, Field(gt=0), Number(at_most=1_000, because="all these files of weights stay on the disk")]
_LARGE_UPDATE = "an update of so much text takes hours"


class Adam(Settings):
    """Adam with the Noam schedule: factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5)."""

    name: Literal["adam"] = Field("adam", description="Adam (Kingma and Ba 2015)")
    factor: Annotated[float, Field(gt=0), Number(at_most=1_000, because="no training survives such steps")] = Field(
        1.0, description="factor of the schedule (Nguyen et al.: 2)"
    )
    warmup: Updates = Field(8000, description="updates in which the learning rate grows linearly")


class Adadelta(Settings):
    """Adadelta, which needs no learning rate (Zeiler 2012; used by Zhou et al.)."""

    name: Literal["adadelta"] = Field(description="Adadelta")


def kind_of_optimizer(value: Any) -> str:
    """The class of an optimiser by its name (default: Adam), so that mistakes are reported for the right class."""
    return str(keys_of(value).get("name", "adam"))


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


MOST_HYPOTHESES = 1_000
Beam = Annotated[
    int, Field(gt=0), Number(at_most=MOST_HYPOTHESES, because="the memory and the time of a search grow with the beam")
]
_LONG_OUTPUT = "the memory of a search grows with the longest output"
Alpha = Annotated[float, Field(ge=0), Number(at_most=10, because="the length would decide alone")]


def known_preset(name: str) -> str:
    """The name of a preset. Raises PydanticKnownError for an unknown name."""
    if name not in PRESETS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, PRESETS))})
    return name


class Decoding(Settings):
    """Beam search, which ends with as many finished hypotheses as the beam is wide (fairseq)."""

    beam: Beam = Field(4, description="hypotheses per sentence")
    length_penalty: Alpha = Field(0.6, description="alpha of the length penalty")
    length_penalty_form: Literal["wu", "length"] = Field(
        "wu",
        description="wu: score / ((5+|Y|)/6)^alpha (Wu et al. 2016); length: score / |Y|^alpha (Zhou et al., alpha 1)",
    )
    max_length_factor: Annotated[float, Field(ge=0), Number(at_most=100, because=_LONG_OUTPUT)] = Field(
        1.0, description="longest output = factor * source length + max_length_extra, in subwords"
    )
    max_length_extra: Annotated[int, Field(gt=0), Number(at_most=10_000, because=_LONG_OUTPUT)] = Field(
        50, description="see max_length_factor"
    )
    n_best: Beam = Field(1, description="hypotheses per sentence in the output")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="type of weights and activations. bfloat16 is faster on GPUs and on CPUs with AMX; its rounding "
        "changes some translations. A device without bfloat16 units computes in float32. Sums of log-probabilities are "
        "always float32",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Decoding:
        if self.n_best > self.beam:
            raise ValueError(f"n_best ({self.n_best}) must not exceed beam ({self.beam})")
        return self


# The keys of each model family and optimiser, by its name.
_KEYS = {
    name: kind.model_fields.keys()
    for union, tag in ((ModelSettings, "family"), (Optimizer, "name"))
    for kind in sections(union)
    for name in typing.get_args(kind.model_fields[tag].annotation)
}
Preset = Annotated[str, AfterValidator(known_preset), Field(json_schema_extra={"enum": list(PRESETS)})]


class System(TableRow):
    """A model with its training and decoding: one row of the table."""

    preset: Preset | None = Field(
        None, description="system of a paper (phrasemt/study/presets.py); keys given here replace its values"
    )
    model: ModelSettings = Field(description="architecture")
    init_from: UserPath | None = Field(
        None,
        description="weights that the training starts from: a .safetensors file or a folder of `phrasemt export` for "
        "all seeds, or a folder that holds <seed>/averaged.safetensors, as the folder of a system in models/; names, "
        "shapes and vocabularies must agree (`subwords.reuse` takes over the vocabularies of an exported model). "
        "null: random weights",
    )
    seeds: list[Seed] | None = Field(
        None,
        min_length=1,
        description="the first seeds of the study, if it has more than the system needs; null: all seeds of the study",
    )
    training: Training = Field(default_factory=Training, description="training")
    decoding: Decoding = Field(default_factory=Decoding, description="beam search")
    controls: Annotated[
        Annotated[list[Name], Tag("made")] | Annotated[dict[Name, Name], Tag("named")],
        Discriminator(lambda value: "named" if isinstance(value, dict) else "made"),
    ] = Field(
        [],
        description="systems that show what a gain comes from, with the other settings of this one: same-size (as many "
        "parameters in use, without the addition), and of phrase representations no-phrases, random-trees, "
        "right-branching, with parses shuffled. Their names are <system>-<control>, or yours: {same-size: wide}; a "
        "system that has the name is taken as it is",
    )

    @property
    def translates(self) -> bool:
        return self.model.translates

    def named_controls(self, system: str) -> dict[str, str]:
        """The name of the system of each control. system: the name of this one."""
        if isinstance(self.controls, dict):
            return self.controls
        return {control: f"{system}-{control}" for control in self.controls}

    def as_control(self, control: str, heading: str) -> System:
        """The system of a control. heading: of this system."""
        model, title = self.model.own_controls[control]
        changes: dict[str, Any] = {"title": title.format(title=heading), "model": model, "preset": None}
        return self.model_copy(update={**changes, "stands_for": [], "controls": []})

    @model_validator(mode="after")
    def _has_such_controls(self) -> System:
        for control in self.controls:
            if control not in (known := self.model.own_controls):
                allowed = ", ".join(known) or "none"
                near = did_you_mean(control, known)
                raise ValueError(f"controls: found {control!r}, allowed for this model: {allowed}{near}")
        return self

    def seeds_among(self, of_study: Sequence[int]) -> list[int]:
        return self.seeds or list(of_study)

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        # A misspelt name is read as the nearest one, so that the typo is the only reported mistake.
        given = str(values["preset"])
        (preset,) = difflib.get_close_matches(RENAMED.get(given, given), PRESETS, n=1, cutoff=0)
        family = keys_of(values.get("model")).get("family")
        own = own_settings(family)
        return fill_in(values, PRESETS[preset], _KEYS if own is None else _KEYS | {family: own.model_fields.keys()})

    @model_validator(mode="after")
    def _is_searched(self) -> System:
        if not self.model.translates and "decoding" in self.model_fields_set:
            raise ValueError("decoding has no effect, because a language model does not translate")
        return self


def kind_of_system(value: Any) -> str:
    """The class of a system by its keys, so that mistakes are reported for the right class."""
    keys = keys_of(value)
    if "translations" in keys:
        return "outside"
    return "phrase_based" if keys_of(keys.get("model")).get("family") == "moses" else "trained"


AnySystem = Annotated[
    Annotated[System, Tag("trained")]
    | Annotated[OutsideSystem, Tag("outside")]
    | Annotated[MosesSystem, Tag("phrase_based")],
    Discriminator(kind_of_system),
]


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


_COMET = ".comet"  # the environment that `make comet` makes, with its models
_COMET_PROGRAM = "envs/comet_score.py"


class Metric(Settings):
    """A metric that a program computes: a column of the table (phrasemt/scoring/external.py)."""

    model: str | None = Field(
        None,
        description="model of COMET, in place of a command: a checkpoint (.ckpt), or a name such as "
        "Unbabel/wmt22-comet-da, which `make comet MODEL=NAME` fetches",
    )
    command: str = Field(
        "",
        description="program and arguments, no shell; {hypotheses}, {references} and {sources} become files with one "
        "sentence per line. It writes one number per line to its standard output",
    )
    heading: Title | None = Field(None, description="heading of the column; null: the name of the metric")
    better: Literal["higher", "lower"] = Field("higher", description="which scores are the better ones")
    files: list[UserPath] = Field(
        default_factory=list,
        description="files that the command reads besides those that it names; a change of one runs the metric again",
    )

    @model_validator(mode="before")
    @classmethod
    def _program_of_comet(cls, values: Any) -> Any:
        """Fill in what a model of COMET says."""
        if not isinstance(values, dict) or not isinstance(model := values.get("model"), str):
            return values
        if values.get("command"):
            raise ValueError("give a `model` of COMET or a `command`, not both")
        name = model if model.endswith(".ckpt") else f"{_COMET}/models/{model}/checkpoints/model.ckpt"
        checkpoint = Path(name)
        command = f"{_COMET}/bin/python {_COMET_PROGRAM} score {shlex.quote(name)}"
        return {
            "heading": f"COMET {checkpoint.absolute().parents[1].name}",
            **values,
            "command": f"{command} {{sources}} {{hypotheses}} {{references}}",
            "files": [_COMET_PROGRAM, checkpoint],
        }

    @model_validator(mode="after")
    def _command_can_be_filled(self) -> Metric:
        known = ("hypotheses", "references", "sources")
        try:
            words = self.words
            self.command.format(**dict.fromkeys(known, ""))
        except ValueError as error:
            raise ValueError(f"command: {error}; quotes are as in a shell, and {{{{ stands for a brace") from None
        except LookupError as error:
            allowed = ", ".join(f"{{{name}}}" for name in known)
            raise ValueError(f"command: no such placeholder: {{{error.args[0]}}}, allowed: {allowed}") from None
        if not words:
            raise ValueError("give a `command`, or a `model` of COMET")
        if "{hypotheses}" not in self.command:
            raise ValueError("command: no {hypotheses}, so it would not see the translations")
        for word in words:
            if "{references}" in word and word != "{references}":
                raise ValueError(f"command: {{references}} must be a word of its own, found {word!r}")
        return self

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def files_read(self) -> list[Path]:
        """`files`, and your own files that the command names, such as its program."""
        words = [] if self.model else [Path(word) for word in self.words]
        named = [word for word in words if not word.is_absolute() and word.is_file()]
        return list(dict.fromkeys([*self.files, *named]))


class Study(Settings):
    """An experiment: data sets x systems x seeds."""

    study: Name = Field(description="name; results are in results/<study>/")
    title: Title | None = Field(None, description="heading of table and report")
    seeds: list[Seed] = Field(
        [1],
        min_length=1,
        max_length=1000,
        description="seeds; a system is trained once per seed, unless its own `seeds` names fewer",
    )
    datasets: dict[Name, Dataset] = Field(min_length=1, description="data sets by name")
    systems: dict[Name, AnySystem] = Field(min_length=1, description="systems by name, in the order of the table")
    parsers: dict[Name, Parser] = Field(default_factory=dict, description="constituency parsers by name")
    chunkers: dict[Name, Chunker] = Field(default_factory=dict, description="chunk taggers by name")
    comparison: Comparison = Field(default_factory=Comparison, description="significance tests")
    metrics: dict[Name, Metric] = Field(
        default_factory=dict, description="metrics of your own programs, by name, for systems that translate"
    )

    @field_validator("systems")
    @classmethod
    def _with_controls(cls, systems: dict[str, AnySystem]) -> dict[str, AnySystem]:
        """Put the controls that the study has not yet below their systems."""
        with_controls: dict[str, AnySystem] = {}
        for name, system in systems.items():
            with_controls[name] = system
            if isinstance(system, System):
                for control, named in system.named_controls(name).items():
                    if named not in systems and named not in with_controls:
                        with_controls[named] = system.as_control(control, system.heading(name))
        return with_controls

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        if problems := [*self._problems_of_systems(), *self._problems_of_texts(), *self._problems_of_models()]:
            raise ValueError("\n".join(problems))
        return self

    def _problems_of_systems(self) -> Iterator[str]:
        for name, outside in self.outside.items():
            yield from (f"systems.{name}.{problem}" for problem in outside.problems(self.datasets))
        if len(set(self.seeds)) != len(self.seeds):
            yield f"seeds contains a value twice: {self.seeds}"
        for name, system in self.models.items():
            if system.seeds is not None and system.seeds != self.seeds[: len(system.seeds)]:
                yield (
                    f"systems.{name}.seeds is {system.seeds}, expected the first seed or seeds of the study, "
                    f"{self.seeds}"
                )
        titles: dict[str, str] = {}
        for name, title in self.titles.items():
            if (same_title := titles.setdefault(title, name)) != name:
                yield f"systems.{name} and systems.{same_title} have the same title: {title!r}"
        allowed = self.translating or list(self.systems)
        if self.baseline not in allowed:
            why = " (a language model does not translate)" if self.baseline in self.systems else ""
            yield f"comparison.baseline is {self.baseline!r}, allowed: {', '.join(allowed)}{why}"
        for name, others in self.controls.items():
            for other in others:
                if other == name or other not in self.models:
                    yield f"systems.{name}.controls names {other!r}, expected another system that is trained"

    def _problems_of_texts(self) -> Iterator[str]:
        if both := self.parsers.keys() & self.chunkers.keys():
            yield f"a parser and a chunker are both called {sorted(both)[0]!r}; names must differ"
        for name, dataset in self.datasets.items():
            yield from (f"datasets.{name}.{problem}" for problem in self._dataset_problems(dataset))
        for name, annotator in self.annotators.items():
            where = f"parsers.{name}" if name in self.parsers else f"chunkers.{name}"
            named = [("train", text.generated) for _, text in annotator.texts if text.generated]
            if isinstance(annotator, Parser) and annotator.generated:
                named.append(("generated", annotator.generated))
            for key, generated in dict.fromkeys(named):
                if generated not in self.datasets or self.datasets[generated].generator is None:
                    yield f"{where}.{key} names {generated!r}, which is not a data set with a generator"

    def _problems_of_models(self) -> Iterator[str]:
        for name, system in self.models.items():
            model, phrases = system.model, system.model.source_phrases
            if phrases and self.segmentations[phrases.folder_name] != phrases:
                yield (
                    f"systems.{name}.model.phrase.given is {str(phrases.given)!r}, and another system has a folder of "
                    "the same name; phrase columns are named by it"
                )
            for of_dataset, dataset in self.datasets.items():
                where = f"datasets.{of_dataset}"
                if phrases and phrases.reads_parses and dataset.source_parser is None:
                    yield f"systems.{name}.model.phrase.mode is {phrases.mode!r}, which needs {where}.source_parser"
                if model.reads_chunks and dataset.target_chunks is None:
                    yield f"systems.{name}.model.family is {model.family!r}, which needs {where}.target_chunks"
                if model.one_vocabulary and not dataset.subwords.shared_vocabulary:
                    yield f"systems.{name}.model.tie is 'all', which needs {where}.subwords.shared_vocabulary: true"
        if not self.models and not self.phrase_based:
            yield "systems: no system is trained; give one a model (`phrasemt score` compares files)"

    @property
    def models(self) -> dict[str, System]:
        """The systems that are trained here, apart from those of Moses."""
        return {name: system for name, system in self.systems.items() if isinstance(system, System)}

    @property
    def outside(self) -> dict[str, OutsideSystem]:
        return {name: system for name, system in self.systems.items() if isinstance(system, OutsideSystem)}

    @property
    def phrase_based(self) -> dict[str, MosesSystem]:
        return {name: system for name, system in self.systems.items() if isinstance(system, MosesSystem)}

    @property
    def controls(self) -> dict[str, list[str]]:
        """The systems that are controls of others, by the name of the other."""
        return {
            name: list(system.named_controls(name).values()) for name, system in self.models.items() if system.controls
        }

    @property
    def phrase_models(self) -> dict[str, MosesModel]:
        """What systems of Moses learn from training pairs, by the name of its folder; systems share equal ones."""
        return {system.model.folder_name: system.model for system in self.phrase_based.values()}

    @property
    def titles(self) -> dict[str, str]:
        return {name: row.heading(name) for name, row in self.systems.items()}

    def seeds_of(self, system: str) -> list[int]:
        return self.systems[system].seeds_among(self.seeds)

    @property
    def pool_groups(self) -> dict[str, str]:
        """Of each system, what its family says; of systems that are no models of ours, `other`."""
        return {name: self.models[name].model.pool_group if name in self.models else "other" for name in self.systems}

    @property
    def repeated(self) -> list[str]:
        return [name for name in self.translating if len(self.seeds_of(name)) > 1]

    @property
    def annotators(self) -> dict[str, Parser | Chunker]:
        return {**self.parsers, **self.chunkers}

    @property
    def segmentations(self) -> dict[str, PhraseSegmentation]:
        of_systems = [system.model.source_phrases for system in self.models.values()]
        return {segmentation.folder_name: segmentation for segmentation in of_systems if segmentation is not None}

    def _dataset_problems(self, dataset: Dataset) -> Iterator[str]:
        chunks = dataset.target_chunks or TargetChunks(origin="gold")
        yield from (f"language: {name} translates, which needs two" for name in self.translating if dataset.language)
        places: list[tuple[str, str | None, Mapping[str, Parser | Chunker], str]] = [
            ("source_parser", dataset.source_parser, self.parsers, dataset.source_language),
            ("target_chunks.chunker", chunks.chunker, self.chunkers, dataset.target_language),
        ]
        for key, name, known, language in places:
            if name is not None and name not in known:
                yield f"{key} is {name!r}, allowed: {', '.join(known) or 'none, since the study has none'}"
            elif name is not None and known[name].language != language:
                yield f"{key} is {name!r}, which is for {known[name].language!r} and not {language!r}"
        if dataset.target_chunks and chunks.origin == "gold" and dataset.generator is None:
            yield "target_chunks.origin is 'gold', but only a generator has gold chunks"

    @property
    def baseline(self) -> str:
        return self.comparison.baseline or next(iter(self.translating or self.systems))

    def baseline_of(self, system: str) -> str:
        """The system that a row is compared with.

        It is the one that the study names. Without a name: the one that stands for the baseline of the row's paper, if
        there is one; otherwise, and for the baseline of a paper itself, the baseline of the study.
        """
        own = self.systems[system].stands_for
        same_kind = self.translating if system in self.translating else self.language_models
        for place in [] if self.comparison.baseline else map(baseline_place, own):
            for name in same_kind:
                if place not in own and place in self.systems[name].stands_for:
                    return name
        return self.baseline

    @property
    def baselines(self) -> dict[str, str]:
        of_systems = {name: self.baseline_of(name) for name in self.systems}
        return {name: baseline for name, baseline in of_systems.items() if name != baseline}

    @property
    def translating(self) -> list[str]:
        return [name for name, system in self.systems.items() if system.translates]

    @property
    def language_models(self) -> list[str]:
        return [name for name, system in self.systems.items() if not system.translates]

    @property
    def forced(self) -> list[str]:
        """Systems whose probabilities of the references are compared; a decoder of chunks is given those of them."""
        return [name for name in self.translating if name in self.models and name not in self.chunking]

    @property
    def chunking(self) -> list[str]:
        return [name for name in self.models if self.models[name].model.reads_chunks]
