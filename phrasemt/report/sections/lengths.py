"""BLEU by the length of the source (Xu et al. 2020, Figure 3), a part of the section "Analyses"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phrasemt.artefacts.scores import LengthGroup, LengthScores, LengthsOnTestSet
from phrasemt.report.figures import Drawing, Series, draw_categories
from phrasemt.report.page import Analysis, TextTable


def length_analyses(paths: Sequence[Path], titles: Mapping[str, str]) -> Iterator[Analysis]:
    """Yield the part; none without files. paths: files of `score_by_length`. titles: of systems, in their order."""
    if not paths:
        return
    files = [LengthScores.read(path) for path in paths]
    drawings, tables = [], []
    for dataset in dict.fromkeys(file.dataset for file in files):
        of_dataset = [file for file in files if file.dataset == dataset]
        for test_set in of_dataset[0].test_sets:
            # The first convention is that of the papers.
            systems = {
                titles[file.system]: next(iter(file.test_sets[test_set].values()))
                for file in sorted(of_dataset, key=lambda file: list(titles).index(file.system))
            }
            drawings.append(_drawing(dataset, test_set, systems))
            tables.append(_table(dataset, test_set, systems))
    samples = files[0].samples
    text = (
        "BLEU tok, whose signature stands below the results, on groups of sentences by the number of words in the "
        f"source, with 95 % intervals from {samples:,} bootstrap samples of the sentences of each group. Intervals of "
        "two systems may overlap although their difference is significant, because both translate the same sentences."
    )
    yield Analysis(heading="BLEU by length of the source", text=text, drawings=drawings, tables=tables)


def _drawing(dataset: str, test_set: str, systems: Mapping[str, LengthsOnTestSet]) -> Drawing:
    groups = next(iter(systems.values())).groups
    shown = [number for number, group in enumerate(groups) if group.sentences]
    series = []
    for title, lengths in systems.items():
        estimates = [bleu for number in shown if (bleu := lengths.groups[number].bleu) is not None]
        series.append(
            Series(
                group=title,
                x=range(len(shown)),
                y=[bleu.value for bleu in estimates],
                low=[bleu.low for bleu in estimates],
                high=[bleu.high for bleu in estimates],
            )
        )
    return draw_categories(
        f"lengths-{dataset}-{test_set}",
        [groups[number].name for number in shown],
        series,
        title=f"{dataset}, {test_set}: BLEU by length",
        x_label="words in the source",
        y_label="BLEU tok",
    )


def _table(dataset: str, test_set: str, systems: Mapping[str, LengthsOnTestSet]) -> TextTable:
    groups = next(iter(systems.values())).groups
    return TextTable(
        caption=f"{dataset}, {test_set}; BLEU tok",
        headings=["System", *(f"{group.name} ({group.sentences:,})" for group in groups)],
        rows=[[title, *map(_cell, lengths.groups)] for title, lengths in systems.items()],
    )


def _cell(group: LengthGroup) -> str:
    bleu = group.bleu
    return "–" if bleu is None else f"{bleu.value:.2f} [{bleu.low:.1f}, {bleu.high:.1f}]"
