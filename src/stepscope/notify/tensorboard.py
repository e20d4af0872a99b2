"""Metrics as scalars and alerts as texts in an event file of TensorBoard."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stepscope.interop import tfevents
from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.options import Options
from stepscope.notify.secrets import resolve, short_hash
from stepscope.notify.series import Newest, Steps, path_of
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline, paragraphs

__all__ = ["TensorBoardSink", "Thinning", "make"]

_FOLDER: Final = "tensorboard"  # in the run's
_LONGEST_TEXT: Final = 4000


def make(options: Options, context: SinkContext) -> TensorBoardSink:
    """folder: where the event file goes. limit_mb: how large it may become: the nearer it is, the
    fewer of the readings are written."""
    written = options.text("folder", "")
    folder = Path(resolve(written, options.where("folder"))) if written else None
    interval_s = options.number("interval_s", 10.0, least=0.1)
    limit_bytes = int(options.number("limit_mb", 20.0, least=0.1) * 1e6)
    options.done()
    whose = f"{context.host.replace('/', '_')}.{context.pid}.stepscope"
    # Private in the run folder; elsewhere as the user has it.
    file = _EventFile(folder or context.folder / _FOLDER, whose, private=folder is None)
    return TensorBoardSink(f"tensorboard-{short_hash(written)}", file, interval_s, limit_bytes)


class TensorBoardSink:
    """A MetricsSink that marks alerts too."""

    def __init__(self, name: str, file: _EventFile, interval_s: float, limit_bytes: int) -> None:
        self.name, self.interval_s = name, interval_s
        self._file = file
        self._newest, self._steps = Newest(), Steps()
        self._thinning = Thinning(limit_bytes)

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        kept = self._newest.update(readings)
        self._steps.update(kept)
        if not self._thinning.is_turn(self._file.size_bytes):
            return
        by_step: dict[int, dict[str, float]] = {}
        for reading in kept:
            values = by_step.setdefault(self._steps.of(reading), {})
            values[path_of(reading)] = reading.value
        events = [tfevents.scalars(now_unix, step, by_step[step]) for step in sorted(by_step)]
        self._file.append(events, now_unix)

    def alert(self, alert: Alert) -> None:
        step = self._steps.newest if alert.step is None else alert.step
        text = "\n\n".join((headline(alert), *paragraphs(alert)))[:_LONGEST_TEXT]
        tag = f"stepscope/alerts/{alert.rule}"
        event = tfevents.text_summary(alert.told_unix, step, tag, text)
        self._file.append([event], alert.told_unix)

    def close(self) -> None:
        """Nothing stays open."""


class Thinning:
    """Every update is written until half of the room is taken, then every fourth until half of the
    rest is, and so on: what is written never exceeds the room, and covers a run of any length.

    >>> thinning = Thinning(1000)
    >>> [thinning.is_turn(size) for size in (0, 400, 500, 500, 500, 500, 600)]
    [True, True, False, False, False, True, False]
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._every, self._since = 1, 0
        self._until_bytes = limit_bytes / 2

    def is_turn(self, size_bytes: int) -> bool:
        while self._until_bytes <= size_bytes < self._limit_bytes and self._every < 1 << 40:
            self._until_bytes = (self._until_bytes + self._limit_bytes) / 2
            self._every *= 4
        self._since += 1
        if self._since < self._every or size_bytes >= self._limit_bytes:
            return False
        self._since = 0
        return True


class _EventFile:
    """Begins with the first event. What could not be written as a whole is taken back, for readers
    stop at a record that is torn. whose: the end of its name.

    It is opened for each append, so that no descriptor is kept in the user's process.
    """

    def __init__(self, folder: Path, whose: str, *, private: bool = False) -> None:
        self.size_bytes, self._private = 0, private
        self._folder, self._whose = folder, whose
        self._path: Path | None = None

    def append(self, events: Sequence[bytes], now_unix: float) -> None:
        try:
            if self._path is None:
                folder_mode = 0o700 if self._private else 0o777
                self._folder.mkdir(folder_mode, parents=True, exist_ok=True)
                name = f"events.out.tfevents.{int(now_unix):010d}.{self._whose}"
                self._path = self._folder / name
            self._write(self._path, b"".join(map(tfevents.record, events)), now_unix)
        except OSError as error:
            raise SinkError(
                f"The event file in {self._folder} cannot be written ({error.strerror})."
            ) from error

    def _write(self, path: Path, content: bytes, now_unix: float) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600 if self._private else 0o666)
        try:
            before_bytes = os.fstat(descriptor).st_size
            if not before_bytes:
                content = tfevents.record(tfevents.file_version(now_unix)) + content
            left = content
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before_bytes)
                raise
            self.size_bytes = before_bytes + len(content)
        finally:
            os.close(descriptor)
