"""What torch enters around the forward of a checkpoint, and around its recomputation."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from stepscope.collect.checkpoint_saved import Saved

if TYPE_CHECKING:
    from stepscope.collect.checkpoint_calls import CheckpointCall
    from stepscope.collect.checkpoints import CheckpointDoor

__all__ = ["Again", "Forward", "Running", "now_ns"]

now_ns = time.monotonic_ns


class Running(threading.local):
    """The checkpoints that run on a thread, from the outermost to the innermost."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, Saved | None, bool]] = []

    @property
    def depth(self) -> int:
        return len(self._stack)

    @property
    def saved(self) -> Saved | None:
        """Where what the innermost forward keeps is counted; None: it is not."""
        return self._stack[-1][1] if self._stack else None

    @property
    def is_recomputing(self) -> bool:
        """One of them runs again, in a backward."""
        return any(again for _, _, again in self._stack)

    def enter(self, saved: Saved | None = None, again: bool = False) -> None:
        self._stack.append((now_ns(), saved, again))

    def leave(self) -> int:
        """When it was entered. 0: torch left it on another thread, where it closed what was left
        behind: nobody asks how long that took."""
        return self._stack.pop()[0] if self._stack else 0


class _Around:
    """The program's own context, where it has one, is inside ours, and decides about exceptions."""

    __slots__ = ("__weakref__", "_call", "_door", "_theirs")

    def __init__(self, door: CheckpointDoor, call: CheckpointCall, theirs: Any) -> None:
        self._door, self._call, self._theirs = door, call, theirs

    def _enter(self, saved: Saved | None, again: bool) -> Any:
        running = self._door.running
        running.enter(saved, again)
        if self._theirs is None:
            return None
        try:
            return self._theirs.__enter__()
        except BaseException:
            running.leave()
            raise

    def _leave(self, kind: Any, error: Any, trace: Any) -> tuple[int, int, Any]:
        """When it began, how long it took, and whether the exception ends here."""
        ended_ns = now_ns()
        started_ns = self._door.running.leave()
        theirs = self._theirs
        suppressed = None if theirs is None else theirs.__exit__(kind, error, trace)
        return started_ns, ended_ns - started_ns, suppressed


class Forward(_Around):
    """The first time."""

    __slots__ = ("_saved",)

    def __init__(
        self, door: CheckpointDoor, call: CheckpointCall, saved: Saved | None, theirs: Any
    ) -> None:
        super().__init__(door, call, theirs)
        self._saved = saved

    def __enter__(self) -> Any:
        return self._enter(self._saved, False)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        started_ns, duration_ns, suppressed = self._leave(kind, error, trace)
        if kind is None:
            self._tell(started_ns, duration_ns)
        return suppressed

    def _tell(self, started_ns: int, duration_ns: int) -> None:
        saved, self._saved = self._saved, None
        self._call.started_ns = started_ns
        if saved is not None:
            try:
                self._call.saved_bytes = saved.saved_bytes()
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self._door.guard(error)
        self._door.tell_checkpointed(self._call, duration_ns)


class Again(_Around):
    """Entered once for each recomputation, as often as there are backward passes. It lives as long
    as the graph that may need it."""

    __slots__ = ("_function", "_stop")

    def __init__(
        self, door: CheckpointDoor, call: CheckpointCall, theirs: Any, stop: Any, function: Any
    ) -> None:
        """`stop`: what torch raises when it has all that it needs. `function`: what is run again,
        if it is our manager's: that one may say that it `is_retrieval`, with the answer at hand."""
        super().__init__(door, call, theirs)
        self._stop, self._function = stop, function

    def __enter__(self) -> Any:
        self._door.tell_recomputing(self._call)
        return self._enter(None, True)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        _, duration_ns, suppressed = self._leave(kind, error, trace)
        is_retrieval = getattr(self._function, "is_retrieval", False)
        if not is_retrieval and (kind is None or issubclass(kind, self._stop)):
            self._door.tell_recomputed(self._call, duration_ns)
        return suppressed

    def __del__(self) -> None:
        self._door.tell_released(self._call)
