"""Rows of the table: what every system has, translations of other programs, and phrase-based systems of Moses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from phrasemt.fields import Number, Settings, Title, UserPath
from phrasemt.study.datasets import Dataset, PaperRowPlace


class TableRow(Settings):
    """Base of all kinds of systems."""

    title: Title | None = Field(None, description="name in the table; default: the key of the system")
    stands_for: list[PaperRowPlace] = Field(
        [],
        description="rows of papers that the system reproduces, e.g. [xu2020/table-2/max] (`phrasemt papers`); the "
        "scorecard shows their figures beside ours",
    )

    @property
    def translates(self) -> bool:
        return True

    def heading(self, name: str) -> str:
        return self.title or name

    def seeds_among(self, of_study: Sequence[int]) -> list[int]:
        return list(of_study)


class OutsideSystem(TableRow):
    """A system of another program: a row whose translations are files. Nothing is trained."""

    translations: Annotated[
        Annotated[UserPath, Tag("one")] | Annotated[dict[str, UserPath], Tag("several")],
        Discriminator(lambda value: "several" if isinstance(value, dict) else "one"),
    ] = Field(
        description="file of the translations of the test set, raw text in UTF-8, a line for each sentence, also as "
        ".gz; with several test sets a file for each one: {test_set: FILE}, or {data_set.test_set: FILE} with several "
        "data sets"
    )

    def seeds_among(self, of_study: Sequence[int]) -> list[int]:
        return list(of_study[:1])

    def files(self, datasets: Mapping[str, Dataset]) -> dict[tuple[str, str], Path]:
        """The file of each data set and test set that has one."""
        keys = _keys(datasets)
        if isinstance(self.translations, Path):
            return {next(iter(keys.values())): self.translations}
        return {keys[key]: file for key, file in self.translations.items() if key in keys}

    def problems(self, datasets: Mapping[str, Dataset]) -> Iterator[str]:
        """What does not fit the test sets of the study."""
        keys = _keys(datasets)
        if isinstance(self.translations, Path):
            if len(keys) > 1:
                test_set = next(iter(keys))
                yield f"translations is one file, but there are {len(keys)} test sets: give {{{test_set}: FILE, ...}}"
            return
        yield from (f"translations has no file for the test set {key}" for key in keys if key not in self.translations)
        for key in self.translations:
            if key not in keys:
                yield f"translations.{key}: no such test set; allowed: {', '.join(keys)}"


def _keys(datasets: Mapping[str, Dataset]) -> dict[str, tuple[str, str]]:
    """Data set and test set by the name of a test set in a study. No name has a dot, so it is clear."""
    places = [(name, test_set) for name, dataset in datasets.items() for test_set in dataset.test_sets]
    return {f"{name}.{test_set}" if len(datasets) > 1 else test_set: (name, test_set) for name, test_set in places}


# Defaults of phrase-based systems are those of Moses (Koehn et al. 2007), except fast_align in place of GIZA++
# and batch MIRA in place of MERT, so titles name aligner and tuner.
WordCount = Annotated[int, Field(gt=0), Number(at_most=1_000, because="alignment of longer sentences takes hours")]
Runs = Annotated[int, Field(gt=1), Number(at_most=100, because="each run decodes dev")]

Casing = Literal["truecase", "lower"]


class MosesModel(Settings):
    """What is learnt from the training pairs."""

    family: Literal["moses"] = Field(description="model family")
    case: Casing = Field(
        "truecase",
        description="truecase: the first word of a sentence in the spelling that it has elsewhere, and translations "
        "begin in upper case; lower: all in lower case, for bleu_lc",
    )
    max_words: WordCount = Field(
        80, description="longest side of a pair that is aligned, in words; longer pairs are left out"
    )

    @property
    def folder_name(self) -> str:
        """Options that differ from their defaults: the folder name of the files that systems with them share."""
        options = self.model_dump(mode="json", exclude={"family"}, exclude_defaults=True)
        return "_".join(f"{key}-{value}" for key, value in options.items()) or "default"


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
