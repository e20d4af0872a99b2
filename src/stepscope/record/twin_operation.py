"""Operations of the Python twin: the same totals and the same events, slower."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stepscope.record.twin import TwinCore

__all__ = ["TwinNothing", "TwinOperation", "TwinWatch", "cpu_now"]

READ_AT_START, READ_AT_END = 1, 2
# What may be saved up is more than in the native core: a reading costs ten times as much here.
_BUDGET_SHARE, _BUDGET_NS, _LONG_RUN_NS = 100, 20_000_000, 10_000_000
_NEVER = 1 << 62
_TOTALS = (
    "calls", "failed", "running", "wall_ns", "user_ns", "system_ns", "shortest_ns", "longest_ns",
    "last_ns", "first_start_ns", "last_end_ns",
)  # fmt: skip


class TwinWatch:
    """What a session has asked to happen at the ends of runs."""

    def __init__(self, core: TwinCore) -> None:
        self._core = core
        self._rss = self._peak = 0
        self._budget_ns, self._budgeted_at_ns = _BUDGET_NS, 0
        self._callback: Callable[[], int] | None = None
        self._due_ns = _NEVER

    def watch_memory(self, rss: int, peak: int) -> bool:
        self._rss, self._peak = rss, peak if _reset_mark() else 0
        return bool(self._peak)

    def call_at(self, callback: Callable[[], int] | None, at_ns: int) -> None:
        self._callback, self._due_ns = callback, at_ns

    def read_memory(self, must: bool = False) -> bool:
        """Whether the peak was read too, and its mark reset."""
        now_ns = self._core.now_ns()
        saved_ns = self._budget_ns + (now_ns - self._budgeted_at_ns) // _BUDGET_SHARE
        self._budget_ns, self._budgeted_at_ns = min(saved_ns, _BUDGET_NS), now_ns
        if not self._rss or not (self._budget_ns > 0 or must):
            return False
        before_ns = time.thread_time_ns()  # not the wall clock: others may run meanwhile
        try:
            with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
                text = file.read()
        except OSError:
            self._rss = 0
            return False
        pid, has_peak = os.getpid(), bool(self._peak) and _reset_mark()
        self._core.sample(self._rss, _kilobytes(text, "VmRSS:"), pid)
        if has_peak:
            self._core.sample(self._peak, _kilobytes(text, "VmHWM:"), pid)
        self._budget_ns -= time.thread_time_ns() - before_ns
        return has_peak

    def call_when_due(self, now_ns: int) -> None:
        if self._callback is None or now_ns < self._due_ns:
            return
        self._due_ns = _NEVER  # other threads run meanwhile
        try:
            self._due_ns = self._callback()
        except Exception:  # noqa: BLE001 - it never comes back: the program does not suffer twice
            self._due_ns = _NEVER


class TwinOperation:
    """A block of the program and the totals of its runs."""

    def __init__(self, core: TwinCore, name: int, identity: int, keep: int) -> None:
        self.core, self.name, self.identity, self._keep = core, name, identity, max(1, keep)
        self._forget()

    def _forget(self) -> None:
        self.generation = self.core.generation
        self.calls = self.failed = self.running = 0
        self.wall_ns = self.user_ns = self.system_ns = 0
        self.shortest_ns = self.longest_ns = self.last_ns = 0
        self.first_start_ns = self.last_end_ns = 0

    def run(self) -> TwinRun:
        return TwinRun(self)

    def totals(self) -> dict[str, int]:
        if self.generation != self.core.generation:  # they are those of a parent process
            self._forget()
        return {name: getattr(self, name) for name in _TOTALS}

    def begins(self) -> None:
        if self.generation != self.core.generation:
            self._forget()
        self.running += 1

    def ends(
        self, times_ns: tuple[int, int], cpu_ns: tuple[int, int], failed: bool, read: int
    ) -> None:
        start_ns, end_ns = times_ns
        wall_ns = end_ns - start_ns
        self.running -= 1
        self.calls += 1
        self.failed += failed
        self.wall_ns += wall_ns
        self.user_ns += cpu_ns[0]
        self.system_ns += cpu_ns[1]
        self.last_ns, self.last_end_ns = wall_ns, end_ns
        self.longest_ns = max(self.longest_ns, wall_ns)
        self.shortest_ns = min(self.shortest_ns, wall_ns) if self.calls > 1 else wall_ns
        if self.name and _is_recorded(self.calls, self._keep):
            self.core.push_run(self, times_ns, float(sum(cpu_ns)), failed, read)


class TwinRun:
    """One run of an operation, as a context manager."""

    def __init__(self, operation: TwinOperation) -> None:
        self._operation = operation
        self._depth = 0

    def __enter__(self) -> TwinRun:
        self._depth += 1
        if self._depth > 1:
            return self
        operation = self._operation
        core = operation.core
        operation.begins()
        self._generation = core.generation
        core.watch.call_when_due(core.now_ns())
        self._read = READ_AT_START if core.watch.read_memory() else 0
        self._cpu = cpu_now()
        self._start_ns = core.now_ns()
        operation.first_start_ns = operation.first_start_ns or self._start_ns
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        core = self._operation.core
        end_ns = core.now_ns()
        if self._depth == 0:
            return False
        self._depth -= 1
        if self._depth or self._generation != core.generation:
            return False
        user_ns, system_ns = cpu_now()
        cpu_ns = (user_ns - self._cpu[0], system_ns - self._cpu[1])
        must = bool(self._read) and end_ns - self._start_ns >= _LONG_RUN_NS
        if core.watch.read_memory(must):
            self._read |= READ_AT_END
        core.watch.call_when_due(end_ns)
        times_ns = (self._start_ns, end_ns)
        self._operation.ends(times_ns, cpu_ns, kind is not None, self._read)
        return False

    def __del__(self) -> None:
        if self._depth and self._generation == self._operation.core.generation:  # abandoned
            self._operation.running -= 1


class TwinNothing:
    """Can be called, entered and left, and does nothing."""

    def __call__(self, *_: object) -> TwinNothing:
        return self

    def __enter__(self) -> TwinNothing:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        return False


def _kilobytes(text: str, key: str) -> float:
    return float(int(text.split(key, 1)[1].split(None, 1)[0]) * 1024)


def _reset_mark() -> bool:
    """Of the most memory that this process held."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        return False
    return True


def cpu_now() -> tuple[int, int]:
    """User and system, of the process and the children that it waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    user_s, system_s = own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime
    return round(user_s * 1e9), round(system_s * 1e9)


def _is_recorded(calls: int, keep: int) -> bool:
    """All of the first `keep`; then every 2nd, from twice as many on every 4th, and so on."""
    every = 1
    while calls // every > keep:
        every *= 2
    return calls % every == 0
