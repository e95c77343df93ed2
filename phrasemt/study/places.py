"""Places in papers, checked when a study is read: `xu2020/table-2/max` is a row, `xu2020/en-de` a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from phrasemt.errors import DataError
from phrasemt.printed.results import data_at, row_at


def paper_data(place: str) -> str:
    """The place of the data of a paper. Raises ValueError, which names the nearest place, for an unknown one."""
    return _checked(data_at, place)


def paper_row(place: str) -> str:
    """The place of a row of a paper. Raises ValueError, which names the nearest place, for an unknown one."""
    return _checked(row_at, place)


def _checked(find: Callable[[str], object], place: str) -> str:
    try:
        find(place)
    except DataError as error:
        raise ValueError(str(error)) from None
    return place


PaperDataPlace = Annotated[str, AfterValidator(paper_data)]
PaperRowPlace = Annotated[str, AfterValidator(paper_row)]
