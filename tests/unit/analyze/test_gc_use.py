from __future__ import annotations

import pytest

from stepscope.analyze.gc_use import GcFold, gc_patterns
from stepscope.model import names
from stepscope.model.event import Flag
from stepscope.model.memory import GcGeneration
from tests.unit.analyze.made import Event, batch, mark, span

MS = 1_000_000
UNCOLLECTABLE = 1 << names.GC_GENERATION_BITS


def gc_row(start_ms: float, lasts_ms: float, arg: int, collected: int = 0) -> Event:
    return span(names.GC, start_ms, start_ms + lasts_ms, arg, float(collected))


def step_row(end_ms: float, flags: int = 0) -> Event:
    return span(names.OPTIMIZER_STEP, end_ms - 1, end_ms, flags=flags)


def folded(*rows: Event, start_ns: int = 0) -> GcFold:
    fold = GcFold(start_ns)
    fold.update(batch([mark("other", 0, text="why"), *rows]))
    return fold


def test_collections_are_summed_by_generation() -> None:
    fold = folded(gc_row(0, 1, 0, 10), gc_row(5, 3, 0, 20), gc_row(10, 6, 2 + 7 * UNCOLLECTABLE, 5))
    use = fold.get(wall_ns=1000 * MS)
    assert use.generations == (
        GcGeneration(0, 2, 4.0, 3.0, 30, 0),
        GcGeneration(2, 1, 6.0, 6.0, 5, 7),
    )
    assert use.share == pytest.approx(0.01)
    assert (fold.count, fold.total_ns) == (3, 10 * MS)


def test_collections_outside_of_the_time_watched_do_not_count() -> None:
    fold = folded(gc_row(1, 1, 0), gc_row(5, 1, 0), start_ns=4 * MS)
    assert fold.count == 1
    fold.end_ns = 6 * MS
    fold.update(batch([gc_row(7, 1, 0)]))
    assert fold.count == 1


def test_the_time_of_a_step_is_that_between_ends_of_optimizer_steps() -> None:
    fold = folded(
        gc_row(10, 5, 2),
        step_row(100),
        gc_row(110, 20, 2),
        step_row(200),
        step_row(250, flags=int(Flag.FAILED)),
        step_row(300),
        gc_row(310, 50, 2),
    )
    assert fold.step_ns == 100 * MS
    assert fold.step_share == pytest.approx(20 / 200)
    assert folded(step_row(100)).step_ns is None


def generation(number: int, collections: int, longest_ms: float = 0.1) -> GcGeneration:
    return GcGeneration(number, collections, 1.0, longest_ms, 0, 0)


@pytest.mark.parametrize(
    ("generations", "share", "step_ms", "told"),
    [
        ([], None, None, []),
        ([generation(0, 990), generation(2, 9)], 0.009, 100.0, []),
        ([generation(0, 40), generation(2, 5)], None, None, ["5 of 45"]),
        ([generation(0, 3), generation(2, 4)], None, None, []),
        ([generation(0, 45), generation(2, 5)], None, None, []),
        ([generation(0, 1, 1.5)], None, None, ["up to 1.5 ms; more than 1 ms"]),
        ([generation(0, 1, 9.0)], None, 100.0, []),
        ([generation(0, 1, 12.0)], None, 100.0, ["12% of a step; more than 10%"]),
        ([generation(0, 1)], 0.02, None, ["take 2.0% of the time; more than 1%"]),
    ],
)
def test_a_pattern_is_told_beyond_its_limit_and_not_at_it(
    generations: list[GcGeneration], share: float | None, step_ms: float | None, told: list[str]
) -> None:
    found = gc_patterns(generations, share, step_ms)
    assert len(found) == len(told)
    assert all(part in sentence for part, sentence in zip(told, found, strict=True))


def test_a_pause_is_not_compared_with_steps_that_took_no_time() -> None:
    (told,) = gc_patterns([generation(2, 1, longest_ms=900.0)], None, 0.0)
    assert told.startswith("Pauses are long: up to 900.0 ms; more than")
