"""One run of an operation that is looked at by itself: a context, a start and a stop, a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.analyze.operations import OperationUse
from stepscope.model.summary import Summary
from stepscope.session.analysis import RunFold
from stepscope.session.inside import Inside

if TYPE_CHECKING:
    from stepscope.record.protocol import Operation

__all__ = ["Block"]


class Block:
    """From `open` to `close`. What training loop ran within it is found too."""

    def __init__(self, session: Inside, identity: str, operation: Operation, run: Any) -> None:
        self._session = session
        self._identity = identity
        self._operation = operation
        self._run = run
        self._loops = RunFold()
        self._end_ns = 0

    def open(self) -> None:
        self._session.look()
        self._session.follow(self._loops)
        self._before = self._operation.totals()
        self._run.__enter__()
        self._cpu = self._session.recorder.core.cpu_now()
        self.start_ns = self._session.recorder.now_ns()

    def close(self, failed: type[BaseException] | None = None) -> OperationUse:
        """What was used, in this run alone."""
        self._run.__exit__(failed, None, None)
        self._end_ns = self._session.recorder.now_ns()
        self._session.look()
        self._session.unfollow(self._loops)
        return self.use()

    def use(self) -> OperationUse:
        """So far, or of the whole when it is closed."""
        if not self._end_ns:
            use = self._session.use_between(self._identity, self.start_ns)
            user_ns, system_ns = self._session.recorder.core.cpu_now()
            own: dict[str, Any] = {
                "user_ns": user_ns - self._cpu[0],
                "system_ns": system_ns - self._cpu[1],
            }
            return replace(use, **own)
        after = self._operation.totals()
        gained: dict[str, Any] = {key: after[key] - self._before[key] for key in _SUMS}
        use = self._session.use_then(self._identity, self.start_ns, self._end_ns)
        last_ns = after["last_ns"]
        return replace(use, **gained, shortest_ns=last_ns, longest_ns=last_ns)

    def summary(self) -> Summary:
        """Of the training loop that ran within it; without findings if there was none."""
        return self._loops.summary({}, [], [])


_SUMS = ("calls", "failed", "wall_ns", "user_ns", "system_ns")
