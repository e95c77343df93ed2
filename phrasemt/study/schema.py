"""The study: all settings of an experiment with their types, allowed values, defaults, units and descriptions.

A study file is complete. Unknown keys are errors, and all mistakes of a file are reported at once. Settings of the
machine (cores, memory, GPUs, the size of micro-batches) belong to the profiles and never change a result.
`phrasemt schema` generates `workflow/schemas/study.schema.json` from this module.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticKnownError

from phrasemt.fields import (
    Name,
    Number,
    Positions,
    Probability,
    Seed,
    Settings,
    Title,
    Updates,
    refuse,
    sections,
)
from phrasemt.study.annotators import Chunker, Parser
from phrasemt.study.architectures import ModelSettings, PhraseSegmentation
from phrasemt.study.datasets import Dataset, TargetChunks
from phrasemt.study.places import PaperRowPlace
from phrasemt.study.presets import PRESETS, fill_in

Beam = Annotated[
    int, Field(gt=0), Number(at_most=1_000, because="the memory and the time of a search grow with the beam")
]
Checkpoints = Annotated[int, Field(gt=0), Number(at_most=1_000, because="all these files of weights stay on the disk")]
Epsilon = Annotated[float, Field(gt=0), Number(at_most=1, because="a larger number would decide the steps alone")]
_LARGE_UPDATE = "an update of so much text takes hours"
_LONG_OUTPUT = "the memory of a search grows with the longest output"

# ------------------------------------------------------------------------------------------------------------- systems


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


def known_preset(name: str) -> str:
    """The name of a preset. Raises PydanticKnownError for an unknown name."""
    if name not in PRESETS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, PRESETS))})
    return name


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
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="type of matrix products and their operands; weights and sums are always float32"
    )
    evaluate_every: Updates = Field(1500, description="updates between two evaluations on dev")
    checkpoint_every: Updates = Field(1500, description="updates between two checkpoints")
    average_last: Checkpoints = Field(5, description="average the weights of this many last checkpoints")
    average_best: Checkpoints | None = Field(
        None,
        description="instead of average_last: average this many checkpoints with the best dev scores; every evaluation "
        "then writes a checkpoint",
    )
    average: Literal["all", "auto"] = Field(
        "all",
        description="all: the mean of all these checkpoints, as in the papers; auto: of the last n of them, with the n "
        "from 1 to average_last that has the best dev score (best_by)",
    )
    average_decay: Annotated[float, Field(gt=0, lt=1), Number()] | None = Field(
        None,
        description="decay of an exponential average of the weights, which evaluations and checkpoints then use; "
        "null: they use the weights themselves",
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

    @model_validator(mode="after")
    def _last_ones_to_choose_from(self) -> Training:
        if self.average == "auto" and self.average_best is not None:
            raise ValueError("average: auto chooses among the last checkpoints; give average_last, not average_best")
        return self


class Sampling(Settings):
    """Translations drawn from the model's distribution. Draws depend on seed and sentence, never on batches."""

    temperature: Annotated[float, Field(gt=0), Number(at_most=100, because="draws would not depend on the model")] = (
        Field(1.0, description="divisor of the logits: below 1 likely words become likelier")
    )
    top_k: Beam | None = Field(None, description="draw from this many likeliest words only; null: all words")
    top_p: Annotated[float, Field(gt=0), Number(at_most=1, because="it is a probability")] = Field(
        1.0, description="draw from the fewest likeliest words that have this probability together (nucleus sampling)"
    )
    seed: Seed = Field(1, description="seed of the draws")


class Decoding(Settings):
    """Beam search, or sampling."""

    beam: Beam = Field(4, description="hypotheses per sentence")
    length_penalty: Annotated[float, Field(ge=0), Number(at_most=10, because="the length would decide alone")] = Field(
        0.6, description="alpha of the length penalty"
    )
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
    n_best: Beam = Field(1, description="hypotheses per sentence in the output; with sampling: draws per sentence")
    stopping: Literal["fairseq", "admissible"] = Field(
        "fairseq",
        description="end of a search. fairseq: with as many finished hypotheses as the beam is wide; admissible: when "
        "no open hypothesis can overtake the n_best finished ones",
    )
    min_length: Annotated[int, Field(ge=0), Number(at_most=10_000, because=_LONG_OUTPUT)] = Field(
        0, description="shortest output, in subwords"
    )
    prefix: str = Field(
        "",
        description="subwords, separated by blanks, that every output begins with; the model continues them, and they "
        "count in scores",
    )
    sampling: Sampling | None = Field(None, description="draw translations in place of beam search")
    ensemble: list[Seed] | None = Field(
        None,
        min_length=2,
        description="seeds whose models translate together: the probability of a word is the mean over them. Needs "
        "weights_of; the row has one translation, and not one for each seed",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="type of weights and activations; bfloat16 is faster on CPUs and GPUs with units for it, and its "
        "rounding changes some translations. Sums of log-probabilities are always float32",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Decoding:
        problems = []
        if self.sampling is not None:
            problems = [f"{key} has no effect with sampling" for key in ("beam", "stopping") if self.differs(key)]
        elif self.n_best > self.beam:
            problems.append(f"n_best ({self.n_best}) must not exceed beam ({self.beam})")
        if self.max_length_factor == 0 and self.min_length > self.max_length_extra:
            problems.append(
                f"min_length ({self.min_length}) must not exceed the longest output ({self.max_length_extra})"
            )
        if self.ensemble is not None and len(set(self.ensemble)) != len(self.ensemble):
            problems.append(f"ensemble contains a seed twice: {self.ensemble}")
        refuse(problems)
        return self


# The keys of each model family and optimiser, by its name.
_KEYS = {
    name: kind.model_fields.keys()
    for union, tag in ((ModelSettings, "family"), (Optimizer, "name"))
    for kind in sections(union)
    for name in typing.get_args(kind.model_fields[tag].annotation)
}
Preset = Annotated[str, AfterValidator(known_preset), Field(json_schema_extra={"enum": list(PRESETS)})]


class System(Settings):
    """A model with its training and decoding: one row of the table."""

    title: Title | None = Field(None, description="name in the table; default: the key of the system")
    preset: Preset | None = Field(
        None, description="system of a paper (phrasemt/study/presets.py); keys given here replace its values"
    )
    model: ModelSettings = Field(description="architecture")
    init_from: Path | None = Field(
        None,
        description="weights that the training starts from: a .safetensors file or a folder of `phrasemt export` for "
        "all seeds, or a folder that holds <seed>/averaged.safetensors, as the folder of a system in models/; names, "
        "shapes and vocabularies must agree (`subwords.reuse` takes over the vocabularies of an exported model). "
        "null: random weights",
    )
    weights_of: list[Name] = Field(
        [],
        description="systems whose trained models translate for this row, which trains nothing: with another decoding, "
        "or several together as an ensemble. Keys of decoding that are not given are those of the first of them",
    )
    training: Training = Field(default_factory=Training, description="training")
    decoding: Decoding = Field(default_factory=Decoding, description="beam search")
    stands_for: list[PaperRowPlace] = Field(
        [],
        description="rows of papers that the system reproduces, e.g. [xu2020/table-2/max] (`phrasemt papers`); the "
        "scorecard shows their figures beside ours",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        # A misspelt name is read as the nearest one, so that the typo is the only reported mistake.
        (preset,) = difflib.get_close_matches(str(values["preset"]), PRESETS, n=1, cutoff=0)
        return fill_in(values, PRESETS[preset], _KEYS)

    @model_validator(mode="after")
    def _ensemble_of_others(self) -> System:
        if self.decoding.ensemble is not None and not self.weights_of:
            raise ValueError("decoding.ensemble needs weights_of, because a row that trains has a score for each seed")
        return self

    @model_validator(mode="after")
    def _is_searched(self) -> System:
        if not self.model.translates and "decoding" in self.model_fields_set:
            raise ValueError("decoding has no effect, because a language model does not translate")
        return self


class Comparison(Settings):
    """Paired bootstrap tests of the difference to a baseline (Koehn 2004)."""

    baseline: Name | None = Field(None, description="name of the baseline; default: the first system that translates")
    samples: Annotated[int, Field(gt=0), Number(at_most=1_000_000, because="p-values need no more than thousands")] = (
        Field(1000, description="bootstrap samples")
    )
    seed: Seed = Field(12345, description="seed of the resampling")


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


class Study(Settings):
    """An experiment: data sets x systems x seeds."""

    study: Name = Field(description="name; results are in results/<study>/")
    title: Title | None = Field(None, description="heading of table and report")
    seeds: list[Seed] = Field(
        [1], min_length=1, max_length=1000, description="seeds; each system is trained once per seed"
    )
    datasets: dict[Name, Dataset] = Field(min_length=1, description="data sets by name")
    systems: dict[Name, System] = Field(min_length=1, description="systems by name, in the order of the table")
    parsers: dict[Name, Parser] = Field(default_factory=dict, description="constituency parsers by name")
    chunkers: dict[Name, Chunker] = Field(default_factory=dict, description="chunk taggers by name")
    comparison: Comparison = Field(default_factory=Comparison, description="significance tests")
    analyses: Analyses = Field(default_factory=Analyses, description="analyses beside scores")
    cache: Path = Field(
        Path("resources/cache"),
        description="folder of parses and of outputs of the stages before training, which studies and users can "
        "share; the environment variable PHRASEMT_CACHE replaces it. Changes no result",
    )
    mirror: Path | None = Field(
        None,
        description="folder of copies of corpora, <mirror>/<corpus>/<file>; the environment variable PHRASEMT_MIRROR "
        "replaces it. Changes no result",
    )

    @model_validator(mode="before")
    @classmethod
    def _rows_of_other_weights(cls, values: Any) -> Any:
        """Give systems with weights_of the model and the decoding of the first system that they name."""
        systems = values.get("systems") if isinstance(values, dict) else None
        if not isinstance(systems, dict):
            return values
        problems, filled = [], dict(systems)
        for name, system in systems.items():
            named = system.get("weights_of") if isinstance(system, dict) else None
            if not isinstance(named, list) or not named:
                continue
            where = f"systems.{name}.weights_of"
            trained = [
                other for other, found in systems.items() if isinstance(found, dict) and "weights_of" not in found
            ]
            problems += [
                f"systems.{name}.{key} has no effect with weights_of, because nothing is trained"
                for key in ("model", "preset", "training", "init_from")
                if key in system
            ]
            problems += [
                f"{where} names {other!r}, allowed: systems that are trained ({', '.join(trained)})"
                for other in named
                if other not in trained
            ]
            if len(set(map(str, named))) != len(named):
                problems.append(f"{where} names a system twice")
            if not problems:
                first = systems[named[0]]
                shared = {key: first[key] for key in ("preset", "model", "training") if key in first}
                own, others = (found.get("decoding") or {} for found in (system, first))
                if "sampling" in own:  # keys of the beam search that it replaces
                    others = {key: value for key, value in others.items() if key not in ("beam", "stopping")}
                decoding = {**others, **own}
                filled[name] = {**shared, **system, "decoding": decoding}
        refuse(problems)
        return {**values, "systems": filled}

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        problems = [
            f"systems.{name}.{problem}" for name in self.systems for problem in self._problems_of_other_weights(name)
        ]
        if len(set(self.seeds)) != len(self.seeds):
            problems.append(f"seeds contains a value twice: {self.seeds}")
        titles: dict[str, str] = {}
        for name, system in self.systems.items():
            first = titles.setdefault(system.title or name, name)
            if first != name:
                problems.append(f"systems.{name} and systems.{first} have the same title: {system.title or name!r}")
        allowed = self.translating or list(self.systems)
        if self.baseline not in allowed:
            why = " (a language model does not translate)" if self.baseline in self.systems else ""
            problems.append(f"comparison.baseline is {self.baseline!r}, allowed: {', '.join(allowed)}{why}")
        if both := self.parsers.keys() & self.chunkers.keys():
            problems.append(f"a parser and a chunker are both called {sorted(both)[0]!r}; names must differ")
        for dataset_name, dataset in self.datasets.items():
            problems += [f"datasets.{dataset_name}.{problem}" for problem in self._syntax_problems(dataset)]
        for name, annotator in self.annotators.items():
            where = f"parsers.{name}" if name in self.parsers else f"chunkers.{name}"
            for generated in {text.generated: None for _, text in annotator.texts if text.generated}:
                if generated not in self.datasets or self.datasets[generated].generator is None:
                    problems.append(f"{where}.train names {generated!r}, which is not a data set with a generator")
        for name, system in self.systems.items():
            used = system.model.source_phrases
            if used and self.segmentations[used.folder_name] != used:
                problems.append(
                    f"systems.{name}.model.phrase.given is {str(used.given)!r}, and another system has a folder of the "
                    "same name; phrase columns are named by it"
                )
            for dataset_name, dataset in self.datasets.items():
                phrases = system.model.source_phrases
                if phrases and phrases.reads_parses and dataset.source_parser is None:
                    problems.append(
                        f"systems.{name}.model.phrase.mode is {phrases.mode!r}, which needs "
                        f"datasets.{dataset_name}.source_parser"
                    )
                if system.model.reads_chunks and dataset.target_chunks is None:
                    problems.append(
                        f"systems.{name}.model.family is {system.model.family!r}, which needs "
                        f"datasets.{dataset_name}.target_chunks"
                    )
                if system.model.one_vocabulary and not dataset.subwords.shared_vocabulary:
                    problems.append(
                        f"systems.{name}.model.tie is 'all', which needs "
                        f"datasets.{dataset_name}.subwords.shared_vocabulary: true"
                    )
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems_of_other_weights(self, name: str) -> Iterator[str]:
        system = self.systems[name]
        if not system.weights_of:
            return
        members = [self.systems[other] for other in system.weights_of]
        seeds = system.decoding.ensemble
        if seeds is not None and (missing := [seed for seed in seeds if seed not in self.seeds]):
            yield f"decoding.ensemble names seed {missing[0]}, allowed: the seeds of the study, {self.seeds}"
        if seeds is None and len(members) == 1 and system.decoding == members[0].decoding:
            yield f"weights_of: the row would repeat {system.weights_of[0]}; change a key of decoding"
        if any(not member.model.translates for member in members):
            yield "weights_of: a language model does not translate"
        if (seeds is not None or len(members) > 1) and any(member.model.reads_chunks for member in members):
            yield "weights_of: members of an ensemble would decide about different chunks of one translation"
        if len({member.model.source_begins_with_bos for member in members}) > 1:
            yield "weights_of: some of these systems read `<s>` in front of sources (src_bos) and some do not"
        phrases = [member.model.source_phrases for member in members]
        if any(other != phrases[0] for other in filter(None, phrases) if phrases[0] is not None):
            yield "weights_of: these systems read different phrases of a source; an ensemble reads one kind"
        if phrases[0] is None and any(phrases):
            yield "weights_of: name the system with phrases first, because the first one decides what is read"

    @property
    def trained(self) -> list[str]:
        """The systems that are trained, and not rows of the weights of others."""
        return [name for name, system in self.systems.items() if not system.weights_of]

    def seeds_of(self, system: str) -> list[int]:
        """The seeds of a row: those of the study; for an ensemble of seeds the first one, which names its files."""
        ensemble = self.systems[system].decoding.ensemble
        return self.seeds if ensemble is None else ensemble[:1]

    def members_of(self, system: str, seed: int) -> list[tuple[str, int]]:
        """The trained systems, with their seeds, whose weights translate for a row with this seed."""
        row = self.systems[system]
        seeds = row.decoding.ensemble or [seed]
        return [(member, seed) for member in row.weights_of or [system] for seed in seeds]

    @property
    def annotators(self) -> dict[str, Parser | Chunker]:
        """Parsers and chunkers by name."""
        return {**self.parsers, **self.chunkers}

    @property
    def segmentations(self) -> dict[str, PhraseSegmentation]:
        """All ways in which systems of the study cut phrases, by name."""
        found = [system.model.source_phrases for system in self.systems.values()]
        return {segmentation.folder_name: segmentation for segmentation in found if segmentation is not None}

    def _syntax_problems(self, dataset: Dataset) -> list[str]:
        chunks = dataset.target_chunks or TargetChunks(origin="gold")
        problems = []
        parsers: dict[str, Parser | Chunker] = {**self.parsers}
        chunkers: dict[str, Parser | Chunker] = {**self.chunkers}
        for key, name, known, language in (
            ("source_parser", dataset.source_parser, parsers, dataset.source_language),
            ("target_chunks.parser", chunks.parser, parsers, dataset.target_language),
            ("target_chunks.chunker", chunks.chunker, chunkers, dataset.target_language),
        ):
            if name is None:
                continue
            if name not in known:
                problems.append(f"{key} is {name!r}, allowed: {', '.join(known) or 'none, since the study has none'}")
            elif known[name].language != language:
                problems.append(f"{key} is {name!r}, which is for {known[name].language!r} and not {language!r}")
        if chunks.parser is not None and dataset.target_language != "en":
            problems.append(
                f"target_chunks.parser is {chunks.parser!r}, but the rules that make chunks of trees are for English"
            )
        if dataset.target_chunks and chunks.origin == "gold" and dataset.generator is None:
            problems.append("target_chunks.origin is 'gold', but only a generator has gold chunks")
        elif dataset.target_chunks and chunks.origin == "gold" and dataset.external_test_sets:
            problems.append("target_chunks.origin is 'gold', but external_test_sets have no gold chunks")
        return problems

    @property
    def baseline(self) -> str:
        return self.comparison.baseline or next(iter(self.translating or self.systems))

    @property
    def translating(self) -> list[str]:
        """The systems that translate."""
        return [name for name, system in self.systems.items() if system.model.translates]

    @property
    def language_models(self) -> list[str]:
        """The systems that do not translate."""
        return [name for name, system in self.systems.items() if not system.model.translates]

    @property
    def chunking(self) -> list[str]:
        """The systems that decide about chunks of the target, each once."""
        return [name for name in self.trained if self.systems[name].model.reads_chunks]
