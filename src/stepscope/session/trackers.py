"""The engine behind the trackers: what is read now, and what the sampler saw during a session."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from stepscope.analyze.gauges import Gauges
from stepscope.collect.current import (
    cpu_count,
    cpu_frequency_mhz,
    cpu_times_s,
    gpu_memory,
    io_bytes,
    machine_memory,
)
from stepscope.collect.own_memory import rss_bytes
from stepscope.config import SAMPLING_INTERVAL_S
from stepscope.session.inside import inside
from stepscope.session.profile import shared_profile
from stepscope.session.sampled import Sampled
from stepscope.session.wishes import Wishes

__all__ = [
    "Tracking",
    "cpu_count",
    "cpu_frequency_mhz",
    "cpu_times_s",
    "gpu_memory",
    "io_bytes",
    "machine_memory",
    "now_s",
    "rss_bytes",
]


def now_s() -> float:
    """The recorder's clock."""
    return inside(hooks=False).recorder.now_ns() / 1e9


class Tracking:
    """Keeps the sampler going from `start` to `stop`, and what it saw from then on."""

    def __init__(self) -> None:
        self._run: AbstractContextManager[Any] | None = None
        self._sampled: Sampled | None = None

    @property
    def is_open(self) -> bool:
        return self._run is not None

    @property
    def gauges(self) -> Gauges | None:
        """None: it was never started."""
        if self._run is not None:
            inside(hooks=False).pull()
        return None if self._sampled is None else self._sampled.gauges

    def start(self, interval_s: float = SAMPLING_INTERVAL_S) -> None:
        """Again: from now on."""
        self.stop()
        session = inside(hooks=False)
        self._sampled = Sampled(session.recorder.now_ns())
        session.follow(self._sampled)
        wishes = Wishes(gpu=False, interval_s=interval_s, hooks=False)
        self._run = shared_profile(wishes).maker("(trackers)")()
        self._run.__enter__()
        session.keep_sampling()

    def stop(self) -> None:
        if self._run is None or self._sampled is None:
            return
        session = inside(hooks=False)
        session.look()
        self._run.__exit__(None, None, None)
        self._run = None
        session.unfollow(self._sampled)
