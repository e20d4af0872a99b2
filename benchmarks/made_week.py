"""A program that trains for a week, as the files that it would write: frames, minute by minute.

Of a step: input, forward, backward, optimizer and zero_grad, and a sample of its stack; now and
then a metric and a collection, and every half hour an epoch with workers of its own, which have
ended when the next one begins. Beside it the launcher's samples of host and processes.
"""

from __future__ import annotations

import json
import random
import struct
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch
from stepscope.record.frames import (
    COLUMN_CODES,
    EVENTS,
    FILE_BYTES,
    HEADER,
    events_frame,
    frame,
    names_frame,
)

STEP_NS = 60_480_000  # ten million of them are a week
STEPS_A_MINUTE = 1000  # of the program; a minute and a tenth of a percent
MINUTE_NS = STEPS_A_MINUTE * STEP_NS
EPOCH_MINUTES = 30
WORKERS = 2
SAMPLE_S = 5  # between two samples of the host, as at level production
PROGRAM, LAUNCHER, FIRST_WORKER = 4000, 3999, 5000
BATCH = 2000  # events, as the recorder writes them

SPAN, SAMPLE, MARK = 1, 2, 4
_STACKS = 300
_TEMPLATES = 8  # of a minute; they differ in how long things take
_LOADER = json.dumps({"workers": WORKERS, "dataset": "Images", "file": "train.py", "line": 12})

Row = tuple[int, int, int, int, int, float, str, str, int, int, int, int]


def row(
    name: str,
    at_ns: int,
    lasted_ns: int = 0,
    arg: int = 0,
    value: float = 0.0,
    text: str = "",
    kind: int = SPAN,
    step: int = 0,
    track: int = PROGRAM,
) -> Row:
    return (at_ns, lasted_ns, -1, -1, arg, value, name, text, step, track, kind, 0)


class FramesFile:
    """Files of one process that follow each other, as the recorder writes them."""

    def __init__(self, folder: Path, pid: int, parent: int, began_ns: int, role: str) -> None:
        folder.mkdir(exist_ok=True)
        self._base = folder / f"{pid}-{began_ns}"
        process = {
            "pid": pid, "parent_pid": parent, "rank": 0, "world_size": 1, "host": "here",
            "role": role, "argv": ["train.py"], "python": "3.11", "core": "native",
            "monotonic_ns": began_ns, "unix_ns": began_ns, "extra": {},
        }  # fmt: skip
        self._header = frame(HEADER, json.dumps(process).encode())
        self._numbers: dict[str, int] = {"": 0}
        self._written = self._bytes = self._number = 0

    def numbered(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """With the numbers of names in their place."""
        return [(*one[:6], self._of(one[6]), self._of(one[7]), *one[8:]) for one in rows]

    def _of(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def append(self, frames: Iterable[bytes]) -> None:
        for one in frames:
            parts = [] if self._bytes else [self._header]
            known = list(self._numbers.items())[1 + self._written if self._bytes else 1 :]
            if known:
                parts.append(names_frame((number, text) for text, number in known))
                self._written = len(self._numbers) - 1
            data = b"".join((*parts, one))
            with self._base.with_name(f"{self._base.name}.{self._number:04d}.frames").open(
                "ab"
            ) as file:
                file.write(data)
            self._bytes += len(data)
            if self._bytes >= FILE_BYTES:
                self._bytes, self._number = 0, self._number + 1


def batches(rows: list[tuple[Any, ...]]) -> Iterator[bytes]:
    for at in range(0, len(rows), BATCH):
        yield events_frame(rows[at : at + BATCH])


class _Template:
    """A minute of training whose times and steps count from 0: only these columns change."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._parts = [_Part(rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)]

    def at(self, time_ns: int, step: int) -> Iterator[bytes]:
        for part in self._parts:
            times = array("q", map(time_ns.__add__, part.times))
            steps = array("I", map(step.__add__, part.steps))
            body = [times.tobytes(), *part.packed[1:8], steps.tobytes(), *part.packed[9:]]
            yield frame(EVENTS, struct.pack("<II", len(times), 0) + b"".join(body))


class _Part:
    """One batch of it, packed."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        columns = list(zip(*rows, strict=True))
        self.times, self.steps = array("q", columns[0]), array("I", columns[8])
        self.packed = [
            struct.pack(f"<{len(rows)}{code}", *column)
            for code, column in zip(COLUMN_CODES, columns, strict=True)
        ]


def left_out(now_ns: int) -> Batch:
    """Says that there was a minute of training, and nothing else of it."""
    told = (now_ns - MINUTE_NS, MINUTE_NS, -1, -1, STEPS_A_MINUTE, 0.0, 1, 0, 0, PROGRAM, MARK, 0)
    columns = {
        column.name: memoryview(array(column.code, [value]))
        for column, value in zip(COLUMNS, told, strict=True)
    }
    return Batch(1, columns, {1: names.OWN_LEFT_OUT})


class MadeWeek:
    """`next_minute` writes what the processes of a run record in a minute of theirs."""

    def __init__(self, run: Path) -> None:
        self._random = random.Random(1)
        self._folder = run / "rank-00000"
        self._program = FramesFile(self._folder, PROGRAM, LAUNCHER, 1, "program")
        self._host = FramesFile(run / "host", LAUNCHER, 1, 1, "launcher")
        self._templates = [self._template() for _ in range(_TEMPLATES)]
        self.minute = 0
        self.running = {PROGRAM, LAUNCHER}
        frames = [
            row(names.STACK_FRAME, 1, arg=n, text=f"{n // 3}\t{n}\tf{n}\ttrain.py", kind=MARK)
            for n in range(1, _STACKS)
        ]
        self._program.append(batches(self._program.numbered(frames)))

    @property
    def now_ns(self) -> int:
        return 1_000_000_000 + self.minute * MINUTE_NS

    def next_minute(self) -> None:
        at_ns, step = self.now_ns, self.minute * STEPS_A_MINUTE
        if self.minute % EPOCH_MINUTES == 0:
            self._epoch(at_ns)
        self._program.append(self._templates[self.minute % _TEMPLATES].at(at_ns, step))
        self._host.append(batches(self._host.numbered(self._host_rows(at_ns))))
        self.minute += 1

    def _template(self) -> _Template:
        rows: list[Row] = []
        for step in range(STEPS_A_MINUTE):
            rows += self._step(step)
        return _Template(self._program.numbered(rows))

    def _step(self, step: int) -> Iterator[Row]:
        at, jitter = step * STEP_NS, self._random.randrange(2_000_000)
        yield row(names.INPUT_NEXT, at, 4_000_000 + jitter, 77, step=step)
        yield row(names.FORWARD, at + 10_000_000, 18_000_000 + jitter, 7, 1.0, step=step)
        yield row(names.BACKWARD, at + 32_000_000, 20_000_000 - jitter, step=step)
        yield row(names.OPTIMIZER_STEP, at + 54_000_000, 4_000_000 + jitter, 9, step=step)
        yield row(names.OPTIMIZER_ZERO, at + 60_000_000 + jitter // 5, 50_000, 9, step=step)
        stack = self._random.randrange(1, _STACKS)
        tag = self._random.choice((names.FORWARD, names.BACKWARD, ""))
        yield row(names.STACK, at + 33_000_000, 0, stack, 5e7, tag, SAMPLE, step)
        if step % 10 == 0:
            value = 2.0 + self._random.random()
            yield row(names.METRIC, at + 60_300_000, 0, 0, value, "loss", SAMPLE, step)
        if step % 50 == 0:
            yield row(names.GC, at + 60_310_000, 100_000, 1, 5.0, step=step)
        if step % 500 == 0:
            yield row(names.OWN_CALLS, at + 60_420_000, 0, 0, float(step), kind=SAMPLE, step=step)

    def _epoch(self, at_ns: int) -> None:
        epoch = self.minute // EPOCH_MINUTES
        loader = [
            row(names.INPUT_ITER, at_ns - 30_000_000, 20_000_000, 77),
            row(names.LOADER, at_ns - 9_000_000, arg=77, text=_LOADER, kind=MARK),
        ]
        self._program.append(batches(self._program.numbered(loader)))
        self.running = {PROGRAM, LAUNCHER}
        about = json.dumps({"loader": {"workers": WORKERS}, "parent": PROGRAM})
        for number in range(WORKERS):
            pid = FIRST_WORKER + epoch * WORKERS + number
            self.running.add(pid)
            file = FramesFile(self._folder, pid, PROGRAM, at_ns + number, "program")
            fetched = [
                row(names.WORKER_FETCH, at_ns + n * 15_000_000, 9_000_000, n, track=pid)
                for n in range(500)
            ]
            told = [row(names.WORKER, at_ns, arg=number, text=about, kind=MARK, track=pid)]
            over = [row(names.PROCESS_EXIT, at_ns + MINUTE_NS - 1, kind=MARK, track=pid)]
            file.append(batches(file.numbered([*told, *fetched, *over])))

    def _host_rows(self, minute_ns: int) -> Iterator[Row]:
        for second in range(0, 60, SAMPLE_S):
            at = minute_ns + second * 1_000_000_000
            for name, value in (
                (names.HOST_CPU_COUNT, 8.0),
                (names.HOST_CPU_BUSY_NS, at * 2.0),
                (names.HOST_MEMORY_TOTAL_BYTES, 64e9),
                (names.HOST_MEMORY_AVAILABLE_BYTES, 40e9 + self._random.randrange(10**9)),
                (names.HOST_DISK_READ_BYTES, at * 0.01),
                (names.HOST_NET_RECEIVED_BYTES, at * 0.001),
            ):
                yield row(name, at, 0, 0, value, kind=SAMPLE, track=LAUNCHER)
            for pid in sorted(self.running - {LAUNCHER}):
                yield from self._process_rows(at, pid)

    def _process_rows(self, at: int, pid: int) -> Iterator[Row]:
        epoch_ns = EPOCH_MINUTES * MINUTE_NS
        began = 0 if pid == PROGRAM else at // epoch_ns * epoch_ns
        for name, value in (
            (names.PROCESS_CPU_NS, (at - began) * 0.9),
            (names.PROCESS_SYSTEM_CPU_NS, (at - began) * 0.1),
            (names.PROCESS_RSS_BYTES, 2e9 + self._random.randrange(10**7)),
            (names.PROCESS_SHARED_BYTES, 1e8),
            (names.PROCESS_READ_BYTES, (at - began) * 0.01),
            (names.PROCESS_WRITE_BYTES, (at - began) * 0.001),
            (names.PROCESS_THREADS, 12.0),
        ):
            yield row(name, at, 0, pid, value, kind=SAMPLE, track=LAUNCHER)
