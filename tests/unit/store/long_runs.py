"""Runs that go on and on: frames files that a program would write, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from stepscope.model import names
from stepscope.model.event import Row
from stepscope.record.frames import HEADER, events_frame, frame, names_frame
from stepscope.store.trace import open_trace
from tests.unit.store.by_hand import PROCESS

STEP_NS = 1_000_000
SPAN, SAMPLE, MARK = 1, 2, 4


def step_rows(step: int) -> list[tuple[object, ...]]:
    """A forward, an optimizer step and a sample of memory; each names its step in `arg`."""
    at = 1_000_000 + step * STEP_NS
    return [
        (at, 600_000, -1, -1, step, 1.0, names.FORWARD, "", step, 41, SPAN, 0),
        (at + 700_000, 300_000, -1, -1, 7, 0.0, names.OPTIMIZER_STEP, "", step, 41, SPAN, 0),
        (at + 999_999, 0, -1, -1, 41, 1.0 * step, names.PROCESS_RSS_BYTES, "", step, 41, SAMPLE, 0),
    ]  # fmt: skip


def mark_row(step: int, name: str, arg: int, text: str) -> tuple[object, ...]:
    at = 1_000_000 + step * STEP_NS
    return (at, 0, -1, -1, arg, 0.0, name, text, step, 41, MARK, 0)


def frames_file(rows: list[tuple[object, ...]], **process: object) -> bytes:
    """With all names at its beginning."""
    texts = sorted({str(text) for row in rows for text in (row[6], row[7]) if text})
    numbers = {text: number for number, text in enumerate(texts, 1)} | {"": 0}
    coded = [(*row[:6], numbers[str(row[6])], numbers[str(row[7])], *row[8:]) for row in rows]
    head = frame(HEADER, json.dumps({**PROCESS, **process}).encode())
    batches = [events_frame(coded[at : at + 300]) for at in range(0, len(coded), 300)]
    return head + names_frame((numbers[text], text) for text in texts) + b"".join(batches)


def rows_of(run: Path) -> Iterator[Row]:
    trace = open_trace(run)
    for process in trace.processes:
        for batch in trace.batches(process):
            yield from batch.rows()


def stream_bytes(run: Path) -> int:
    return sum(path.stat().st_size for path in run.rglob("*.arrows"))
