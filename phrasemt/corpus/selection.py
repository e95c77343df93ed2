"""The rows that a part of a registered corpus takes from its sides (RowSelection of phrasemt/registry/corpora.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from phrasemt.registry.corpora import CorpusPart, RowSelection

# The sentences of one row, in the order of the sides of its part.
Row = tuple[str, ...]


def select_rows(
    part: CorpusPart, parts: dict[str, CorpusPart], rows_of: Callable[[CorpusPart], Iterator[Row]]
) -> Iterator[Row]:
    """Yield the rows of a part that its selection takes, in their order.

    parts: by name, with those from which the part stays apart. rows_of: all rows of the sides of a part.
    """
    rule = part.selection
    if rule is None:
        yield from rows_of(part)
        return
    taken: dict[str, set[str]] = {language: set() for language in part.sides}  # sentences that no row may have
    for name in rule.apart_from:
        for row in select_rows(parts[name], parts, rows_of):
            for language, sentence in zip(parts[name].sides, row, strict=True):
                taken[language].add(sentence)
    sources = [parts[name] for name in rule.parts] or [part]
    rows: Iterable[Row] = (row for source in sources for row in rows_of(source))
    if rule.distinct:
        rows = dict.fromkeys(rows)
    for number, row in enumerate(row for row in rows if _fits(row, rule)):
        if rule.blocks and number // rule.blocks.size % rule.blocks.period not in rule.blocks.numbers:
            continue
        if not any(sentence in taken[language] for language, sentence in zip(part.sides, row, strict=True)):
            yield row


def _fits(row: Row, rule: RowSelection) -> bool:
    characters = [*map(len, row)]
    return all(len(sentence.split()) >= rule.min_words for sentence in row) and (
        rule.ratio_below is None or max(characters) < rule.ratio_below * min(characters)
    )
