"""The card of an exported model: what it is, how good, on which data it was trained, and under whose terms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.scores import SystemScores
from phrasemt.registry.corpora import corpus
from phrasemt.study.datasets import Dataset, RegistryText
from phrasemt.study.schema import Study
from phrasemt.workflow.paths import Paths
from phrasemt.workflow.trained_system import SystemSettings


def model_card(study: Study, dataset: str, system: str, seed: int) -> str:
    """The card of a system of a study as Markdown. Scores that are not there yet are said to be missing."""
    return "\n".join(_lines(study, dataset, system, seed)) + "\n"


def _lines(study: Study, dataset: str, system: str, seed: int) -> Iterator[str]:
    data, settings = study.datasets[dataset], SystemSettings.of_study(study, dataset, system)
    yield f"# {study.titles[system]}, {data.source_language}-{data.target_language}"
    yield ""
    yield (
        f"A translation model of phrasemt from {data.source_language} to {data.target_language}: system `{system}` of "
        f"the study `{study.study}` ({study.title or 'no title'}), data set `{dataset}`, seed {seed}."
    )
    yield from ("", "```bash", "phrasemt translate --model THIS_FOLDER < text > translations", "```")
    yield from ("", "## Model", "")
    model = settings.model.model_dump(mode="json", exclude_defaults=True)
    yield f"- family `{settings.model.family}`: " + ", ".join(
        f"{key} {value}" for key, value in model.items() if key != "family"
    )
    unit = "whole words" if settings.vocabulary_threshold is None else "joint subwords (byte-pair encoding)"
    yield f"- {unit}; tokens: {settings.source_tokenizer.unit} (source), {settings.target_tokenizer.unit} (target)"
    search = settings.decoding
    yield f"- beam search with {search.beam} hypotheses, length penalty {search.length_penalty}"
    if settings.reads_parses:
        yield f"- phrases are cut from parses; the folder `parser` holds the parser `{data.source_parser}`"
    yield from ("", "## Scores", "")
    yield from _scores(Path(Paths.of(study, dataset).system_scores.at(system=system, seed=seed)))
    yield from ("", "## Training data", "")
    yield from _data(data)
    yield from (
        "",
        "The terms of the training data may restrict the use of the model. phrasemt itself has the MIT licence.",
    )


def _scores(path: Path) -> Iterator[str]:
    if not path.is_file():
        yield "The model is not scored yet."
        return
    yield from ("| test set | metric | score | signature |", "|---|---|---:|---|")
    for test_set, scores in SystemScores.read(path).test_sets.items():
        for name, metric in scores.metrics.items():
            signature = metric.signature.replace("|", "\\|")
            yield f"| {test_set} ({scores.sentences} sentences) | {name} | {metric.score:.2f} | {signature} |"


def _data(data: Dataset) -> Iterator[str]:
    if data.generator is not None:
        yield f"- {data.generator.train} pairs that the generator of phrasemt made (MIT)"
    texts = [data.partition.text] if data.partition else data.texts_of_split("train")
    for text in texts:
        if isinstance(text, RegistryText):
            entry = corpus(text.corpus)
            yield f"- `{entry.id}`, {text.part}: {entry.description}"
            yield f"    - terms: {entry.terms}"
            yield f"    - citation: {entry.citation.strip()}"
        else:
            names = ", ".join(file.name for file in text.files.values())
            yield f"- your own files, terms unknown to phrasemt: {names}"
