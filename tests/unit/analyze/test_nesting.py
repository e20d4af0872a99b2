from __future__ import annotations

import os

import pytest

from stepscope.analyze.nesting import NestingFold
from stepscope.model import names
from stepscope.model.process import ProcessInfo
from tests.unit.analyze.made import MS, Event, batch, span

HERE = ProcessInfo(os.getpid(), 1, 0, 1, "host", "program", (), "3.11", "native", 0, 0)


def run(identity: str, start: float, end: float, track: int = 100) -> Event:
    return span(names.OPERATION, start, end, track=track) | {"text": identity}


def own(*events: Event, **walls_ms: float) -> dict[str, float]:
    """`walls_ms`: exact totals; operation a is "1/a"."""
    fold = NestingFold("1/")
    fold.update(HERE, [batch(events)])
    found = fold.own_ns({f"1/{name}": round(ms * MS) for name, ms in walls_ms.items()})
    return {identity[2:]: ns / MS for identity, ns in found.items()}


def test_what_ran_within_it_is_taken_off_once() -> None:
    events = (run("1/c", 2, 3), run("1/b", 1, 4), run("1/b", 5, 6), run("1/a", 0, 10))
    assert own(*events, a=10, b=4, c=1) == {"a": 6, "b": 3, "c": 1}


def test_another_thread_is_not_within_it() -> None:
    events = (run("1/b", 1, 4, track=101), run("1/a", 0, 10))
    assert own(*events, a=10, b=3) == {"a": 10, "b": 3}


def test_one_after_another_and_overlapping_ones_are_not_nested() -> None:
    assert own(run("1/a", 0, 1), run("1/b", 1, 2), a=1, b=1) == {"a": 1, "b": 1}
    assert own(run("1/a", 0, 2), run("1/b", 1, 3), a=2, b=2) == {"a": 2, "b": 2}


def test_an_operation_that_calls_itself_is_counted_once() -> None:
    assert own(run("1/a", 1, 3), run("1/a", 0, 4), a=6) == {"a": 4}


def test_operations_of_other_profilers_do_not_count() -> None:
    assert own(run("2/b", 1, 4), run("1/a", 0, 10), a=10) == {"a": 10}


def test_where_every_second_run_was_recorded_the_rest_is_taken_to_be_alike() -> None:
    inner = (run("1/b", 1, 2), run("1/b", 3, 4), run("1/a", 0, 10))
    assert own(*inner, a=10, b=4) == {"a": 6, "b": 4}  # two of four runs of b
    outer = (run("1/b", 1, 2), run("1/a", 0, 5), run("1/b", 6, 7))
    assert own(*outer, a=10, b=2) == {"a": 8, "b": 2}  # one of two runs of a


def test_many_runs_in_a_row_stay_few_in_memory() -> None:
    events = [run("1/b", at, at + 0.5) for at in range(1, 20_001)]
    found = own(*events, run("1/a", 0, 30_000), a=30_000, b=10_000)
    assert found["a"] == pytest.approx(20_000)
