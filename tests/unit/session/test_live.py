from __future__ import annotations

from array import array

from stepscope.analyze.fold import LoopFold
from stepscope.model.event import COLUMNS, Batch
from stepscope.session.live import live_text
from stepscope.store.status import StatusPage

NAMES = {1: "input.next", 2: "forward", 3: "backward", 4: "optimizer.step"}
MS = 1_000_000


def steps(count: int) -> Batch:
    """Steps of 10 ms: 6 ms of input, 2 of forward, 1 of backward, 1 of the optimizer."""
    rows = []
    for number in range(count):
        at = number * 10 * MS
        for name, lasted in ((1, 6), (2, 2), (3, 1), (4, 1)):
            rows.append((at, lasted * MS, -1, -1, 1, 1.0, name, 0, number, 9, 1, 0))
            at += lasted * MS
    columns = {
        column.name: memoryview(array(column.code, values))
        for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    return Batch(len(rows), columns, NAMES)


def test_before_the_first_step_it_says_so() -> None:
    assert live_text([], []) == " stepscope  no step yet"
    assert live_text([LoopFold()], []) == " stepscope  no step yet"


def test_it_tells_of_the_process_that_is_foremost() -> None:
    fold = LoopFold()
    fold.update(steps(100))
    text = live_text([LoopFold(), fold], [])
    assert text.startswith(" stepscope  100 steps  100 steps/s")
    assert "mostly input wait (60 %)" in text


def test_losses_are_told_at_once() -> None:
    pages = [StatusPage(1, 9, 2000, 34, 28, 0, "")]
    assert live_text([], pages).endswith("2,034 events lost")
