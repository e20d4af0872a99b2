"""Which line grew, asked while it still does."""

from __future__ import annotations

from stepscope.analyze.memory_run import MemoryFold
from stepscope.model import names
from stepscope.model.event import EventType
from tests.unit.analyze.made import Event, batch, mark

MB = 1_000_000
LEAK, STEADY = 1, 2


def held(step: int, stack: int, size: int) -> Event:
    return {
        "type": int(EventType.ALLOCATION),
        "name": names.MEMORY_HELD,
        "time_ns": step,
        "arg": 1,
        "value": float(size),
        "step": step,
        "cpu_start_ns": stack,
    }


def told(sizes: dict[int, int]) -> MemoryFold:
    """sizes: what the leaking line holds, by step; another one always holds 50 MB."""
    fold = MemoryFold()
    frames = [
        mark(names.STACK_FRAME, 0, LEAK, "0\t12\tkeep\t/home/me/train.py"),
        mark(names.STACK_FRAME, 0, STEADY, "0\t30\tbuild\t/home/me/train.py"),
    ]
    events = [*frames, held(1, STEADY, 50 * MB)]
    for step, size in sizes.items():
        window = mark(names.MEMORY_WINDOW, step, text="-") | {"step": step}
        events += [held(step, LEAK, size), window]
    fold.update(batch(events))
    return fold


def test_the_line_that_grew_is_named_with_the_stretch_in_which_it_did() -> None:
    fold = told({10: 0, 20: 0, 30: 40 * MB, 40: 80 * MB})
    found = fold.most_grown(70.0 * MB)
    assert found is not None
    assert (found.location.file, found.location.line) == ("/home/me/train.py", 12)
    assert (found.bytes, found.first_step, found.last_step) == (40 * MB, 30, 40)


def test_no_line_is_named_that_explains_less_than_half_of_it() -> None:
    fold = told({10: 0, 20: 10 * MB})
    assert fold.most_grown(70.0 * MB) is None


def test_nothing_is_known_before_the_second_window() -> None:
    assert MemoryFold().most_grown(1.0) is None
    assert told({10: 80 * MB}).most_grown(1.0 * MB) is None
