"""Opens a run as a Trace: the Arrow part of each process, then the frames behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.errors import FormatError, RunNotFoundError, UsageError
from stepscope.model import names
from stepscope.model.event import Batch, EventType
from stepscope.model.meta import Meta
from stepscope.model.process import ProcessInfo
from stepscope.model.trace import Losses, Trace
from stepscope.store.frames import FramesReader
from stepscope.store.layout import Segment, frames_number, segments
from stepscope.store.left_out import FramesGap, read_left_out
from stepscope.store.rundir import is_run, read_meta
from stepscope.store.status import read_status_pages
from stepscope.store.status_folders import status_folder_of

if TYPE_CHECKING:
    import pyarrow

__all__ = ["open_trace"]

_VIEWS = {
    "spans": EventType.SPAN,
    "samples": EventType.SAMPLE,
    "allocations": EventType.ALLOCATION,
    "marks": EventType.MARK,
}


def open_trace(run: str | Path) -> Trace:
    """The events of a run: finished, running or killed; complete batches are all there."""
    folder = Path(run)
    if not folder.is_dir():
        raise RunNotFoundError(
            f"There is no run folder {folder}: stepscope runs lists what there is."
        )
    if not is_run(folder):
        raise RunNotFoundError(f"{folder} is not a run of stepscope: stepscope runs lists them.")
    meta = read_meta(folder)
    sources = {}
    for segment in segments(folder):
        process = _process(segment)
        if process is not None:
            sources[_Key.of(process)] = (process, segment)
    return Trace(
        meta=meta,
        processes=tuple(process for process, _ in sources.values()),
        load_batches=lambda process: _batches(sources[_Key.of(process)][1], []),
        load_events=partial(_events, list(sources.values())),
        query=_query,
        load_losses=lambda: _losses(folder, meta, [segment for _, segment in sources.values()]),
    )


class _Key(NamedTuple):
    """Tells processes of a run apart (ProcessInfo holds a dict and cannot be a key)."""

    host: str
    pid: int
    monotonic_ns: int
    role: str

    @classmethod
    def of(cls, process: ProcessInfo) -> _Key:
        return cls(process.host, process.pid, process.monotonic_ns, process.role)


def _process(segment: Segment) -> ProcessInfo | None:
    """Whose files they are; None: nothing complete stands in them, or they are gone by now."""
    for part in segment.arrows:
        from stepscope.store.arrow import ArrowReader

        try:
            process = ArrowReader(part).process
        except FormatError:
            if part.exists():
                raise
            continue
        if process is not None:
            return process
    for path in segment.frames:
        reader = FramesReader(path)
        next(reader.batches(), None)
        if reader.process is not None:
            return reader.process
    return None


def _batches(segment: Segment, notes: list[tuple[str, int]]) -> Iterator[Batch]:
    """What could not be read is added to `notes`, with its size in bytes, on the way."""
    done_file, done_offset = -1, 0
    gap = FramesGap()
    if segment.arrows:
        from stepscope.store.parts import PartsReader

        parts = PartsReader(segment)
        for batch in parts.batches():
            gap.passed(batch, parts.covers.file)
            yield batch
        done_file, done_offset = parts.covers
        if parts.lost_events:
            notes.append((_senseless(segment.base.name, parts.lost_events), 0))
        if not segment.frames:
            notes += (
                (f"{name} is cut off after its last complete batch", 0) for name in parts.torn
            )
    for path in segment.frames:
        number = frames_number(path)
        done = done_offset if number == done_file else 0 if number > done_file else sys.maxsize
        reader = FramesReader(path, after=done)
        for batch in reader.batches():
            yield from gap.before(number, batch)
            gap.passed(batch, number)
            yield batch
        notes += _remarks(reader)


def _remarks(reader: FramesReader) -> Iterator[tuple[str, int]]:
    unread = reader.unread_bytes()
    if reader.damage:
        yield (
            f"{reader.path.name} can be read only up to byte {reader.offset} ({reader.damage})",
            unread,
        )
    elif unread:
        yield f"{reader.path.name} was cut off in the middle of a batch", unread
    if reader.lost_events:
        yield _senseless(reader.path.name, reader.lost_events), 0


def _senseless(file: str, events: int) -> str:
    return f"{file} has {events} events that make no sense: they are left out"


def _losses(run: Path, meta: Meta, present: list[Segment]) -> Losses:
    notes: list[tuple[str, int]] = []
    left_out = read_left_out(run).events
    for segment in present:
        for batch in _batches(segment, notes):
            places = batch.places((names.OWN_LEFT_OUT,))
            left_out += sum(int(batch.columns["value"][place]) for _, place in places)
    dropped, lost = _counted(run, meta)
    unreadable = sum(size for _, size in notes)
    return Losses(dropped, lost, unreadable, tuple(text for text, _ in notes), left_out)


def _counted(run: Path, meta: Meta) -> tuple[int, int]:
    """Dropped and lost events: as the launcher noted them, or as the processes say themselves."""
    noted = meta.get("losses")
    if noted is not None:
        return noted.get("dropped_events", 0), noted.get("lost_events", 0)
    folder = status_folder_of(run, meta)
    pages = read_status_pages(folder) if folder is not None else []
    return sum(page.dropped for page in pages), sum(page.lost for page in pages)


def _events(sources: list[tuple[ProcessInfo, Segment]]) -> pyarrow.Table:
    import pyarrow as pa

    from stepscope.store.arrow import to_record_batch

    tables = [pa.Table.from_batches([], _events_schema())]
    for process, segment in sources:
        batches = [to_record_batch([batch]) for batch in _batches(segment, [])]
        if batches:
            table = pa.Table.from_batches(batches)
            for name, value in (
                ("host", process.host),
                ("rank", process.rank),
                ("pid", process.pid),
            ):
                field = _events_schema().field(name)
                values = pa.repeat(pa.scalar(value, field.type), len(table))
                table = table.append_column(field, values)
            tables.append(table)
    return pa.concat_tables(tables)


def _events_schema() -> pyarrow.Schema:
    import pyarrow as pa

    from stepscope.store.arrow import EVENT_FIELDS

    whose = [("host", pa.string()), ("rank", pa.int32()), ("pid", pa.int64())]
    return pa.schema([*EVENT_FIELDS, *(pa.field(name, kind, False) for name, kind in whose)])


def _query(events: pyarrow.Table, query: str) -> pyarrow.Table:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("events", events)
        for name, kind in _VIEWS.items():
            connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM events WHERE type = {int(kind)}"
            )
        try:
            relation = connection.sql(query)
            rows = None if relation is None else relation.to_arrow_table()
        except duckdb.Error as error:
            raise UsageError(f"DuckDB does not take the query: {error}") from error
        if rows is None:
            raise UsageError("The query gives no rows: use a SELECT.")
        return rows
