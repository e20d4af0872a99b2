"""The history of torch's CUDA allocator → a file beside the recording; pinned memory → samples.

torch keeps the history itself, in a ring of bounded size. It is taken now and then, as plain data;
the analysis reads it as it reads a snapshot that the user made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["FILE", "CudaHistory", "Save", "nowhere"]

MOST_ENTRIES: Final = 100_000  # some 2 µs and 1 kB each, of torch's own
MOST_SNAPSHOTS: Final = 5  # the last one counts; they take tenths of a second
FILE: Final = "cuda-memory.json"

Save = Callable[[str, bytes], None]  # puts a file beside the recording of this process


def nowhere(name: str, content: bytes) -> None:
    """Where nobody keeps files."""


class CudaHistory:
    """`tell` after sampled steps, and at the end. A history that the program itself has switched on
    is left as it is."""

    def __init__(self, cuda: Any, is_recording: Callable[[], bool], save: Save) -> None:
        self._cuda, self._is_recording, self._save = cuda, is_recording, save
        self._snapshots, self._step, self._next = 0, 0, 1
        self._started = False

    def start(self) -> None:
        if not self._is_recording():
            self._cuda.memory._record_memory_history(
                enabled="all", context="alloc", stacks="python", max_entries=MOST_ENTRIES
            )
            self._started = True

    def stop(self) -> None:
        if self._started:
            self._started = False
            self._cuda.memory._record_memory_history(enabled=None)

    def tell(self, recorder: Recorder, at_end: bool = False) -> None:
        """Each snapshot takes the place of the one before; after the first ones only at twice the
        steps, and once more at the end."""
        self._step += 1
        if not self._cuda.is_initialized() or not (at_end or self._step >= self._next):
            return
        if self._snapshots >= MOST_SNAPSHOTS and not at_end:
            return
        self._next, self._snapshots = 2 * self._step, self._snapshots + 1
        snapshot = self._cuda.memory._snapshot()
        kept = {key: snapshot[key] for key in ("segments", "device_traces") if key in snapshot}
        self._save(FILE, json.dumps(kept, default=str).encode())
        recorder.mark(recorder.intern(names.MEMORY_CUDA), 0, recorder.intern(FILE))

    def sample_pinned(self, recorder: Recorder) -> None:
        stats = self._cuda.host_memory_stats() if self._cuda.is_initialized() else {}
        pinned_bytes = stats.get("allocated_bytes.current")
        if pinned_bytes is not None:
            recorder.sample(recorder.intern(names.MEMORY_PINNED), float(pinned_bytes))
