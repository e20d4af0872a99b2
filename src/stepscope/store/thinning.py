"""Writes parts of a process's stream anew with every second stretch of them left out.

A stretch is a batch: up to 16,384 events that follow each other, so the steps inside it stay whole.
Of what is left out the gist stays (gist.py), behind a mark that says how much there was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import add
from pathlib import Path

import pyarrow as pa

from stepscope.model import names
from stepscope.model.event import Batch, EventType, Row
from stepscope.store.arrow import EVENT_FIELDS, ArrowReader, ArrowWriter, Position, to_batch
from stepscope.store.gist import Gist

__all__ = ["thin"]


def thin(parts: Sequence[Path]) -> bool:
    """Joins parts that follow each other in the first of them, at half of what they had.

    False: there is but one stretch, and nothing was done. Readers see the old parts or the new one:
    they pass over batches that cover nothing new, so a kill between the steps doubles nothing.
    """
    if _count_stretches(parts) < 2:
        return False
    draft = parts[0].with_name(f".{parts[0].name}.{os.getpid()}")
    try:
        _write(parts, draft)
        draft.replace(parts[0])
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    for path in parts[1:]:
        path.unlink()
    return True


def _write(parts: Sequence[Path], draft: Path) -> None:
    heads = [ArrowReader(path) for path in parts]
    process = next(head.process for head in heads if head.process is not None)
    writer = ArrowWriter(draft, process, 1 + max(head.thinned for head in heads))
    for head in heads:
        head.close()
    edge, gap = _Edge(), None
    stretches = 0
    for record_batch, covers in _batches(parts):
        batch = to_batch(record_batch)
        is_remains = _is_remains(batch)
        if not is_remains:
            stretches += 1
        if is_remains or stretches % 2 == 0:
            gap = gap or _Gap(edge)
            gap.take(batch, covers)
            continue
        if gap is not None:
            writer.write_record_batch(gap.remains(), gap.covers)
            gap = None
        writer.write_record_batch(record_batch, covers)
        edge = edge.after(batch)
    if gap is not None:
        writer.write_record_batch(gap.remains(), gap.covers)
    writer.close()


def _batches(parts: Sequence[Path]) -> Iterator[tuple[pa.RecordBatch, Position]]:
    done = Position()
    for path in parts:
        reader = ArrowReader(path)
        for record_batch in reader.record_batches():
            if reader.covers > done:
                done = reader.covers
                yield record_batch, done
        reader.close()


def _count_stretches(parts: Sequence[Path]) -> int:
    """2: two or more."""
    found = 0
    for record_batch, _ in _batches(parts):
        found += record_batch.column("name")[0].as_py() != names.OWN_LEFT_OUT
        if found == 2:
            break
    return found


def _is_remains(batch: Batch) -> bool:
    """Of what was left out before, not a stretch."""
    return batch.names[batch.columns["name"][0]] == names.OWN_LEFT_OUT


class _Edge:
    """How far the events before a gap went: in time, and in steps. -1: there are none."""

    def __init__(self, time_ns: int = -1, step: int = -1) -> None:
        self.time_ns, self.step = time_ns, step

    def after(self, batch: Batch) -> _Edge:
        columns = batch.columns
        ends = map(add, columns["time_ns"], columns["duration_ns"])
        return _Edge(max(self.time_ns, *ends), max(self.step, *columns["step"]))


class _Gap:
    """What is left out between two stretches."""

    def __init__(self, before: _Edge) -> None:
        self._before, self._reached = before, before
        self._first: _Edge | None = None
        self.covers = Position()
        self._events = 0
        self._gist = Gist()

    def take(self, batch: Batch, covers: Position) -> None:
        self.covers = covers
        if self._first is None:
            self._first = _Edge(batch.columns["time_ns"][0], batch.columns["step"][0])
        self._reached = self._reached.after(batch)
        self._gist.update(batch)
        for _, place in batch.places((names.OWN_LEFT_OUT,)):
            self._events += int(batch.columns["value"][place]) - 1  # the mark itself is no event
        self._events += batch.count

    def remains(self) -> pa.RecordBatch:
        """The mark, and the gist of it."""
        assert self._first is not None  # a gap is begun by something to leave out
        begin = self._before if self._before.time_ns >= 0 else self._first
        kept = self._gist.get()
        mark = Row(
            time_ns=begin.time_ns,
            duration_ns=max(0, self._reached.time_ns - begin.time_ns),
            cpu_start_ns=-1,
            cpu_ns=-1,
            arg=max(0, self._reached.step - begin.step),
            value=float(self._events - len(kept)),
            name=names.OWN_LEFT_OUT,
            text="",
            step=self._reached.step,
            track=0,
            type=int(EventType.MARK),
            flags=0,
        )
        columns = zip(mark, *kept, strict=True)
        arrays = [
            pa.array(list(values), field.type)
            for values, field in zip(columns, EVENT_FIELDS, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(EVENT_FIELDS))
