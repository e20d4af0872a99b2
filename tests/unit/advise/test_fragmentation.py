from __future__ import annotations

import pytest

from stepscope.advise.fragmentation import advise_fragmentation, fix_for
from stepscope.model.memory import Fragmentation, Memory


def cuda(free: int, largest: int | None, split: int) -> Fragmentation:
    return Fragmentation("cuda:0", 1000, 1000 - free, free, largest, split)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (cuda(400, 100, 350), "expandable_segments:True"),
        (cuda(400, 100, 50), "empty_cache"),
        (Fragmentation("glibc", 1000, 500, 500, 20), "MALLOC_ARENA_MAX"),
    ],
)
def test_scattered_memory_has_the_fix_that_fits(found: Fragmentation, said: str) -> None:
    assert said in fix_for(found)


@pytest.mark.parametrize(
    "found",
    [
        cuda(400, 390, 350),  # nearly all of it is in one piece
        cuda(90, 10, 80),  # little against what is reserved
        cuda(400, None, 350),  # not known
        cuda(0, 0, 0),
        Fragmentation("cuda:0", 0, 0, 0, 0),
    ],
)
def test_what_is_as_it_should_be_has_none(found: Fragmentation) -> None:
    assert fix_for(found) == ""


def test_every_allocator_is_advised_by_itself() -> None:
    memory = Memory("run", fragmentation=(cuda(0, 0, 0), cuda(400, 100, 350)))
    fixes = [one.fix for one in advise_fragmentation(memory).fragmentation]
    assert fixes[0] == ""
    assert fixes[1]
