"""Events with valid checksums and odd content, as frames and as Arrow streams.

Each input has some cells, names or texts of recorded events replaced, in files that are otherwise
what the writer would have made of them. Now and then the header or single bytes are damaged too.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa

from stepscope.advise import simulate
from stepscope.model.event import COLUMNS, Batch
from stepscope.record.frames import EVENTS, HEADER, frame
from stepscope.report.memory import render_memory
from stepscope.session.page import write_page
from stepscope.session.report import fold_run
from stepscope.session.show import show_summary
from stepscope.store.arrow import EVENT_FIELDS
from stepscope.store.process import process_to_json
from stepscope.store.trace import open_trace
from tests.fuzz.damage import ODD_VALUES, damaged_bytes, damaged_json
from tests.fuzz.harness import Feed, Target
from tests.fuzz.recorded import recorded_run
from tests.fuzz.targets.run_folder import COMMANDS, command, console

ROWS_OF_A_NAME = 6  # Of each name of a process: few, so that an input takes little time.
_ODD_NUMBERS = {
    "q": (0, -1, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 10**12, -(10**12)),
    "I": (0, 1, 2, 2**31, 2**32 - 1),
    "B": (0, 1, 2, 3, 4, 5, 128, 255),
    "d": (0.0, -1.0, 1e300, -1e300, 1e-320, float("nan"), float("inf"), float("-inf"), 2.0**63),
}
_TEXTS = ("name", "text")


class Recorded(NamedTuple):
    """What one process recorded: its header, and the columns with names resolved."""

    header: bytes
    columns: dict[str, list[Any]]

    def copy(self) -> Recorded:
        return Recorded(self.header, {name: list(one) for name, one in self.columns.items()})


def recorded_processes() -> list[Recorded]:
    trace = open_trace(recorded_run())
    return [
        Recorded(process_to_json(process), _some(list(trace.batches(process))))
        for process in trace.processes
    ]


def _some(batches: list[Batch]) -> dict[str, list[Any]]:
    """The first events of each name, in their order."""
    seen: Counter[str] = Counter()
    kept = []
    for row in (row for batch in batches for row in batch.rows()):
        seen[row.name] += 1
        if seen[row.name] <= ROWS_OF_A_NAME:
            kept.append(row)
    columns = zip(*kept, strict=True)
    return {name: list(one) for name, one in zip(kept[0]._fields, columns, strict=True)}


def damage(process: Recorded, random: Random) -> Recorded:
    process = process.copy()
    if random.random() < 0.05:
        header = damaged_json(json.loads(process.header), random)
        process = process._replace(header=header)
    for _ in range(random.choice((1, 1, 2, 3, 10))):
        _damage_one(process.columns, random)
    return process


def _damage_one(columns: dict[str, list[Any]], random: Random) -> None:
    column = random.choice(COLUMNS)
    values = columns[column.name]
    at = random.randrange(len(values))
    choice = random.random()
    if choice < 0.2:  # another event's
        values[at] = random.choice(values)
    elif choice < 0.25:  # the same in all
        values[:] = [_odd(column.name, column.code, values[at], random)] * len(values)
    elif choice < 0.3:  # the events in another order
        order = list(range(len(values)))
        random.shuffle(order)
        for name, one in columns.items():
            columns[name] = [one[place] for place in order]
    elif choice < 0.35:  # an event that is missing
        for one in columns.values():
            if len(one) > 1:
                del one[at]
    else:
        values[at] = _odd(column.name, column.code, values[at], random)


def _odd(column: str, code: str, value: Any, random: Random) -> Any:
    if column not in _TEXTS:
        return random.choice(_ODD_NUMBERS[code])
    choice = random.random()
    if choice < 0.3:
        return str(random.choice([one for one in ODD_VALUES if isinstance(one, str)]))
    if choice < 0.6:  # tabs separate the fields of a text
        fields = value.split("\t")
        fields[random.randrange(len(fields))] = random.choice(
            ("", "x", "-1", "1e400", "9" * 30, "null", "[]", "{}")
        )
        return "\t".join(fields)
    start = value.find("{")
    if start >= 0:
        try:
            return value[:start] + damaged_json(json.loads(value[start:]), random).decode(
                "utf-8", "replace"
            )
        except ValueError:
            pass
    return damaged_bytes(value.encode("utf-8", "replace"), random).decode("utf-8", "replace")


def as_frames(process: Recorded, random: Random) -> bytes:
    """With the ids of names as a writer gives them, and sometimes others."""
    ids: dict[str, int] = {"": 0}
    columns = dict(process.columns)
    for name in _TEXTS:
        columns[name] = [ids.setdefault(text, len(ids)) for text in columns[name]]
    if random.random() < 0.1:
        columns["name"][random.randrange(len(columns["name"]))] = random.choice((0, 2**32 - 1))
    count = len(columns["name"])
    table = b"".join(
        struct.pack("<II", number, len(encoded)) + encoded
        for text, number in ids.items()
        if number and (encoded := text.encode("utf-8", "surrogatepass")) is not None
    )
    payload = struct.pack("<II", count, 0) + b"".join(
        struct.pack(f"<{count}{column.code}", *columns[column.name]) for column in COLUMNS
    )
    return frame(HEADER, process.header) + frame(2, table) + frame(EVENTS, payload)


def as_arrow(process: Recorded, _random: Random) -> bytes:
    metadata = {b"stepscope.schema": b"1", b"stepscope.process": process.header}
    schema = pa.schema(EVENT_FIELDS, metadata=metadata)
    columns = [
        [text.encode("utf-8", "replace").decode() for text in process.columns[field.name]]
        if field.name in _TEXTS
        else process.columns[field.name]
        for field in EVENT_FIELDS
    ]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, EVENT_FIELDS, strict=True)]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(
            pa.RecordBatch.from_arrays(arrays, schema=schema),
            custom_metadata={b"stepscope.frames": b"0:64"},
        )
    return sink.getvalue()


def events(name: str, ending: str, encode: Callable[[Recorded, Random], bytes]) -> Target:
    def setup(folder: Path) -> Feed:
        run = folder / "runs" / "killed"
        run.mkdir(parents=True)
        shutil.copy(recorded_run() / "meta.json", run)
        processes = recorded_processes()
        paths, whole = [], []
        for number, process in enumerate(processes):
            is_launcher = json.loads(process.header)["role"] == "launcher"
            path = run / ("host" if is_launcher else "rank-00000") / f"{number + 1}-1{ending}"
            path.parent.mkdir(exist_ok=True)
            paths.append(path)
            whole.append(encode(process, Random(0)))
            path.write_bytes(whole[-1])
        fold_run(run)

        def feed(random: Random) -> None:
            at = random.randrange(len(processes))
            content = encode(damage(processes[at], random), random)
            if random.random() < 0.05:
                content = damaged_bytes(content, random)
            paths[at].write_bytes(content)
            try:
                read_as_commands_do(run, random)
            finally:
                paths[at].write_bytes(whole[at])

        return feed

    return Target(name, setup)


def read_as_commands_do(run: Path, random: Random) -> None:
    """As `report`, `memory`, `watch` and `compare` read a run that was killed."""
    # Loaders are played through for 4 batches, not for 200: that takes most of the time.
    with mock.patch.object(simulate.simulated, "__defaults__", (4,)):
        summary, details = fold_run(run)
    choice = random.random()
    if choice < COMMANDS:
        for arguments in (("report",), ("memory",), ("watch", "--once")):
            command(arguments[0], str(run), *arguments[1:])
    elif choice < 0.03:
        show_summary(summary, io.StringIO(), run)
        if details.memory is not None:
            render_memory(details.memory, "killed", console())
    elif choice < 0.035:
        write_page(run, summary)


TARGETS = [
    events("frames", ".0000.frames", as_frames),
    events("arrows", ".arrows", as_arrow),
]
