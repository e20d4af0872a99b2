"""The engine behind a checkpoint profiler: a tally, who tells it, and what is read back."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepscope.collect.checkpoint_listening import Listening, Observed
from stepscope.errors import UsageError
from stepscope.model import names
from stepscope.model.checkpoint_events import (
    CheckpointEvent,
    CheckpointEventType,
    LayerProfile,
    ProfilingSummary,
)
from stepscope.record.core import core
from stepscope.session.checkpoint_analyses import Analyses
from stepscope.session.checkpoint_tail import EventTail
from stepscope.session.header import Moment
from stepscope.session.inside import Inside, inside
from stepscope.session.ticking import Ticking

__all__ = ["CheckpointSession", "CheckpointUse", "Observed", "failed"]

_KEEP = 1024  # events of each layer and type that are all recorded; then every 2nd, 4th, …
_TIDY_S = 5.0  # between two looks whether old files can go

_numbers = itertools.count(1)


class CheckpointUse(NamedTuple):
    """What a monitor looks at."""

    in_use_bytes: int
    recompute_ms: float


class CheckpointSession:
    """One for each profiler. Only `start` raises into the program."""

    def __init__(self, manager: Observed, engine: Observed) -> None:
        kinds = CheckpointEventType.CHECKPOINT.value, CheckpointEventType.DEALLOCATE.value
        self.tally = core.Tally(core.intern(names.CHECKPOINTING_EVENT), *kinds, _KEEP)
        self.analyses = Analyses()
        self._engine = engine
        self._listening = Listening(self.tally, (manager, engine), self)
        self._lock = threading.RLock()
        self._inside: Inside | None = None
        self._tail: EventTail | None = None
        self._left: Any = None  # what is done when the profiler is gone
        self._is_closed = False
        self._offset_ns = 0  # from the recorder's clock to the calendar
        self._timer = Ticking(self._tidy, _TIDY_S, "stepscope-checkpoints")

    @property
    def is_profiling(self) -> bool:
        return self.tally.enabled

    def start(self) -> None:
        """From nothing."""
        with self._lock:
            if self._is_closed:
                raise UsageError("This profiler is closed: make a new CheckpointProfiler.")
            self.stop()
            self._forget_tail()
            session = self._inside = inside(hooks=False)
            number = next(_numbers)
            now = Moment.now()
            self._offset_ns = now.unix_ns - now.monotonic_ns
            self.tally.clear(number)
            self._tail = EventTail(number, self._offset_ns, self._listening.after_fork)
            session.follow(self._tail)
            identity = f"checkpoint profiler {number}"
            self._left = weakref.finalize(self, session.forget, identity, [self._tail])
            self._left.atexit = False
            self.tally.enabled = True
            self._listening.start()
            self._timer.start(self._left_behind)

    def stop(self) -> None:
        """What was counted can still be asked for. Again: nothing happens."""
        with self._lock:
            if self.tally.enabled:
                self._listening.stop()
                self.tally.enabled = False
                self._timer.stop()

    def close(self) -> None:
        """Everything is empty after it. Again: nothing happens."""
        with self._lock:
            self._is_closed = True
            self.stop()
            self.tally.clear(0)
            self._listening.after_fork()
            self._forget_tail()

    def _forget_tail(self) -> None:
        if self._inside is not None and self._tail is not None:
            self._inside.unfollow(self._tail)
        if self._left is not None:
            self._left.detach()
        self._tail = self._left = None

    def _tidy(self) -> None:
        """Called now and then: files of a long session do not pile up."""
        session = self._inside
        try:
            if session is not None and session.has_old_files:
                session.tidy()
        except Exception as error:  # noqa: BLE001 - ours alone: the program goes on
            failed("tidying up after a checkpoint profiler", error)

    def _left_behind(self) -> None:
        """In a forked child it counts anew, without a thread."""

    # ---- what is known ----

    def use(self) -> CheckpointUse:
        recompute = CheckpointEventType.RECOMPUTE.value
        total_ns = sum(row[3] for row in self.tally.totals() if row[1] == recompute)
        return CheckpointUse(self.tally.in_use()[0], total_ns / 1e6)

    def profiles(self) -> dict[str, LayerProfile]:
        """By layer, in the order in which they were seen first."""
        found: dict[str, LayerProfile] = {}
        for layer, kind, count, total_ns, total_bytes, _, _ in self.tally.totals():
            profile = found.setdefault(layer, LayerProfile(layer))
            profile.add(kind, count, total_ns / 1e6, total_bytes)
        for layer, profile in found.items():
            profile.total_memory_saved += self._listening.late_saved_bytes.get(layer, 0)
            profile.measured_count = self._listening.measured.get(layer, 0)
        return found

    def summary(self) -> ProfilingSummary:
        """With the results of all analyses."""
        bare = self._summary()
        return replace(bare, analyses=self.analyses.run(bare))

    def _summary(self) -> ProfilingSummary:
        totals = self.tally.totals()
        now_ns = Moment.now().unix_ns
        first_ns = min((row[5] + self._offset_ns for row in totals), default=now_ns)
        last_ns = max((row[6] + self._offset_ns for row in totals), default=now_ns)
        profiles = tuple(self.profiles().values())
        in_use, most_in_use = self.tally.in_use()
        return ProfilingSummary(
            start_time=_calendar(first_ns),
            end_time=_calendar(last_ns),
            duration=(last_ns - first_ns) / 1e6,
            total_events=sum(row[2] for row in totals),
            total_checkpoint_time=sum(one.total_checkpoint_time_ms for one in profiles),
            total_recompute_time=sum(one.total_recompute_time_ms for one in profiles),
            total_memory_saved=sum(one.total_memory_saved for one in profiles),
            layer_profiles=profiles,
            memory_in_use_bytes=in_use,
            peak_memory_in_use_bytes=most_in_use,
            peak_memory_saved_bytes=self._listening.peak_saved_bytes,
            peak_reduction_bytes=self._listening.peak.reduction_bytes,
            can_recompute_ahead=_can_recompute_ahead(self._engine),
        )

    def events(self) -> list[CheckpointEvent]:
        """The last that were recorded, newest last."""
        with self._lock:
            if self._inside is None or self._tail is None:
                return []
            self._inside.pull()
            return self._tail.events()


def _can_recompute_ahead(engine: Observed) -> bool:
    """There are streams, and the engine was not asked to use one."""
    if "torch" not in sys.modules or getattr(engine, "prefetches", None) is not False:
        return False
    from stepscope.checkpointing.streams import find_streams

    return find_streams() is not None


def _calendar(unix_ns: int) -> datetime:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC)


def failed(where: str, error: Exception) -> None:
    """Something of ours or a callback went wrong: it is recorded, and the program goes on."""
    inside(hooks=False).recorder.failed(where, error)
