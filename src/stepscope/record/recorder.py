"""The recorder: the core's calls under one roof, and the count of what went wrong inside us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.model import names
from stepscope.record.core import core as default_core

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.record.protocol import Core

__all__ = ["Recorder"]

FAILURES_KEPT_PER_PLACE = 20


class Recorder:
    """The one writer. Its calls are the core's own, bound here so that a hook pays one lookup."""

    def __init__(self, core: Core = default_core) -> None:
        self.core = core
        self.now_ns = core.now_ns
        self.intern = core.intern
        self.begin: Callable[..., int] = core.begin
        self.end: Callable[..., None] = core.end
        self.is_open = core.is_open
        self.span = core.span
        self.complete = core.complete
        self.sample = core.sample
        self.mark = core.mark
        self.set_step = core.set_step
        self.gc_callback = core.gc_callback
        self.flush = core.flush
        self.close = core.close
        self.drain = core.drain
        self.pause = core.pause
        self.resume = core.resume
        self.counters = core.counters
        self.after_fork = core.after_fork
        self.position = core.position
        self.discard = core.discard
        self.failures: dict[str, int] = {}
        self._failed_name = core.intern(names.HOOK_FAILED)

    def __reduce__(self) -> tuple[type[Recorder], tuple[()]]:
        """What pickles a function that we wrapped takes the recorder of the process it ends in."""
        return Recorder, ()

    def passing_through(self, begin: Callable[..., int], end: Callable[..., None]) -> Recorder:
        """The same recorder, for those whose spans have to pass through somebody else first."""
        made = Recorder(self.core)
        made.failures = self.failures
        made.begin, made.end = begin, end
        return made

    def open(self, base: str, header: bytes, status: str = "") -> None:
        """Start writing to `base.NNNN.frames`; own cost and losses are recorded along."""
        own = (
            self.intern(names.OWN_DROPPED),
            self.intern(names.OWN_LOST),
            self.intern(names.OWN_WRITER_CPU_NS),
            self.intern(names.OWN_CALLS),
            self.intern(names.OWN_PROBES),
            self.intern(names.OWN_CLOCKS),
        )
        self.core.open(base, header, status, own)

    def failed(self, where: str, error: BaseException) -> None:
        """Count an error inside stepscope and record it; the user's program goes on."""
        count = self.failures.get(where, 0) + 1
        self.failures[where] = count
        if count > FAILURES_KEPT_PER_PLACE:
            return
        try:
            text = self.core.intern(f"{where}: {type(error).__name__}: {error}"[:300])
            self.core.mark(self._failed_name, count, text)
        except Exception:  # noqa: BLE001 - the core itself fails: the count is all there is
            return
