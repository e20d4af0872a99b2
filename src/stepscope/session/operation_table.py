"""The operations of a process: the totals that the core keeps, and what was read back of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepscope.analyze.operations import OperationFold
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.record.protocol import Operation

__all__ = ["OperationTable", "say_run_cost"]

_CALIBRATIONS = 5  # few: reading memory has a budget, which they use up
_SAID_AT_ONCE = 512  # operations whose totals are recorded between two flushes: rings are short
_TOTALS = {
    "calls": names.OPERATION_CALLS,
    "failed": names.OPERATION_FAILED,
    "wall_ns": names.OPERATION_WALL_NS,
    "user_ns": names.OPERATION_USER_NS,
    "system_ns": names.OPERATION_SYSTEM_NS,
    "shortest_ns": names.OPERATION_SHORTEST_NS,
    "longest_ns": names.OPERATION_LONGEST_NS,
}


class OperationTable:
    """By identity. used: what was read back of them so far."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._name = recorder.intern(names.OPERATION)
        self._ids = {key: recorder.intern(name) for key, name in _TOTALS.items()}
        self._operations: dict[str, Operation] = {}
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: what was measured is the parent's."""
        self._said: dict[str, int] = {}  # identity → number of runs in the totals last recorded
        self.used = OperationFold(os.getpid())

    def get(self, identity: str, keep: int) -> Operation:
        """Made on first use. keep: runs that are recorded one by one."""
        found = self._operations.get(identity)
        if found is None:
            number = self._recorder.intern(identity)
            found = self._recorder.core.Operation(self._name, number, keep)
            self._operations[identity] = found
        return found

    def forget(self, prefix: str) -> None:
        """Those whose identity begins so: what is recorded of them stays."""
        for identity in [one for one in self._operations if one.startswith(prefix)]:
            del self._operations[identity]
            self._said.pop(identity, None)
            self.used.forget(identity)

    @property
    def is_any_running(self) -> bool:
        return any(one.totals()["running"] for one in list(self._operations.values()))

    def update(self, batches: Iterable[Batch]) -> None:
        """With what this process recorded."""
        if self._operations:
            for batch in batches:
                self.used.update(batch)

    def say_totals(self) -> None:
        """Record the totals of those that ran since the last time."""
        recorder, said = self._recorder, 0
        for identity, operation in self._operations.items():
            totals = operation.totals()
            if totals["calls"] != self._said.get(identity, 0):
                said += 1
                if said % _SAID_AT_ONCE == 0:
                    recorder.flush()
                self._said[identity] = totals["calls"]
                text = recorder.intern(identity)
                for key, number in self._ids.items():
                    recorder.mark(number, totals[key], text)


def say_run_cost(recorder: Recorder) -> None:
    """What one run of an operation takes of the program, measured on one that does nothing."""
    empty = recorder.core.Operation(0, 0, 1)  # without a name: nothing of it is recorded
    best_ns = 1 << 40
    for _ in range(_CALIBRATIONS):
        began_ns = recorder.now_ns()
        with empty.run():
            pass
        best_ns = min(best_ns, recorder.now_ns() - began_ns)
    recorder.sample(recorder.intern(names.OWN_RUN_COST_NS), float(best_ns))
