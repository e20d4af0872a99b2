"""The events of a capture: those of its time alone, where a program stands, and what grows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stepscope.analyze.hot_lines import flame_of, lines_of
from stepscope.analyze.line_times import Frame
from stepscope.analyze.stack_tree import StackTree
from stepscope.analyze.user_code import users_place
from stepscope.model import names
from stepscope.model.capture import GrowingLine
from stepscope.model.details import OTHER_THREADS, PhaseStacks
from stepscope.model.event import COLUMNS, Batch, EventType, Flag
from stepscope.model.finding import Location
from stepscope.model.phases import PHASE_OF_SPAN, Phase
from stepscope.model.process import ProcessInfo
from stepscope.stats.trend import trend

__all__ = ["Meanings", "Standing", "growing_line", "location_of", "within"]

# Marks that are made once, and mean something from then on.
_MEANINGS: Final = frozenset((names.STACK_FRAME, names.LAYER, names.TRAIT, names.TRANSFORM_NAME))
_OPEN, _NATIVE = int(Flag.OPEN), int(Flag.NATIVE)
_MOST_BYTES: Final = 1 << 60


def within(batch: Batch, start_ns: int, end_ns: int) -> Batch | None:
    """The events that began and ended in that time, and spans that were open. None: there are
    none."""
    rows = zip(
        *(batch.columns[name].tolist() for name in ("time_ns", "duration_ns", "flags")),
        strict=True,
    )
    places = [
        place
        for place, (time_ns, lasted_ns, flags) in enumerate(rows)
        if (start_ns <= time_ns and time_ns + lasted_ns <= end_ns)
        or (flags & _OPEN and time_ns <= end_ns)
    ]
    if not places:
        return None
    if len(places) == batch.count:
        return batch
    columns = {}
    for column in COLUMNS:
        values = batch.columns[column.name]
        columns[column.name] = memoryview(array(column.code, [values[place] for place in places]))
    return Batch(len(places), columns, batch.names)


class Meanings:
    """What the numbers of a process mean, and other facts that it tells once: `update` with every
    batch of it, `get` all of them as one batch, in the order in which they were first told."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int | str], tuple[int, str]] = {}

    def update(self, batch: Batch) -> None:
        columns = batch.columns
        for name, place in batch.places(_MEANINGS):
            number, text = columns["arg"][place], batch.names.get(columns["text"][place], "")
            key = text.partition("\t")[0] if name == names.TRAIT else number
            self._told[name, key] = (number, text)

    def get(self, time_ns: int) -> Batch | None:
        """As if they had been told at that time. None: there are none."""
        if not self._told:
            return None
        numbers: dict[str, int] = {}
        rows = [
            {
                "time_ns": time_ns,
                "type": int(EventType.MARK),
                "arg": number,
                "name": numbers.setdefault(name, len(numbers) + 1),
                "text": numbers.setdefault(text, len(numbers) + 1),
            }
            for (name, _), (number, text) in self._told.items()
        ]
        columns = {
            column.name: memoryview(array(column.code, [row.get(column.name, 0) for row in rows]))
            for column in COLUMNS
        }
        return Batch(len(rows), columns, {number: text for text, number in numbers.items()})


class Standing:
    """Where the threads of a program are that makes no steps: `update` with every batch of its
    processes, then `get`."""

    def __init__(self) -> None:
        self._tree = StackTree()
        self._numbers: dict[tuple[int, int], int] = {}  # (pid, number) → of the tree
        self._samples: list[tuple[tuple[str, str], int, int, bool, int]] = []

    def update(self, process: ProcessInfo, batch: Batch, *, is_worker: bool = False) -> None:
        columns = batch.columns
        for name, place in batch.places((names.STACK, names.STACK_FRAME)):
            text = batch.names.get(columns["text"][place], "")
            if name == names.STACK_FRAME:
                self._learn(process.pid, columns["arg"][place], text)
                continue
            if columns["track"][place] != process.pid:
                key = ("thread", OTHER_THREADS)
            elif is_worker:
                key = ("worker", text or names.WORKER)
            else:
                key = ("main", PHASE_OF_SPAN.get(text, Phase.PYTHON_BETWEEN).value)
            native = bool(columns["flags"][place] & _NATIVE)
            ns = round(columns["value"][place])
            self._samples.append((key, process.pid, columns["arg"][place], native, ns))

    def _learn(self, pid: int, number: int, text: str) -> None:
        caller, line, function, file = text.split("\t", 3)
        outer = self._numbers.get((pid, int(caller)), 0)
        self._numbers[pid, number] = self._tree.add(Frame(outer, file, function, int(line)))

    def get(self) -> tuple[PhaseStacks, ...]:
        """The training thread first, then what most of the others are in."""
        found: dict[tuple[str, str], dict[tuple[int, bool], list[int]]] = {}
        for key, pid, number, native, ns in self._samples:
            stack = self._numbers.get((pid, number), 0)
            sums = found.setdefault(key, {}).setdefault((stack, native), [0, 0])
            sums[0] += ns
            sums[1] += 1
        made = [
            PhaseStacks(
                phase=phase,
                where=where,
                ms=sum(ns for ns, _ in spent.values()) / 1e6,
                samples=sum(samples for _, samples in spent.values()),
                lines=lines_of(spent, self._tree),
                flame=flame_of(phase, spent, self._tree),
            )
            for (where, phase), spent in found.items()
        ]
        return tuple(sorted(made, key=lambda one: (one.where != "main", -one.ms, one.phase)))


def location_of(stacks: Iterable[PhaseStacks]) -> Location:
    """The user's line that took most of the training thread's time; else of the workers'."""
    for where in ("main", "worker"):
        spent: dict[Location, float] = {}
        for one in stacks:
            for line in one.lines if one.where == where else ():
                if line.location.file:
                    spent[line.location] = spent.get(line.location, 0.0) + line.share * one.ms
        if spent:
            return max(spent, key=spent.__getitem__)
    return Location()


def growing_line(text: str, rank: int) -> GrowingLine | None:
    """What a `capture.memory` mark says; None: nothing that can be read, or it does not grow."""
    try:
        told = json.loads(text)
        held = [_size(each) for each in told["bytes"]]
        every, blocks = _size(told["every"]), _size(told["blocks"])
        frames = [(str(file), int(line), str(name)) for file, line, name in told["stack"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    found = _slope(held, every)
    if found <= 0:
        return None
    stack = tuple(Location(*frame) for frame in frames)
    return GrowingLine(users_place(stack), found, held[0], held[-1], blocks, rank, stack)


def _slope(held: Sequence[int], every: int) -> float:
    line = trend([place * every for place in range(len(held))], held)
    return line.slope if line is not None else 0.0


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_BYTES:
        raise ValueError("no size")
    return value
