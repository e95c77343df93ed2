"""The study: all settings of an experiment with their types, allowed values, defaults, units and descriptions.

A study file is complete. Unknown keys are errors, and all mistakes of a file are reported at once. Settings of the
machine (cores, memory, GPUs, the size of micro-batches) belong to the profiles and never change a result.
`phrasemt schema` generates `workflow/schemas/study.schema.json` from `Study`.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticKnownError

from phrasemt.fields import Name, Number, Seed, Settings, Title, UserPath, refuse, sections
from phrasemt.printed.results import baseline_place
from phrasemt.study.annotators import Chunker, Parser
from phrasemt.study.architectures import ModelSettings, PhraseSegmentation, own_settings, with_present_names
from phrasemt.study.datasets import Dataset, TargetChunks
from phrasemt.study.evaluation import Analyses, Comparison, Metric
from phrasemt.study.moses import MosesModel, MosesSystem
from phrasemt.study.presets import PRESETS, fill_in
from phrasemt.study.rows import OutsideSystem, TableRow
from phrasemt.study.training import Optimizer, Training

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


# Keys of the beam search that sampling replaces.
_OF_BEAM_SEARCH = ("beam", "stopping", "length_penalties")


class Decoding(Settings):
    """Beam search, or sampling."""

    beam: Beam = Field(4, description="hypotheses per sentence")
    length_penalty: Alpha = Field(0.6, description="alpha of the length penalty")
    length_penalties: list[Alpha] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="further alphas: BLEU of the search on dev chooses between them and length_penalty, whose score "
        "the table shows beside that of the chosen one; null: length_penalty as it is",
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
    precision: Literal["float32", "bfloat16", "int8"] = Field(
        "float32",
        description="type of weights and activations. bfloat16 is faster on GPUs and on CPUs with AMX; on a device "
        "without bfloat16 units it computes in float32. int8, for CPUs, is faster on those with AVX-512 VNNI or AMX: "
        "products of large weights are in 8-bit integers, all else is in float32. The rounding of both changes some "
        "translations. Sums of log-probabilities are always float32",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Decoding:
        problems = []
        if self.sampling is not None:
            problems = [f"{key} has no effect with sampling" for key in _OF_BEAM_SEARCH if self.differs(key)]
        elif self.n_best > self.beam:
            problems.append(f"n_best ({self.n_best}) must not exceed beam ({self.beam})")
        if self.max_length_factor == 0 and self.min_length > self.max_length_extra:
            problems.append(
                f"min_length ({self.min_length}) must not exceed the longest output ({self.max_length_extra})"
            )
        alphas = [self.length_penalty, *(self.length_penalties or [])]
        if len(set(alphas)) != len(alphas):
            problems.append(f"length_penalties and length_penalty contain a value twice: {alphas}")
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
    weights_of: list[Name] = Field(
        [],
        description="systems whose trained models translate for this row, which trains nothing: with another decoding, "
        "or several together as an ensemble. Keys of decoding that are not given are those of the first of them",
    )
    seeds: list[Seed] | None = Field(
        None,
        min_length=1,
        description="the first seeds of the study, if it has more than the system needs; null: all seeds of the study",
    )
    training: Training = Field(default_factory=Training, description="training")
    decoding: Decoding = Field(default_factory=Decoding, description="beam search")

    @property
    def translates(self) -> bool:
        return self.model.translates

    def seeds_among(self, of_study: Sequence[int]) -> list[int]:
        """The seeds of the system; for an ensemble of seeds its first one, which names its files."""
        return self.decoding.ensemble[:1] if self.decoding.ensemble else self.seeds or list(of_study)

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        # A misspelt name is read as the nearest one, so that the typo is the only reported mistake.
        (preset,) = difflib.get_close_matches(str(values["preset"]), PRESETS, n=1, cutoff=0)
        model = with_present_names(values.get("model"))
        family = model.get("family") if isinstance(model, dict) else None
        own = own_settings(family)
        values = values if model is None else {**values, "model": model}
        return fill_in(values, PRESETS[preset], _KEYS if own is None else _KEYS | {family: own.model_fields.keys()})

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


def kind_of_system(value: Any) -> str:
    """The class of a system by its keys, so that mistakes are reported for the class that the user meant."""
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Settings) else {}
    if "translations" in keys:
        return "outside"
    model = keys.get("model")
    family = model.get("family") if isinstance(model, dict) else getattr(model, "family", None)
    return "phrase_based" if family == "moses" else "trained"


AnySystem = Annotated[
    Annotated[System, Tag("trained")]
    | Annotated[OutsideSystem, Tag("outside")]
    | Annotated[MosesSystem, Tag("phrase_based")],
    Discriminator(kind_of_system),
]


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
    moses: Path | None = Field(
        None,
        description="folder of Moses, with bin/ and scripts/, for systems of the family moses (`make moses`); the "
        "environment variable PHRASEMT_MOSES replaces it",
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
                other
                for other, found in systems.items()
                if isinstance(found, dict) and "weights_of" not in found and kind_of_system(found) == "trained"
            ]
            first = systems[named[0]] if named[0] in trained else {}
            problems += [
                f"systems.{name}.{key} has no effect with weights_of, because nothing is trained"
                for key in ("model", "preset", "training", "init_from")
                if key in system and system[key] != first.get(key)
            ]
            problems += [
                f"{where} names {other!r}, allowed: systems that are trained ({', '.join(trained)})"
                for other in named
                if other not in trained
            ]
            if len(set(map(str, named))) != len(named):
                problems.append(f"{where} names a system twice")
            if not problems:
                filled[name] = {key: first[key] for key in ("preset", "model", "training") if key in first} | system
                own, others = (found.get("decoding") or {} for found in (system, first))
                if isinstance(own, dict) and isinstance(others, dict):
                    if "sampling" in own:  # keys of the beam search that it replaces
                        others = {key: value for key, value in others.items() if key not in _OF_BEAM_SEARCH}
                    filled[name]["decoding"] = {**others, **own}
        refuse(problems)
        return {**values, "systems": filled}

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        problems = [
            f"systems.{name}.{problem}" for name in self.models for problem in self._problems_of_other_weights(name)
        ]
        problems += [
            f"systems.{name}.{problem}"
            for name, system in self.outside.items()
            for problem in system.problems(self.datasets)
        ]
        if len(set(self.seeds)) != len(self.seeds):
            problems.append(f"seeds contains a value twice: {self.seeds}")
        problems += [
            f"systems.{name}.seeds is {system.seeds}, expected the first seed or seeds of the study, {self.seeds}"
            for name, system in self.models.items()
            if system.seeds is not None and system.seeds != self.seeds[: len(system.seeds)]
        ]
        titles: dict[str, str] = {}
        for name, title in self.titles.items():
            first = titles.setdefault(title, name)
            if first != name:
                problems.append(f"systems.{name} and systems.{first} have the same title: {title!r}")
        allowed = self.translating or list(self.systems)
        if self.baseline not in allowed:
            why = " (a language model does not translate)" if self.baseline in self.systems else ""
            problems.append(f"comparison.baseline is {self.baseline!r}, allowed: {', '.join(allowed)}{why}")
        if both := self.parsers.keys() & self.chunkers.keys():
            problems.append(f"a parser and a chunker are both called {sorted(both)[0]!r}; names must differ")
        for dataset_name, dataset in self.datasets.items():
            problems += [f"datasets.{dataset_name}.{problem}" for problem in self._dataset_problems(dataset)]
        for name, annotator in self.annotators.items():
            where = f"parsers.{name}" if name in self.parsers else f"chunkers.{name}"
            for generated in {text.generated: None for _, text in annotator.texts if text.generated}:
                if generated not in self.datasets or self.datasets[generated].generator is None:
                    problems.append(f"{where}.train names {generated!r}, which is not a data set with a generator")
        for name, system in self.models.items():
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
        if not self.trained and not self.phrase_based:
            problems.append("systems: no system is trained; give one a model (`phrasemt score` compares files)")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems_of_other_weights(self, name: str) -> Iterator[str]:
        system = self.models[name]
        if not system.weights_of:
            return
        members = [self.models[other] for other in system.weights_of]
        seeds = system.decoding.ensemble
        if system.seeds is not None:
            yield "seeds has no effect with weights_of; the row has the seeds of the systems that it names"
        for member in system.weights_of:
            trained = self.seeds_of(member)
            if missing := [seed for seed in seeds or [] if seed not in trained]:
                yield f"decoding.ensemble names seed {missing[0]}, allowed: the seeds of {member}, {trained}"
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
    def models(self) -> dict[str, System]:
        """The systems that are models of this study, also with the weights of others."""
        return {name: system for name, system in self.systems.items() if isinstance(system, System)}

    @property
    def outside(self) -> dict[str, OutsideSystem]:
        """The systems whose translations other programs made."""
        return {name: system for name, system in self.systems.items() if isinstance(system, OutsideSystem)}

    @property
    def tuned(self) -> list[str]:
        """The systems whose length penalty is chosen on dev."""
        return [name for name, system in self.models.items() if system.decoding.length_penalties]

    @property
    def phrase_based(self) -> dict[str, MosesSystem]:
        """The systems of Moses."""
        return {name: system for name, system in self.systems.items() if isinstance(system, MosesSystem)}

    @property
    def phrase_models(self) -> dict[str, MosesModel]:
        """What systems of Moses learn from training pairs, by the name of its folder; systems share equal ones."""
        return {system.model.folder_name: system.model for system in self.phrase_based.values()}

    @property
    def titles(self) -> dict[str, str]:
        """The title of each row of the table."""
        return {name: row.heading(name) for name, row in self.systems.items()}

    @property
    def trained(self) -> list[str]:
        """The systems that are trained here, and not rows of the weights of others."""
        return [name for name, system in self.models.items() if not system.weights_of]

    def seeds_of(self, system: str) -> list[int]:
        """The seeds of a row; of a row with the weights of others, the seeds that all of them have."""
        row = self.systems[system]
        seeds = row.seeds_among(self.seeds)
        members = row.weights_of if isinstance(row, System) and not row.decoding.ensemble else []
        return [seed for seed in seeds if all(seed in self.seeds_of(member) for member in members)]

    @property
    def unseeded(self) -> list[str]:
        """The systems in which nothing is drawn at random."""
        return [name for name, system in self.phrase_based.items() if system.tuning is None]

    @property
    def repeated(self) -> list[str]:
        """The systems that translate and have several trainings of their own, not the weights of others."""
        with_others = [name for name, system in self.models.items() if system.weights_of]
        return [name for name in self.translating if name not in with_others and len(self.seeds_of(name)) > 1]

    def members_of(self, system: str, seed: int) -> list[tuple[str, int]]:
        """The trained systems, with their seeds, whose weights translate for a row with this seed."""
        row = self.models[system]
        seeds = row.decoding.ensemble or [seed]
        return [(member, seed) for member in row.weights_of or [system] for seed in seeds]

    @property
    def annotators(self) -> dict[str, Parser | Chunker]:
        """Parsers and chunkers by name."""
        return {**self.parsers, **self.chunkers}

    @property
    def segmentations(self) -> dict[str, PhraseSegmentation]:
        """All ways in which systems of the study cut phrases, by name."""
        found = [system.model.source_phrases for system in self.models.values()]
        return {segmentation.folder_name: segmentation for segmentation in found if segmentation is not None}

    def _dataset_problems(self, dataset: Dataset) -> list[str]:
        chunks = dataset.target_chunks or TargetChunks(origin="gold")
        problems = [f"language: {name} translates, which needs two" for name in self.translating if dataset.language]
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
        """The baseline of each system that is compared with another one."""
        found = {name: self.baseline_of(name) for name in self.systems}
        return {name: baseline for name, baseline in found.items() if name != baseline}

    @property
    def translating(self) -> list[str]:
        """The systems that translate."""
        return [name for name, system in self.systems.items() if system.translates]

    @property
    def language_models(self) -> list[str]:
        """The systems that do not translate."""
        return [name for name, system in self.systems.items() if not system.translates]

    @property
    def chunking(self) -> list[str]:
        """The systems that decide about chunks of the target, each once."""
        return [name for name in self.trained if self.models[name].model.reads_chunks]
