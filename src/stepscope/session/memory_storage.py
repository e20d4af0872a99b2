"""Where a memory profiler keeps its events: the process's own recording, or a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from stepscope.model.event import Batch
from stepscope.model.memory_events import EventRange
from stepscope.record.core import core
from stepscope.session.header import Moment, process_header, process_rank
from stepscope.session.inside import Inside
from stepscope.store.batch_index import BatchIndex
from stepscope.store.event_storage import EventFiles, InMemoryStorage

__all__ = ["InMemoryStorage", "OwnRecording", "RunFolderStorage"]


class RunFolderStorage(EventFiles):
    """Keeps all events in files below a folder, which `open_trace` reads as a run."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        now = Moment.now()
        rank = f"rank-{process_rank(os.environ):05d}"
        base = Path(folder, rank, f"{os.getpid()}-{now.unix_ns}")
        super().__init__(base, process_header(os.environ, getattr(sys, "argv", []), core.name, now))


class OwnRecording:
    """What the process records anyway. The recorder writes; here it is read back."""

    def __init__(self, session: Inside) -> None:
        self._session = session
        self._index = BatchIndex(session.base)

    def store_events(self, batch: Batch) -> None:
        raise NotImplementedError("the recorder's writer takes them from the tracker itself")

    def load_events(self, wanted: EventRange) -> Iterator[Batch]:
        self._session.recorder.flush()
        if self._index.base != self._session.base:  # we are a forked child
            self._index = BatchIndex(self._session.base)
        self._index.refresh()
        return self._index.load(wanted)

    @property
    def dropped_events(self) -> int:
        return self._index.dropped_events

    def close(self) -> None:
        self._session.recorder.flush()
