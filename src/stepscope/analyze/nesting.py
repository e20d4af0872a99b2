"""Which operations ran within which: what an operation took by itself."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from stepscope.model import names
from stepscope.model.event import Batch, EventType
from stepscope.model.process import ProcessInfo

__all__ = ["NestingFold"]

_MOST = 8192  # runs of a thread that may still turn out to lie within another


class NestingFold:
    """Runs on one thread that lie within others. Many runs are recorded in part only, so what is
    kept is how much of the recorded time of one operation lay within another."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix  # of the identities that count
        self.after_fork()

    def after_fork(self) -> None:
        """A forked child has nothing of its parent's."""
        self._pid = os.getpid()
        self._open: dict[int, list[tuple[int, Counter[str]]]] = defaultdict(list)
        self._recorded: Counter[str] = Counter()
        self._within: dict[tuple[str, str], int] = defaultdict(int)  # (inner, outer) → ns

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if process.pid == self._pid:
            for batch in batches:
                if names.OPERATION in batch.names.values():
                    self._take(batch)

    def _take(self, batch: Batch) -> None:
        columns = ("name", "type", "text", "track", "time_ns", "duration_ns")
        rows = zip(*(batch.columns[column].tolist() for column in columns), strict=True)
        for name, kind, text, track, start_ns, lasted_ns in rows:
            if kind == EventType.SPAN and batch.names[name] == names.OPERATION:
                identity = batch.names[text]
                if identity.startswith(self._prefix):
                    self._ended(track, identity, start_ns, lasted_ns)

    def _ended(self, track: int, identity: str, start_ns: int, lasted_ns: int) -> None:
        """Those of its thread that began after it, and are not within one of them, are its own."""
        before = self._open[track]
        while before and before[-1][0] >= start_ns:
            _, took = before.pop()
            for inner, ns in took.items():
                self._within[inner, identity] += ns
        self._recorded[identity] += lasted_ns
        before.append((start_ns, Counter({identity: lasted_ns})))
        if len(before) > _MOST:
            first = [
                (at, a + b) for (at, a), (_, b) in zip(before[::2], before[1::2], strict=False)
            ]
            self._open[track] = first + before[len(first) * 2 :]

    def own_ns(self, walls_ns: Mapping[str, int]) -> dict[str, float]:
        """Identity → its time less that of the operations within it; `walls_ns`: exact totals."""
        own = {identity: float(ns) for identity, ns in walls_ns.items()}
        for (inner, outer), ns in self._within.items():
            if inner in walls_ns and outer in own:
                # Runs of both may be recorded in part, together or not.
                of_inner = walls_ns[inner] / max(1, self._recorded[inner])
                of_outer = walls_ns[outer] / max(1, self._recorded[outer])
                own[outer] -= min(float(walls_ns[inner]), ns * of_inner * of_outer)
        return {identity: max(0.0, ns) for identity, ns in own.items()}
