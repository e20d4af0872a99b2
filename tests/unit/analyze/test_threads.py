from __future__ import annotations

from stepscope.analyze.spans import FORWARD, GC, INPUT_ITER, SpanRow
from stepscope.analyze.steps import FoundBy
from stepscope.analyze.threads import Threads

TRAINS, WORKS = 1, 2


def row(at: int, code: int, track: int) -> SpanRow:
    return (at, at + 1, code, 7, 1.0, -1, -1, 0, track)


def test_a_thread_without_a_sign_of_steps_is_remembered_only_lately() -> None:
    threads = Threads()
    for at in range(30_000):
        threads.update([row(at, GC, WORKS)])
    assert len(threads) <= 1000
    assert threads.rows(WORKS)[-1][0] == 29_999
    assert threads.best() == (FoundBy.NOTHING, 0)


def test_a_thread_that_shows_one_is_remembered_from_its_beginning() -> None:
    threads = Threads()
    threads.update([row(0, INPUT_ITER, TRAINS), row(1, FORWARD, TRAINS)])
    for at in range(2, 5000):
        threads.update([row(at, GC, TRAINS)])
    assert len(threads.rows(TRAINS)) == 5000
    assert threads.best() == (FoundBy.FORWARD, TRAINS)
