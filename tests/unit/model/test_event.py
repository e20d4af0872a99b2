"""Events are found by their names, in their order."""

from __future__ import annotations

import pytest

from stepscope.model.event import Batch
from tests.unit.analyze.made import batch, sample

NAMES = ["a", "b", "a", "c", "a", "d", "b", "e", "e", "e", "e", "e", "e", "e", "e", "e"]


@pytest.fixture
def events() -> Batch:
    return batch(sample(name, at, 0.0) for at, name in enumerate(NAMES))


@pytest.mark.parametrize(
    "wanted", [("a",), ("a", "b"), ("d", "c"), ("a", "e"), ("a", "b", "c", "d", "e"), ("z",), ()]
)
def test_places_are_those_of_the_wanted_names_in_order(events: Batch, wanted: tuple[str]) -> None:
    expected = [(name, place) for place, name in enumerate(NAMES) if name in wanted]
    assert list(events.places(wanted)) == expected
    assert list(events.places(wanted)) == expected, "asked once more"


def test_a_part_has_places_of_its_own(events: Batch) -> None:
    assert list(events.places(("a",))) == [("a", 0), ("a", 2), ("a", 4)]
    assert list(events.part(2, 5).places(("a",))) == [("a", 0), ("a", 2)]


def test_names_that_no_event_has_are_not_there(events: Batch) -> None:
    part = events.part(7, 16)
    assert [part.names[number] for number in part.by_name] == ["e"]
