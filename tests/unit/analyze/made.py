"""Batches made by hand. Times in milliseconds, on the training thread unless said otherwise."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.loop import Loop
from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType, Flag
from stepscope.model.phases import Phase

MS = 1_000_000
THREAD = 100
Event = dict[str, float | int | str]


def span(
    name: str,
    start: float,
    end: float,
    arg: int = 0,
    value: float = 0.0,
    cpu: tuple[float, float] | None = None,
    track: int = THREAD,
    flags: int = 0,
) -> Event:
    """A span from `start` to `end`; `cpu`: the thread's CPU clock at both ends."""
    event: Event = {
        "type": int(EventType.SPAN),
        "name": name,
        "time_ns": round(start * MS),
        "duration_ns": round((end - start) * MS),
        "arg": arg,
        "value": value,
        "track": track,
        "flags": flags,
    }
    if cpu is not None:
        event |= {"cpu_start_ns": round(cpu[0] * MS), "cpu_ns": round((cpu[1] - cpu[0]) * MS)}
    return event


def mark(name: str, at: float, arg: int = 0, text: str = "") -> Event:
    return {
        "type": int(EventType.MARK),
        "name": name,
        "time_ns": round(at * MS),
        "arg": arg,
        "text": text,
        "track": THREAD,
    }


def sample(name: str, at: float, value: float, arg: int = 0) -> Event:
    return {
        "type": int(EventType.SAMPLE),
        "name": name,
        "time_ns": round(at * MS),
        "arg": arg,
        "value": value,
        "track": THREAD,
    }


def batch(events: Iterable[Event]) -> Batch:
    numbers: dict[str, int] = {}
    rows = [
        event
        | {
            key: numbers.setdefault(str(event[key]), len(numbers) + 1)
            for key in ("name", "text")
            if event.get(key)
        }
        for event in events
    ]
    columns = {
        column.name: memoryview(array(column.code, [_number(row, column.name) for row in rows]))
        for column in COLUMNS
    }
    return Batch(len(rows), columns, {number: text for text, number in numbers.items()})


def _number(row: Event, column: str) -> Any:
    return row.get(column, -1 if column in ("cpu_start_ns", "cpu_ns") else 0)


def fold(events: Sequence[Event], batch_size: int = 1000, began: float = 0.0) -> LoopFold:
    made = LoopFold(began_ns=round(began * MS))
    for at in range(0, len(events), batch_size):
        made.update(batch(events[at : at + batch_size]))
    return made


def loop(events: Sequence[Event], batch_size: int = 1000, began: float = 0.0) -> Loop:
    found = fold(events, batch_size, began).get()
    assert found is not None
    assert sum(time.wall_ns for time in found.phases.values()) == found.wall_ns
    return found


def phases(found: Loop) -> dict[str, float]:
    """Phases that occurred, in ms."""
    return {str(phase): time.wall_ns / MS for phase, time in found.phases.items() if time.wall_ns}


def cpu_ms(found: Loop, phase: Phase) -> float | None:
    cpu_ns = found.phases[phase].cpu_ns
    return None if cpu_ns is None else cpu_ns / MS


# ---- the spans of a loop, by the names that people give them ----


def iter_(start: float, end: float, iterator: int = 1) -> Event:
    return span(names.INPUT_ITER, start, end, iterator)


def next_(
    start: float, end: float, iterator: int = 1, cpu: tuple[float, float] | None = None
) -> Event:
    return span(names.INPUT_NEXT, start, end, iterator, cpu=cpu)


def exhausted(start: float, end: float, iterator: int = 1) -> Event:
    return span(names.INPUT_NEXT, start, end, iterator, flags=int(Flag.FAILED))


def forward(
    start: float, end: float, module: int = 7, cpu: tuple[float, float] | None = None
) -> Event:
    return span(names.FORWARD, start, end, module, 1.0, cpu)


def no_grad(
    start: float, end: float, module: int = 7, kind: float = names.FORWARD_WITHOUT
) -> Event:
    return span(names.FORWARD, start, end, module, kind)


def in_eval(start: float, end: float, module: int = 7) -> Event:
    """A forward without gradients, of a module in eval mode."""
    return no_grad(start, end, module, names.FORWARD_IN_EVAL)


def backward(start: float, end: float, cpu: tuple[float, float] | None = None) -> Event:
    return span(names.BACKWARD, start, end, cpu=cpu)


def optimizer(
    start: float, end: float, which: int = 9, cpu: tuple[float, float] | None = None
) -> Event:
    return span(names.OPTIMIZER_STEP, start, end, which, cpu=cpu)


def step(at: float, iterator: int = 1) -> list[Event]:
    """100 ms: input 30, gap 10, forward 20, backward 25, gap 5, optimizer 10."""
    return [
        next_(at, at + 30, iterator, cpu=(at, at + 30)),
        forward(at + 40, at + 60, cpu=(at + 40, at + 60)),
        backward(at + 60, at + 85, cpu=(at + 60, at + 85)),
        optimizer(at + 90, at + 100, cpu=(at + 90, at + 100)),
    ]


def training(steps: int, at: float = 0.0) -> list[Event]:
    return [event for number in range(steps) for event in step(at + 100 * number)]
