"""Garbage collections that are worth their time: what is old is frozen, the rest is scheduled."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from stepscope.collect.chain import hiding
from stepscope.collect.limits import OwnLimits
from stepscope.tune.injection import Injection, users_site

__all__ = ["Gc"]

WARM_STEPS: Final = 3  # the loop is under way, and what it keeps has been made
LEAST_STEPS: Final = 20  # between two full collections
MOST_STEPS: Final = 1000
MOST_SHARE: Final = 0.005  # of the time, for full collections
# Automatic collections stay on, for loops without steps, and come more rarely. With the old objects
# frozen each costs a millisecond or two.
THRESHOLDS: Final = (10_000, 10, 10)
GROWN_SHARE: Final = 0.2
GROWN_BYTES: Final = 200 << 20
PATIENCE: Final = 3  # times that memory grew from garbage before all is as it was


class Gc(Injection):
    """settings: {"every_steps": n, or 0 for as often as is cheap; "freeze": true}. Results stay.

    Explicit `gc.collect()` calls are passed over (they return 0) until a full collection is due. A
    program that switched the collector off keeps it off. Where memory grows by a fifth and 200 MB,
    garbage is collected at once, and where that happens again and again everything is put back.
    """

    name: ClassVar[str] = "gc"
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def install(self) -> None:
        self._every = int(self.settings.get("every_steps") or 0) or LEAST_STEPS
        self._is_auto = not self.settings.get("every_steps")
        self._steps = self._since = self._alarms = 0
        self._is_on = self._is_over = False
        self._seen: int | None = None  # the step in which the program collected, before we began
        self._thresholds: tuple[int, ...] = ()
        self._frozen, self._last, self._limit_bytes = 0, 0.0, 0.0
        self._limits = OwnLimits()
        self._collect = gc.collect
        self.patches.replace(gc, "collect", self._collecting)

    def resident_bytes(self) -> int:
        pages = self._limits.pages()
        return pages[1] if pages is not None else 0

    def _collecting(self, collect: Callable[..., int]) -> Callable[..., int]:
        def wrapper(*args: Any, **kwargs: Any) -> int:
            is_full = not args and kwargs.get("generation", 2) == 2
            if not self._is_on or not (is_full or args == (2,)):
                self._seen = self._steps if is_full else self._seen
                return collect(*args, **kwargs)
            self.told.applied(f"gc.collect() every {self._every} steps", users_site())
            return self._collect_all() if self._since >= self._every else 0

        return hiding(collect, wrapper)

    def stepped(self, optimizer: Any) -> None:
        self._steps += 1
        if self._is_over or self._steps < WARM_STEPS:
            return
        if not self._is_on:
            self._begin()
            return
        self._since += 1
        if self.resident_bytes() > self._limit_bytes:
            self._grown()
        elif self._since >= self._every:
            self._collect_all()

    def _begin(self) -> None:
        self._is_on, self._last = True, self.clock()
        if self._seen is None or self._steps - self._seen > WARM_STEPS:
            self._collect_all()  # else the program has done so just now
        if self.settings.get("freeze", True):
            self._frozen = gc.get_freeze_count()
            gc.freeze()
        self._thresholds = gc.get_threshold()
        if gc.isenabled() and self._thresholds[0]:
            gc.set_threshold(*THRESHOLDS)
        self._keep_limit()
        self.told.applied(f"gc.freeze(), a collection every {self._every} steps", users_site())

    def _keep_limit(self) -> None:
        self._limit_bytes = self.resident_bytes() * (1 + GROWN_SHARE) + GROWN_BYTES

    def _collect_all(self) -> int:
        began = self.clock()
        found = self._collect()
        now = self.clock()
        if self._is_auto and self._since:
            step_s = (began - self._last) / self._since
            if step_s > 0:
                wanted = (now - began) / (MOST_SHARE * step_s)
                self._every = min(MOST_STEPS, max(LEAST_STEPS, round(wanted)))
        self._last, self._since = now, 0
        return found

    def _grown(self) -> None:
        """Garbage, or does the program need more? A collection tells."""
        self._collect()
        self._last, self._since = self.clock(), 0
        if self.resident_bytes() > self._limit_bytes:
            self._keep_limit()  # it is in use
            return
        self._alarms += 1
        self._every, self._is_auto = max(1, self._every // 2), False
        if self._alarms >= PATIENCE:
            self.told.refused("memory grew from garbage: automatic collections are back.")
            self._put_back()

    def _put_back(self) -> None:
        if self._is_on:
            self._is_on, self._is_over = False, True
            if gc.get_threshold() == THRESHOLDS:
                gc.set_threshold(*self._thresholds)
            if self.settings.get("freeze", True) and not self._frozen:
                gc.unfreeze()

    def undo(self) -> None:
        self._put_back()
        super().undo()
