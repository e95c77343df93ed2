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
    LONGEST,
    Language,
    Name,
    Number,
    Pairs,
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
from phrasemt.study.presets import PRESETS, fill_in
from phrasemt.study.tokenization import Side, Tokenization, Tokenizer

SIDES: tuple[Side, Side] = ("source", "target")
Symbols = Annotated[
    int, Field(gt=0), Number(at_most=1_000_000, because="embeddings of a million symbols fill the memory")
]
Beam = Annotated[
    int, Field(gt=0), Number(at_most=1_000, because="the memory and the time of a search grow with the beam")
]
Checkpoints = Annotated[int, Field(gt=0), Number(at_most=1_000, because="all these files of weights stay on the disk")]
Epsilon = Annotated[float, Field(gt=0), Number(at_most=1, because="a larger number would decide the steps alone")]
_LARGE_UPDATE = "an update of so much text takes hours"
_LONG_OUTPUT = "the memory of a search grows with the longest output"

# ---------------------------------------------------------------------------------------------------------------- data


class RegistryText(Settings):
    """A part of a registered corpus; `phrasemt corpora` lists them."""

    corpus: Name = Field(description="id of the corpus in the registry")
    part: Name = Field(description="part of the corpus, e.g. train")


class UserText(Settings):
    """Two parallel text files of the user: UTF-8, one sentence per line. `.gz` files are unpacked."""

    source: Path = Field(description="file of the source side")
    target: Path = Field(description="file of the target side")


def kind_of_text(value: Any) -> str:
    """The class of a text by its keys, so that mistakes are reported for the class that the user meant."""
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Settings) else {}
    return "files" if "source" in keys or "target" in keys else "registry"


ParallelText = Annotated[
    Annotated[RegistryText, Tag("registry")] | Annotated[UserText, Tag("files")], Discriminator(kind_of_text)
]


class Splits(Settings):
    """Splits that exist already. The texts of a split are read one after the other."""

    train: list[ParallelText] = Field(min_length=1, description="training texts")
    dev: list[ParallelText] = Field(min_length=1, description="development texts, which select checkpoints")
    test: dict[Name, list[ParallelText]] = Field(min_length=1, description="texts of each test set, by name")

    @model_validator(mode="after")
    def _names_are_free(self) -> Splits:
        if taken := {"train", "dev"} & set(self.test):
            raise ValueError(f"a test set cannot be named {sorted(taken)[0]}")
        return self


class Partition(Settings):
    """A corpus that is cut into train, dev and test. No two splits share a source or a target sentence."""

    text: ParallelText = Field(description="the corpus")
    dev: Pairs = Field(description="pairs of dev")
    test: Pairs = Field(description="pairs of test")
    seed: Seed = Field(1, description="seed of the random draw")


class Generator(Settings):
    """The demonstration corpus (phrasemt/corpus/demo), with gold trees, gold chunks and contrastive pairs."""

    train: Pairs = Field(description="training pairs")
    dev: Pairs = Field(description="dev pairs")
    test: Pairs = Field(description="test pairs")
    seed: Seed = Field(1, description="seed of the generator")


class CleaningFilters(Settings):
    """Filters for training pairs. Dev and test sets are never filtered."""

    max_words: Annotated[int, Field(gt=0), Number(at_most=10_000, because=LONGEST)] = Field(
        100, description="largest number of words of a side (zh, ja, ...: two characters count as a word)"
    )
    max_ratio: Annotated[float, Field(ge=1), Number(at_most=10_000, because="no side may have more words")] = Field(
        9.0, description="largest ratio of longer to shorter side, in words"
    )
    min_letters: Probability = Field(
        0.5, description="smallest share of the script of the language among the letters of a line"
    )
    drop_duplicates: bool = Field(True, description="keep only the first of equal pairs")
    drop_identical: bool = Field(True, description="drop pairs with equal sides")


class Subwords(Settings):
    """The units that models read: subwords by joint byte-pair encoding (subword-nmt), or whole words."""

    unit: Literal["bpe", "word"] = Field(
        "bpe",
        description="bpe: subwords; word: the `words` most frequent words of each side, other words are <unk> "
        "(Zhou et al.)",
    )
    words: Symbols = Field(30_000, description="unit word: size of the vocabulary of each side")
    merges: Symbols = Field(32_000, description="unit bpe: number of merges, learned on both sides together")
    vocabulary_threshold: Annotated[
        int, Field(ge=0), Number(at_most=1_000_000, because="hardly a subword is so frequent")
    ] = Field(8, description="unit bpe: split subwords further that are rarer than this in train; 0: never")
    shared_vocabulary: bool = Field(True, description="one vocabulary for both sides; tie: all needs it")

    @model_validator(mode="before")
    @classmethod
    def _words_are_apart(cls, values: Any) -> Any:
        """Whole words of two languages have separate vocabularies unless the study says otherwise."""
        if isinstance(values, dict) and values.get("unit") == "word":
            return {"shared_vocabulary": False, **values}
        return values

    @model_validator(mode="after")
    def _switches_go_together(self) -> Subwords:
        refuse(
            f"{key} has no effect with unit: {self.unit}, only with unit: {unit}"
            for key, unit in (("words", "word"), ("merges", "bpe"), ("vocabulary_threshold", "bpe"))
            if self.unit != unit and self.differs(key)
        )
        return self


class TargetChunks(Settings):
    """Chunks of the target side (Zhou et al. 2017). Chunks of other origins are only compared with the chosen ones."""

    origin: Literal["gold", "chunker", "parser"] = Field(
        description="gold: chunks of the generator; chunker: a chunk tagger; parser: rules on English trees"
    )
    chunker: Name | None = Field(None, description="name of a chunker of the study")
    parser: Name | None = Field(None, description="name of a parser of the study")

    @model_validator(mode="after")
    def _origin_is_named(self) -> TargetChunks:
        if self.origin != "gold" and getattr(self, self.origin) is None:
            raise ValueError(f"origin is {self.origin!r}, but {self.origin} is missing")
        return self


class Dataset(Settings):
    """The texts of a language pair and their preparation. A data set has one of splits, partition and generator."""

    source_language: Language = Field(description="ISO 639 code, e.g. en")
    target_language: Language = Field(description="ISO 639 code, e.g. de")
    splits: Splits | None = Field(None, description="existing splits")
    partition: Partition | None = Field(None, description="a corpus to cut into splits")
    generator: Generator | None = Field(None, description="the demonstration corpus")
    external_test_sets: dict[Name, list[ParallelText]] = Field(
        default_factory=dict,
        description="with partition or generator: texts of further test sets, by name; with splits, `splits.test` "
        "names all of them",
    )
    cleaning: CleaningFilters = Field(default_factory=CleaningFilters, description="filters for training pairs")
    tokenization: Tokenization = Field(default_factory=Tokenization, description="tokens of the two sides")
    subwords: Subwords = Field(default_factory=Subwords, description="units of the models: subwords or words")
    overlap: Literal["refused", "allowed"] = Field(
        "refused",
        description="refused: it is an error if more than 10 % of the pairs, sources or targets of dev or a test set "
        "stand in train, or of a test set in dev; allowed: the table only tells the numbers",
    )
    source_parser: Name | None = Field(None, description="name of the parser for the source side")
    target_chunks: TargetChunks | None = Field(None, description="chunks of the target side")
    parse_jobs: Annotated[int, Field(gt=0), Number(at_most=64, because="each job loads the parser")] = Field(
        1, description="number of jobs that parse or tag the training pairs; changes no result"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Dataset:
        if sum(origin is not None for origin in (self.splits, self.partition, self.generator)) != 1:
            raise ValueError("exactly one of splits, partition and generator must be given")
        if self.splits and self.external_test_sets:
            raise ValueError("external_test_sets has no effect with splits; name these test sets in splits.test")
        refuse(
            f"external_test_sets.{name}: {problem}"
            for name, texts in self.external_test_sets.items()
            for problem in [
                *(["a data set has a split of this name"] if name in ("train", "dev", "test") else []),
                *([] if texts else ["no texts"]),
            ]
        )
        if self.source_language == self.target_language:
            raise ValueError("source_language and target_language must differ, because they name files")
        return self

    @model_validator(mode="after")
    def _languages_have_tokenisers(self) -> Dataset:
        refuse(self.tokenization.problems(*self.languages))
        return self

    def tokenizer(self, side: Side) -> Tokenizer:
        """The tokeniser of a side. Raises ValueError for a language that its unit does not suit."""
        return self.tokenization.tokenizer(side, self.language_of(side))

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    def language_of(self, side: Side) -> str:
        return self.source_language if side == "source" else self.target_language

    def side_of(self, language: str) -> Side:
        return "source" if language == self.source_language else "target"

    @property
    def test_sets(self) -> tuple[str, ...]:
        return tuple(self.splits.test) if self.splits else ("test", *self.external_test_sets)

    @property
    def held_out(self) -> tuple[str, ...]:
        """The splits that systems do not learn from."""
        return "dev", *self.test_sets

    @property
    def split_names(self) -> tuple[str, ...]:
        return "train", "dev", *self.test_sets

    def texts_of_split(self, split: str) -> list[ParallelText]:
        """The texts of a split that exists already; none of a split that the partition or the generator makes."""
        if self.splits is None:
            return self.external_test_sets.get(split, [])
        return {"train": self.splits.train, "dev": self.splits.dev, **self.splits.test}[split]

    @property
    def texts(self) -> Iterator[tuple[str, ParallelText]]:
        """All texts that the data set names, with their places in the study."""
        if self.partition:
            yield "partition.text", self.partition.text
        tests = "splits.test" if self.splits else "external_test_sets"
        for split in self.split_names:
            where = f"splits.{split}" if split in ("train", "dev") else f"{tests}.{split}"
            yield from ((f"{where}.{number}", text) for number, text in enumerate(self.texts_of_split(split)))

    def annotation_jobs(self, split: str) -> int:
        """The number of jobs that parse or tag a split: one, except for train."""
        return self.parse_jobs if split == "train" else 1


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


class Decoding(Settings):
    """Beam search."""

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
    n_best: Beam = Field(1, description="hypotheses per sentence in the output")

    @model_validator(mode="after")
    def _enough_beams(self) -> Decoding:
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


class System(Settings):
    """A model with its training and decoding: one row of the table."""

    title: Title | None = Field(None, description="name in the table; default: the key of the system")
    preset: Preset | None = Field(
        None, description="system of a paper (phrasemt/study/presets.py); keys given here replace its values"
    )
    model: ModelSettings = Field(description="architecture")
    init_from: Path | None = Field(
        None,
        description="weights that the training starts from: a .safetensors file for all seeds, or a folder that holds "
        "<seed>/averaged.safetensors, as the folder of a system in models/; names, shapes and vocabularies must agree. "
        "null: random weights",
    )
    training: Training = Field(default_factory=Training, description="training")
    decoding: Decoding = Field(default_factory=Decoding, description="beam search")

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        # A misspelt name is read as the nearest one, so that the typo is the only reported mistake.
        (preset,) = difflib.get_close_matches(str(values["preset"]), PRESETS, n=1, cutoff=0)
        return fill_in(values, PRESETS[preset], _KEYS)

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

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        problems = []
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
        """The systems that decide about chunks of the target."""
        return [name for name, system in self.systems.items() if system.model.reads_chunks]
