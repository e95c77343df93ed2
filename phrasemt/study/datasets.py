"""The texts of a study: data sets with their splits, cleaning, subwords and chunks (`datasets:`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from phrasemt.errors import DataError
from phrasemt.fields import LONGEST, Language, Name, Number, Pairs, Probability, Seed, Settings, UserPath, refuse
from phrasemt.printed.results import data_at, row_at
from phrasemt.study.tokenization import Side, Tokenization, Tokenizer

SIDES: tuple[Side, Side] = ("source", "target")
Symbols = Annotated[
    int, Field(gt=0), Number(at_most=1_000_000, because="embeddings of a million symbols fill the memory")
]


def _found_by(find: Callable[[str], object]) -> AfterValidator:
    """Refuse a place in a paper that is unknown; the message names the nearest one."""

    def check(place: str) -> str:
        try:
            find(place)
        except DataError as error:
            raise ValueError(str(error)) from None
        return place

    return AfterValidator(check)


PaperDataPlace = Annotated[str, _found_by(data_at)]  # xu2020/en-de
PaperRowPlace = Annotated[str, _found_by(row_at)]  # xu2020/table-2/max


class RegistryText(Settings):
    """A part of a registered corpus; `phrasemt corpora` lists them."""

    corpus: Name = Field(description="id of the corpus in the registry")
    part: Name = Field(description="part of the corpus, e.g. train")


class UserText(Settings):
    """Two parallel text files of yours: UTF-8, one sentence per line. `.gz` files are unpacked."""

    source: UserPath = Field(description="file of the source side")
    target: UserPath = Field(description="file of the target side")
    references: list[UserPath] = Field(
        default_factory=list,
        description="further references of a test set, line by line beside the target, which is the first reference",
    )

    @property
    def files(self) -> dict[str, Path]:
        references = {f"references.{number}": file for number, file in enumerate(self.references)}
        return {"source": self.source, "target": self.target, **references}


class MonolingualText(Settings):
    """A text file of yours, for a data set of one language: UTF-8, one sentence per line. `.gz` is unpacked."""

    text: UserPath = Field(description="file of the text")

    @property
    def files(self) -> dict[str, Path]:
        return {"text": self.text}

    @property
    def source(self) -> Path:
        return self.text

    @property
    def target(self) -> Path:
        return self.text


class PairsFile(Settings):
    """A file of contrastive pairs: the JSON of LingEval97 (`.json`), or lines source, right, wrong[, distance[, kind[,
    cluster]]], with tabulators. Tests draw the pairs of one cluster together, by default those of one translation.
    """

    pairs: UserPath = Field(description="JSON of LingEval97, or a table")

    @property
    def files(self) -> list[Path]:
        return [self.pairs]


class GeneratedPairs(Settings):
    """English-German pairs of the demonstration grammar: agreement of a verb whose number English hides, by the
    distance to its subject in English words (democorpus/pairs.py). No train or dev set of it has their sentences.
    """

    generated: Annotated[int, Field(gt=0)] = Field(
        description="pairs for each bin of distances (1-2, 3-4, 5-8, 9-12, 13 and more)"
    )

    @property
    def files(self) -> list[Path]:
        return []


def keys_of(value: Any) -> Mapping[str, Any]:
    """The values of a section by their keys, before or after its validation; none of something else."""
    return value if isinstance(value, dict) else vars(value) if isinstance(value, Settings) else {}


def kind_of_pairs(value: Any) -> str:
    """The class of contrastive pairs by their keys, so that mistakes are reported for the right class."""
    keys = keys_of(value)
    return "file" if "pairs" in keys else "generated" if "generated" in keys else "registry"


ContrastText = Annotated[
    Annotated[RegistryText, Tag("registry")]
    | Annotated[PairsFile, Tag("file")]
    | Annotated[GeneratedPairs, Tag("generated")],
    Discriminator(kind_of_pairs),
]


def kind_of_text(value: Any) -> str:
    """The class of a text by its keys, so that mistakes are reported for the right class."""
    keys = keys_of(value)
    if keys.keys() & {"source", "target", "src", "tgt"}:  # two words of other programs, which are then told as mistakes
        return "files"
    return "one_file" if "text" in keys else "registry"


DatasetText = Annotated[
    Annotated[RegistryText, Tag("registry")]
    | Annotated[UserText, Tag("files")]
    | Annotated[MonolingualText, Tag("one_file")],
    Discriminator(kind_of_text),
]


Texts = Annotated[list[DatasetText], Field(min_length=1)]


def _references_of(text: DatasetText) -> list[Path]:
    return text.references if isinstance(text, UserText) else []


class DevSample(Settings):
    """Dev pairs drawn from the training texts. Train and dev share no source and no target sentence."""

    sample: Pairs = Field(description="pairs of dev")


class Splits(Settings):
    """Splits that exist already. The texts of a split are read one after the other."""

    train: Texts = Field(description="training texts")
    dev: Annotated[
        Annotated[Texts, Tag("list")] | Annotated[DevSample, Tag("sample")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "sample"),
    ] = Field(description="development texts, which select checkpoints, or a sample of the training texts")
    test: dict[Name, Texts] = Field(min_length=1, description="texts of each test set, by name")

    @model_validator(mode="after")
    def _names_are_free(self) -> Splits:
        if taken := {"train", "dev"} & set(self.test):
            raise ValueError(f"a test set cannot be named {sorted(taken)[0]}")
        return self


class Partition(Settings):
    """A corpus that is cut into train, dev and test. No two splits share a source or a target sentence."""

    text: DatasetText = Field(description="the corpus")
    dev: Pairs = Field(description="pairs of dev")
    test: Pairs = Field(description="pairs of test")
    seed: Seed = Field(1, description="seed of the random draw")


@dataclass(frozen=True)
class Cut:
    """Texts, one after the other, that the workflow cuts into splits with these numbers of pairs; the rest is train."""

    texts: list[DatasetText]
    dev: int
    test: int
    seed: int

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "dev", "test") if self.test else ("train", "dev")


class Generator(Settings):
    """The demonstration corpus (democorpus), with gold trees, gold chunks and contrastive pairs."""

    train: Pairs = Field(description="training pairs")
    dev: Pairs = Field(description="dev pairs")
    test: Pairs = Field(description="test pairs")
    seed: Seed = Field(1, description="seed of the generator")
    multiword_units: bool = Field(
        False,
        description="with idioms, particle verbs and compounds, each with a literal twin (democorpus/units.py): in "
        "1,848 pairs of train, 132 of dev and 1,056 of test, about whose readings the contrastive pairs are",
    )
    long_sentences: bool = Field(
        False,
        description="sentences of 30 to 80 English tokens, as many of each length, in place of short ones "
        "(democorpus/long.py); the contrastive pairs are about verbs more than ten words after their subjects",
    )

    @model_validator(mode="after")
    def _one_kind_of_sentences(self) -> Generator:
        if self.multiword_units and self.long_sentences:
            raise ValueError("multiword_units has no effect with long_sentences")
        return self


class CleaningFilters(Settings):
    """Filters for training pairs, beside that of empty sides. Dev and test sets are never filtered."""

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
    drop_identical: bool = Field(True, description="drop pairs whose sides are equal, as untranslated text is")


class Sample(Settings):
    """A part of the pairs, the same on every machine: those whose sources have the smallest hash."""

    train: Pairs | None = Field(None, description="pairs of train after all filters, which all stages learn from")
    test: Pairs | None = Field(
        None, description="pairs of each test set, except one whose contrastive pairs name its rows"
    )


class Subwords(Settings):
    """The units that models read: subwords by joint byte-pair encoding (subword-nmt), or whole words."""

    unit: Literal["bpe", "word"] = Field(
        "bpe",
        description="bpe: subwords; word: the `words` most frequent words of each side, other words are <unk> "
        "(Zhou et al.)",
    )
    words: Symbols = Field(30_000, description="unit word: size of the vocabulary of each side")
    merges: Symbols = Field(32_000, description="unit bpe: number of merges, learned on both sides together")
    symbols: Symbols | None = Field(
        None,
        description="unit bpe, in place of merges: number of symbols of both sides together, of which the characters "
        "are subtracted (`--total-symbols` of subword-nmt, an estimate of the size of the vocabulary)",
    )
    vocabulary_threshold: Annotated[
        int, Field(ge=0), Number(at_most=1_000_000, because="hardly a subword is so frequent")
    ] = Field(8, description="unit bpe: split subwords further that are rarer than this in train; 0: never")
    shared_vocabulary: bool = Field(True, description="one vocabulary for both sides; tie: all needs it")
    reuse: UserPath | None = Field(
        None,
        description="folder of `phrasemt export` whose merges and vocabularies the data set takes over, "
        "for trainings that start from its weights; null: the data set learns its own",
    )

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
            for key, unit in (("words", "word"), ("merges", "bpe"), ("symbols", "bpe"), ("vocabulary_threshold", "bpe"))
            if self.unit != unit and self.differs(key)
        )
        if self.symbols is not None and self.differs("merges"):
            raise ValueError("merges has no effect with symbols, from which it follows")
        return self


class TargetChunks(Settings):
    """Chunks of the target side (Zhou et al. 2017)."""

    origin: Literal["gold", "chunker"] = Field(description="gold: chunks of the generator; chunker: a chunk tagger")
    chunker: Name | None = Field(None, description="name of a chunker of the study, with the origin chunker")

    @model_validator(mode="after")
    def _origin_is_named(self) -> TargetChunks:
        if (self.origin == "chunker") != (self.chunker is not None):
            raise ValueError("a chunker belongs to the origin chunker, and only to it")
        return self


class Dataset(Settings):
    """The texts of a language pair and their preparation. A data set has one of splits, partition and generator.

    A data set of one language (`language`), for language models, has one text where others have a source and a target:
    the text is both sides, so that every stage reads it as it reads pairs.
    """

    language: Language | None = Field(
        None, description="ISO 639 code of a monolingual data set, in place of source_language and target_language"
    )
    source_language: Language = Field(description="ISO 639 code, e.g. en")
    target_language: Language = Field(description="ISO 639 code, e.g. de")
    splits: Splits | None = Field(None, description="existing splits")
    partition: Partition | None = Field(None, description="a corpus to cut into splits")
    generator: Generator | None = Field(None, description="the demonstration corpus")
    contrast_sets: dict[Name, Annotated[list[ContrastText], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="sets of contrastive pairs, by name, such as LingEval97: how often does a system prefer the right "
        "translation to one with a single mistake? A generator brings its own, named test",
    )
    cleaning: CleaningFilters = Field(default_factory=CleaningFilters, description="filters for training pairs")
    sample: Sample = Field(
        default_factory=Sample, description="use only a part of the pairs, as a rehearsal does (`phrasemt scale`)"
    )
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
    stands_for: PaperDataPlace | None = Field(
        None,
        description="these are the data of a paper, e.g. xu2020/en-de (`phrasemt papers`): reported figures are "
        "compared as they are; null: other data, where only differences to the baseline are compared",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_language(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("language") is None:
            return values
        sides = ("source_language", "target_language")
        refuse(
            f"{key} has no effect with language, which is of a monolingual data set"
            for key in sides
            if values.get(key, values["language"]) != values["language"]
        )
        return {**values, **dict.fromkeys(sides, values["language"])}

    @model_validator(mode="after")
    def _has_one_side(self) -> Dataset:
        """Refuse what needs two sides in a monolingual data set, and texts of one file in another one."""
        needed = UserText if self.language is None else MonolingualText
        keys = "{source: FILE, target: FILE}" if self.language is None else "{text: FILE}"
        kind = "bilingual" if self.language is None else "monolingual"
        problems = [
            f"{where} must be {keys}, because the data set is {kind}"
            for where, text in self.texts
            if not isinstance(text, RegistryText | needed)
        ]
        if self.language is not None:
            problems += [
                f"{key} has no effect in a monolingual data set"
                for key in ("contrast_sets", "source_parser", "target_chunks")
                if getattr(self, key)
            ]
            if self.cut is not None:
                problems.append("a monolingual data set is not cut; name the texts of train, dev and test in splits")
            if self.tokenization.source is not None:
                problems.append("tokenization.source has no effect in a monolingual data set; its text is the target")
        refuse(problems)
        return self

    @model_validator(mode="after")
    def _data_of_the_paper(self) -> Dataset:
        if self.stands_for is not None:
            refuse(f"stands_for is {self.stands_for!r}, {problem}" for problem in self._other_than(self.stands_for))
        return self

    def _other_than(self, place: str) -> Iterator[str]:
        """What differs from the data of a paper."""
        data = data_at(place)
        languages = (data.source_language or self.source_language, data.target_language)
        if languages != self.languages:
            yield f"which is {'-'.join(languages)}, but the data set is {'-'.join(self.languages)}"
        if self.sample != Sample():
            yield "but a sample of its pairs are other data"
        if data.train is not None:
            expected = {(text.corpus, text.part) for text in data.train}
            found = self.texts_of_split("train")
            if {(text.corpus, text.part) if isinstance(text, RegistryText) else text for text in found} != expected:
                names = ", ".join(f"{corpus} {part}" for corpus, part in sorted(expected))
                yield f"whose training texts are {names}; without stands_for, the data count as other data"
        of_the_paper = {test_set: ours for test_set in data.test_sets if (ours := self.test_set_for(test_set))}
        if not of_the_paper:
            yield f"but no test set is one of {', '.join(data.test_sets)}"
        for test_set, ours in of_the_paper.items():
            if (number := len(self.references(ours))) != data.references:
                yield (
                    f"whose {test_set} has {data.references} references (the target and {data.references - 1} under "
                    f"`references`), but {ours} has {number}"
                )

    def test_set_for(self, name: str) -> str | None:
        """The test set that is this one of the paper: the same texts of the registry, or else the same name."""
        assert self.stands_for is not None
        texts = data_at(self.stands_for).test_sets[name]
        if texts is None:
            return name if name in self.test_sets else None
        wanted = [RegistryText(corpus=text.corpus, part=text.part) for text in texts]
        return next((found for found in self.test_sets if self.texts_of_split(found) == wanted), None)

    @model_validator(mode="after")
    def _one_origin(self) -> Dataset:
        if sum(origin is not None for origin in (self.splits, self.partition, self.generator)) != 1:
            raise ValueError("exactly one of splits, partition and generator must be given")
        if taken := {*self.split_names} & {*self.contrast_sets} or {"train", "dev", "test"} & {*self.contrast_sets}:
            raise ValueError(f"contrast_sets: a split has the name {sorted(taken)[0]}")
        if self.source_language == self.target_language and self.language is None:
            raise ValueError(
                "source_language and target_language must differ, because they name files; for a text of one language "
                "give language"
            )
        return self

    @model_validator(mode="after")
    def _references_are_of_test_sets(self) -> Dataset:
        refuse(
            f"{where}.references: only test sets have several references"
            for where, text in self.texts
            if isinstance(text, UserText) and text.references and where.split(".")[1] in ("train", "dev", "text")
        )
        refuse(
            f"the texts of the test set {test_set} have different numbers of references"
            for test_set in self.test_sets
            if len({len(_references_of(text)) for text in self.texts_of_split(test_set)}) > 1
        )
        return self

    @model_validator(mode="after")
    def _languages_have_tokenisers(self) -> Dataset:
        problems = []
        for side in self.sides:
            try:
                self.tokenizer(side)
            except ValueError as error:
                problems.append(f"tokenization.{side}: {error}")
        refuse(problems)
        return self

    def tokenizer(self, side: Side) -> Tokenizer:
        """The tokeniser of a side. Raises ValueError for a language that its unit does not suit."""
        unit = getattr(self.tokenization, side if side in self.sides else "target")
        return Tokenizer.for_language(self.language_of(side), unit)

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides with texts of their own: one of a monolingual data set."""
        return SIDES if self.language is None else ("target",)

    def language_key(self, side: Side) -> str:
        """The key of the data set that names the language of a side."""
        return f"{side}_language" if self.language is None else "language"

    def language_of(self, side: Side) -> str:
        return self.source_language if side == "source" else self.target_language

    def side_of(self, language: str) -> Side:
        return "target" if language == self.target_language else "source"

    @property
    def cut(self) -> Cut | None:
        """What the workflow cuts into splits: a partition, or training texts that give a sample to dev."""
        if self.partition:
            return Cut([self.partition.text], self.partition.dev, self.partition.test, self.partition.seed)
        if self.splits and isinstance(self.splits.dev, DevSample):
            return Cut(self.splits.train, self.splits.dev.sample, 0, seed=1)
        return None

    @property
    def test_sets(self) -> tuple[str, ...]:
        return tuple(self.splits.test) if self.splits else ("test",)

    @property
    def held_out(self) -> tuple[str, ...]:
        """The splits that systems do not learn from."""
        return "dev", *self.test_sets

    @property
    def split_names(self) -> tuple[str, ...]:
        return "train", "dev", *self.test_sets

    @property
    def contrastive(self) -> tuple[str, ...]:
        return (*(["test"] if self.generator else []), *self.contrast_sets)

    def sampled(self, split: str) -> int | None:
        """The number of pairs that are used of a split; None: all."""
        test_set = split.partition(".")[0]
        if split == "train":
            return self.sample.train
        return self.sample.test if test_set in self.test_sets and test_set not in self.contrastive else None

    def references(self, test_set: str) -> list[str]:
        """The splits that hold the references of a test set: itself, then one for each further reference.

        Their names have a dot, which no name in a study has.
        """
        further = {len(_references_of(text)) for text in self.texts_of_split(test_set)} or {0}
        return [test_set, *(f"{test_set}.{number}" for number in range(2, max(further) + 2))]

    @property
    def all_references(self) -> list[str]:
        return [split for test_set in self.test_sets for split in self.references(test_set)]

    @property
    def further_references(self) -> list[str]:
        """`references` of all test sets without the test sets themselves."""
        return [split for split in self.all_references if split not in self.test_sets]

    def texts_of_split(self, split: str) -> list[DatasetText]:
        """The texts of a split that exists already; none of a split that the workflow makes.

        The texts of a further reference have that reference as their target.
        """
        if split in self.contrast_sets:
            return []
        test_set, dot, number = split.partition(".")
        if dot:
            return [
                UserText(source=text.source, target=text.references[int(number) - 2])
                for text in self.texts_of_split(test_set)
                if isinstance(text, UserText)
            ]
        if self.splits is None:
            return []
        dev = [] if isinstance(self.splits.dev, DevSample) else self.splits.dev
        return {"train": self.splits.train, "dev": dev, **self.splits.test}[split]

    @property
    def texts(self) -> Iterator[tuple[str, DatasetText]]:
        if self.partition:
            yield "partition.text", self.partition.text
        for split in self.split_names:
            where = f"splits.{split}" if split in ("train", "dev") else f"splits.test.{split}"
            yield from ((f"{where}.{number}", text) for number, text in enumerate(self.texts_of_split(split)))

    @property
    def contrast_texts(self) -> Iterator[tuple[str, ContrastText]]:
        for name, texts in self.contrast_sets.items():
            yield from ((f"contrast_sets.{name}.{number}", text) for number, text in enumerate(texts))

    def annotation_jobs(self, split: str) -> int:
        return self.parse_jobs if split == "train" else 1
