"""A recorder of its own for each test, and what it recorded as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stepscope.model.event import Row
from stepscope.record.frames import HEADER, frame
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from stepscope.session.header import Moment, process_header
from stepscope.store.frames import FramesReader

Read: TypeAlias = Callable[..., list[Row]]
Started: TypeAlias = Callable[[Any], Any]


@pytest.fixture
def recorder() -> Recorder:
    core: Any = TwinCore()
    return Recorder(core)


@pytest.fixture
def read(recorder: Recorder, tmp_path: Path) -> Read:
    """All rows so far, or those of one name."""
    path = tmp_path / "drained.frames"
    path.write_bytes(frame(HEADER, process_header({}, [], "python", Moment(0, 0))))

    def read(name: str = "") -> list[Row]:
        with path.open("ab") as file:
            file.write(recorder.drain())
        rows = [row for batch in FramesReader(path).read_new() for row in batch.rows()]
        return [row for row in rows if name in ("", row.name)]

    return read


@pytest.fixture
def started(recorder: Recorder) -> Iterator[Started]:
    """Starts a collector, and stops it after the test."""
    running = []

    def start(collector: Any) -> Any:
        collector.start(recorder)
        running.append(collector)
        return collector

    yield start
    for collector in reversed(running):
        collector.stop()
