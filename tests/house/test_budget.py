"""The project grows in no room above its number in budget.yaml; a number falls when its room has become smaller."""

from __future__ import annotations

import pytest
import yaml
from budget import TABLE, count

SLACK = 0.03  # a room that became smaller by more than this lowers its number, so that it cannot grow back unseen


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    return count()


def test_no_room_is_above_its_number(counted: dict[str, int]) -> None:
    numbers = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    above = {name: (number, numbers.get(name, 0)) for name, number in counted.items() if number > numbers.get(name, 0)}
    assert not above, f"counted, allowed: {above}. Next: remove as much elsewhere in the room (CONTRIBUTING.md, Budget)"


def test_the_numbers_fall_with_the_rooms(counted: dict[str, int]) -> None:
    numbers = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    below = {name: number for name, number in numbers.items() if counted.get(name, 0) < (1 - SLACK) * number}
    assert not below, f"smaller than their numbers: {below}. Next: make budget"
