"""`phrasemt describe`: show the parts of a system, its parameters, and its multiply-adds beside the baseline's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.columns import Vocabulary
from phrasemt.artefacts.paths import Paths
from phrasemt.commands._arguments import add_dataset, add_study, chosen_dataset, chosen_system, print_changes
from phrasemt.models.cost import POSITIONS, cost_of
from phrasemt.study.schema import Study
from phrasemt.symbols import SPECIAL_TOKENS
from phrasemt.workflow.changes import changes_since


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study(parser)
    parser.add_argument("--system", metavar="NAME", help="system of the study")
    add_dataset(parser)


def run(options: argparse.Namespace) -> None:
    """Print two tables. Raises PhrasemtError for a study, a system or a data set that does not exist."""
    study, dataset = chosen_dataset(options)
    system = chosen_system(study, options.system)
    print_changes(changes_since(study))
    for line in describe(study, system, dataset):
        print(line)


def describe(study: Study, system: str, dataset: str) -> Iterator[str]:
    """Yield the lines about a system of a study, with the vocabularies of a data set."""
    source, target, origin = vocabulary_sizes(study, dataset)
    model = study.models[system].model
    cost = cost_of(model, source_vocabulary=source, target_vocabulary=target)
    sizes = f"{source:,} source and {target:,} target symbols" if model.translates else f"{target:,} symbols"
    yield f"{system}: {model.full_name}, on {dataset} with {sizes} ({origin})"

    yield f"\n{'part':<36} {'layers':>6} {'parameters':>13} {'share':>7}"
    for part in cost.parts:
        name = f"{'  ' * part.depth}{part.name}"
        yield f"{name:<36} {part.layers or '':>6} {part.parameters:>13,} {part.parameters / cost.parameters:>7.1%}"
    yield f"{'total':<36} {'':>6} {cost.parameters:>13,} {1:>7.1%}"
    used = cost.parameters - cost.unused
    yield f"{'in use':<36} {'':>6} {used:>13,} {used / cost.parameters:>7.1%}"

    yield f"\nmultiply-adds per target token, forward pass, for a pair of {POSITIONS} positions on each side"
    yield f"{system:<36} {'':>6} {cost.multiply_adds:>13,.0f}"
    plain = model.plain_counterpart
    compared = {f"plain {plain.family} of its size": plain}
    name_of_baseline = study.baseline_of(system)
    if (baseline := study.models.get(name_of_baseline)) is not None:
        compared = {f"{name_of_baseline}, the baseline": baseline.model} | {
            name: other for name, other in compared.items() if other != baseline.model
        }
    for name, other in compared.items():
        if other != model:
            cheaper = cost_of(other, source_vocabulary=source, target_vocabulary=target).multiply_adds
            yield f"{name:<36} {'':>6} {cheaper:>13,.0f} x {cost.multiply_adds / cheaper:.2f}"


def vocabulary_sizes(study: Study, dataset: str) -> tuple[int, int, str]:
    """Return the numbers of source and target symbols, special symbols included, and where they come from."""
    settings = study.datasets[dataset]
    vocabulary = Paths.of(study, dataset).vocabulary
    paths = [Path(vocabulary.at(language=language)) for language in settings.languages]
    if all(path.exists() for path in paths):
        source, target = (len(Vocabulary.read(path)) for path in paths)
        return source, target, vocabulary.glob
    key = "words" if settings.subwords.unit == "word" else "symbols" if settings.subwords.symbols else "merges"
    size = getattr(settings.subwords, key) + len(SPECIAL_TOKENS)
    return size, size, f"an estimate from subwords.{key}, because there are no vocabulary files yet"
