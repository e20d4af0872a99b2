"""Which lines leak, from what they held at the ends of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.memory_growth import (
    Examined,
    Grown,
    Line,
    evenly,
    examined_of,
    judge_line,
)
from stepscope.model.memory import CATEGORIES, INPUT, OPTIMIZER_STATE, PARAMETER

KIB = 1024
STEPS = tuple(range(1, 61))


def held(
    size: Callable[[int], int], blocks: Callable[[int], int] | None = None, label: int = 0
) -> Line:
    line = Line()
    for step in STEPS:
        line.update(step, label, (size(step), blocks(step) if blocks else size(step) // KIB))
    return line


def judged(
    line: Line, examined: Examined | None = None, windows: Sequence[int] = STEPS
) -> Grown | None:
    return judge_line(line, windows, dict.fromkeys(STEPS, 10 * KIB), examined)


def verdict(line: Line, examined: Examined | None = None) -> str | None:
    found = judged(line, examined)
    return found.verdict if found is not None else None


def test_a_line_that_keeps_the_same_with_every_step_leaks_at_that_rate() -> None:
    found = judged(held(lambda step: 4 * KIB * step))
    assert found is not None
    assert found.verdict == "leak"
    assert found.bytes_per_step == pytest.approx(4 * KIB)


def test_windows_that_become_rarer_do_not_change_the_rate() -> None:
    windows = [step for step in STEPS if step < 12 or step % 7 == 0]
    found = judged(held(lambda step: 4 * KIB * step), windows=windows)
    assert found is not None
    assert found.verdict == "leak"
    assert found.bytes_per_step == pytest.approx(4 * KIB)


def test_what_does_not_grow_is_nothing() -> None:
    assert verdict(held(lambda _: 1000 * KIB)) is None
    assert verdict(held(lambda step: 1000 * KIB - step * KIB)) is None
    assert verdict(held(lambda step: 100 * step)) is None  # 6 kB in all


def test_a_cache_that_is_full_is_a_cache() -> None:
    assert verdict(held(lambda step: 50 * KIB * min(step, 30))) == "cache"


def test_a_cache_that_gives_its_oldest_for_each_new_one_does_not_leak() -> None:
    assert verdict(held(lambda step: 50 * KIB * min(step, 10))) is None


@pytest.mark.parametrize("category", [OPTIMIZER_STATE, PARAMETER])
def test_what_belongs_to_a_model_or_an_optimizer_is_no_leak(category: str) -> None:
    label = CATEGORIES.index(category) + 1
    assert verdict(held(lambda step: 40 * KIB * step, label=label)) is None


def test_a_leak_is_found_beside_optimizer_state_of_the_same_line() -> None:
    line = held(lambda step: 40 * KIB * step)
    for step in STEPS:
        line.update(step, CATEGORIES.index(OPTIMIZER_STATE) + 1, (10_000 * KIB, 4))
    found = judged(line)
    assert found is not None
    assert (found.verdict, line.category) == ("leak", "other")


def test_as_many_blocks_that_grow_with_the_batch_follow_its_shape() -> None:
    line = held(lambda step: 40 * KIB * step, blocks=lambda _: 1)
    transients = {step: 500 * KIB * step for step in STEPS}
    found = judge_line(line, STEPS, transients)
    assert found is not None
    assert found.verdict == "input shape"


def test_one_block_that_grows_while_batches_do_not_leaks() -> None:
    """As torch.cat does it, that collects results."""
    assert verdict(held(lambda step: 40 * KIB * step, blocks=lambda _: 1)) == "leak"


def test_a_batch_that_is_held_follows_the_shape_of_the_input() -> None:
    label = CATEGORIES.index(INPUT) + 1
    line = held(lambda step: 40 * KIB * step, blocks=lambda _: 1, label=label)
    assert verdict(line) == "input shape"


def test_what_a_collection_frees_is_garbage_with_the_rate_at_which_it_comes() -> None:
    line = held(lambda step: 4 * KIB * (step % 20))
    found = judged(line, Examined(100 * KIB, 90 * KIB, ("Episode",)))
    assert found is not None
    assert (found.verdict, found.bytes_per_step) == ("cycle garbage", 4 * KIB)


def test_what_a_collection_does_not_free_is_a_leak_still() -> None:
    found = judged(held(lambda step: 4 * KIB * step), Examined(100 * KIB, 10 * KIB))
    assert found is not None
    assert found.verdict == "leak"
    assert "collection" in found.why


def test_stacks_that_are_one_line_are_taken_together() -> None:
    even, odd = Line(), Line()
    for step in STEPS:
        (even if step % 2 == 0 else odd).update(step, 0, (8 * KIB * ((step + 1) // 2), step))
    found = judged(Line.together([even, odd]))
    assert found is not None
    assert found.verdict == "leak"
    assert found.bytes_per_step == pytest.approx(8 * KIB, rel=0.05)


def test_what_the_collector_told_is_read_with_care() -> None:
    assert examined_of([], []) is None
    strange = {"before": "much", "freed": True, "classes": 7}
    assert examined_of([strange], [{"held_by": [1, 2]}]) == Examined(0, 0, (), ("1", "2"))


@given(st.sets(st.integers(0, 100_000), min_size=1))
def test_chosen_windows_are_some_of_them_with_both_ends(steps: set[int]) -> None:
    windows = sorted(steps)
    chosen = evenly(windows)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= steps
    assert (chosen[0], chosen[-1]) == (windows[0], windows[-1])
