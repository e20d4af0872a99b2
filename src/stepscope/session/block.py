"""One run of an operation that is looked at by itself: a context, a start and a stop, a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepscope.analyze.operations import OperationUse
from stepscope.model.summary import Summary
from stepscope.session.analysis import RunFold
from stepscope.session.inside import Inside

__all__ = ["Block"]


class Block:
    """From `open` to `close`. What training loop ran within it is found too."""

    def __init__(self, session: Inside, identity: str, run: Any) -> None:
        self._session = session
        self._identity = identity
        self._run = run
        self._loops = RunFold()
        self._end_ns = 0
        self._failed = False

    def open(self) -> None:
        self._session.look()
        self._session.follow(self._loops)
        self._run.__enter__()
        self._cpu = self._cpu_end = self._session.recorder.core.cpu_now()
        self.start_ns = self._session.recorder.now_ns()

    def close(self, failed: type[BaseException] | None = None) -> OperationUse:
        """What was used, in this run alone."""
        self._end_ns = self._session.recorder.now_ns()
        self._cpu_end = self._session.recorder.core.cpu_now()
        self._failed = failed is not None
        self._run.__exit__(failed, None, None)
        self._session.look()
        self._session.unfollow(self._loops)
        return self.use()

    def use(self) -> OperationUse:
        """So far, or of the whole when it is closed."""
        if self._end_ns:
            use = self._session.use_then(self._identity, self.start_ns, self._end_ns)
            wall_ns = self._end_ns - self.start_ns
            use = replace(
                use, calls=1, failed=int(self._failed), shortest_ns=wall_ns, longest_ns=wall_ns
            )
        else:
            use = self._session.use_between(self._identity, self.start_ns)
            self._cpu_end = self._session.recorder.core.cpu_now()
        (user_ns, system_ns), (before_user_ns, before_system_ns) = self._cpu_end, self._cpu
        return replace(
            use, user_ns=user_ns - before_user_ns, system_ns=system_ns - before_system_ns
        )

    def summary(self) -> Summary:
        """Of the training loop that ran within it; without findings if there was none."""
        return self._loops.summary({}, [], [])
