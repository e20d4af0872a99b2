"""What some profilers want beside time, CPU and memory. Each makes a run go through Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal

from stepscope.collect.flops import FlopCounter
from stepscope.collect.gpu import AllocatorPeaks, usable_cuda
from stepscope.collect.own_memory import OwnMemory
from stepscope.collect.system import SystemCollector
from stepscope.model import names
from stepscope.session.inside import Inside

__all__ = ["Energy", "Extra", "FastMemory", "Flops", "FullRun", "GpuPeaks"]


class Extra:
    """Something that is switched on for the time of a run."""

    def enter(self, identity: str) -> Any:
        """Before the run begins; gives a token for `leave`."""

    def begun(self, identity: str) -> None:
        """The run has begun."""

    def leave(self, token: Any, identity: str) -> None:
        """The run has ended."""


class FullRun:
    """A run of an operation with extras around it; an error in one is counted, and that is all."""

    __slots__ = ("_extras", "_identity", "_run", "_session", "_tokens")

    def __init__(self, session: Inside, identity: str, run: Any, extras: Sequence[Extra]) -> None:
        self._session, self._identity, self._run, self._extras = session, identity, run, extras
        self._tokens: list[tuple[Extra, Any]] = []

    def __enter__(self) -> FullRun:
        for extra in self._extras:
            try:
                self._tokens.append((extra, extra.enter(self._identity)))
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self._session.recorder.failed(f"entering {type(extra).__name__}", error)
        self._run.__enter__()
        for extra, _ in self._tokens:
            extra.begun(self._identity)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        self._run.__exit__(kind, error, trace)
        while self._tokens:
            extra, token = self._tokens.pop()
            try:
                extra.leave(token, self._identity)
            except Exception as own_error:  # noqa: BLE001 - likewise
                self._session.recorder.failed(f"leaving {type(extra).__name__}", own_error)
        return False


class Flops(Extra):
    """Counts the FLOPs of torch code."""

    def __init__(self, session: Inside) -> None:
        self._session = session
        self._counter = FlopCounter()
        self._totals: dict[str, int] = {}

    def enter(self, identity: str) -> Any:
        return self._counter.enter(identity)

    def leave(self, token: Any, identity: str) -> None:
        flops = self._counter.leave(token)
        if flops is None:
            return
        with self._session.lock:
            self._totals[identity] = total = self._totals.get(identity, 0) + flops
            self._session.mark(names.OPERATION_FLOPS, identity, total)

    def reason(self, identity: str) -> str:
        """Why runs of this operation could not be counted; "": all could."""
        return self._counter.reason(identity)

    def notes(self) -> tuple[str, ...]:
        """What the counts may be missing."""
        return self._counter.notes()


class GpuPeaks(Extra):
    """The most that torch held of each GPU's memory."""

    def __init__(self, session: Inside, cuda: Any) -> None:
        self._recorder = session.recorder
        self._peaks = AllocatorPeaks(cuda)

    def enter(self, identity: str) -> None:
        self._peaks.sample(self._recorder)

    def leave(self, token: None, identity: str) -> None:
        self._peaks.sample(self._recorder)

    @staticmethod
    def cuda() -> Any:
        """What to give it; None: there is no GPU to look at."""
        return usable_cuda()


class Energy(Extra):
    """Reads the counters of energy at both ends of every run, however short."""

    def __init__(self, session: Inside) -> None:
        self._session = session

    def enter(self, identity: str) -> None:
        self._session.look()

    def leave(self, token: None, identity: str) -> None:
        self._session.look()


class FastMemory(Extra):
    """Samples this process's memory often while a run goes on: enough to tell a leak."""

    def __init__(self, session: Inside, interval_s: float) -> None:
        self._session = session
        self._interval_s = interval_s
        self._open = 0
        self._pid = 0
        self._collector: SystemCollector | None = None

    def enter(self, identity: str) -> None:
        with self._session.lock:
            if self._pid != os.getpid():  # also in a forked child: its threads are not ours
                self._pid, self._open = os.getpid(), 0
                self._collector = SystemCollector(
                    self._pid, self._interval_s, (OwnMemory(),), lambda: self._open > 0
                )
            self._open += 1
            assert self._collector is not None
            self._collector.start(self._session.recorder)

    def leave(self, token: None, identity: str) -> None:
        with self._session.lock:
            self._open -= 1
