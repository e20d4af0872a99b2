"""Runs recomputations: by hand, and for the segments of a CheckpointManager."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from stepscope.checkpointing.cache import CacheInfo, RecomputeCache, Saved, saved_by
from stepscope.checkpointing.engine_ahead import Ahead
from stepscope.checkpointing.engine_handover import collect, hand_over
from stepscope.checkpointing.engine_observers import Observer, note_failure, tell
from stepscope.checkpointing.streams import Streams, find_streams
from stepscope.checkpointing.tensors import storages, tensors_in
from stepscope.checkpointing.wrapping_call import SegmentCall
from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import CheckpointEventType

__all__ = ["RecomputationEngine"]


class RecomputationEngine:
    """What torch recomputes can be kept for the next backward through the same graph, and the next
    segment can be started before torch asks for it. Both are off unless they are asked for: a
    training step goes through each graph once, so a cache pays only where backward is repeated
    (`retain_graph=True`, several losses, `torch.autograd.grad` for each output).

    cache_bytes: the most that the cache holds; 0: no cache.
    prefetch: recompute one segment ahead on a stream of its own, where the device has streams.
    observers: called with (layer_id, type, duration_ns, bytes) for recomputations by hand and for
    hits of the cache. Recomputations that torch asks for are seen at torch's door.
    """

    def __init__(
        self, cache_bytes: int = 0, prefetch: bool = False, *, streams: Streams | None = None
    ) -> None:
        if type(cache_bytes) is not int or cache_bytes < 0:
            raise UsageError(f"cache_bytes={cache_bytes!r} is not possible: bytes from 0 on.")
        self.observers: list[Observer] = []
        self._cache = RecomputeCache(cache_bytes) if cache_bytes else None
        self._wants_prefetch = bool(prefetch)
        if prefetch and streams is None:
            streams = find_streams()
        self._ahead = Ahead(streams) if prefetch and streams is not None else None

    # ---- by hand ----

    def recompute(
        self, layer_id: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Run it, and tell the observers how long it took and how many bytes its result has."""
        began_ns = time.perf_counter_ns()
        result = function(*args, **kwargs)
        duration_ns = time.perf_counter_ns() - began_ns
        size_bytes = sum(storages(tensors_in((result,))).values())
        tell(self.observers, layer_id, CheckpointEventType.RECOMPUTE, duration_ns, size_bytes)
        return result

    # ---- for segments ----

    def forward(self, call: SegmentCall, args: Any, kwargs: Any) -> Any:
        """The first run of a checkpoint."""
        if self._ahead is None:
            return call.compute(args, kwargs)
        with self._ahead.within(call, (args, kwargs)):
            return call.compute(args, kwargs)

    def again(self, call: SegmentCall, args: Any, kwargs: Any) -> Any:
        """torch asks for what its forward saved. The result is of no use to it."""
        if self._cache is None and self._ahead is None:
            return call.compute_again(args, kwargs)
        entry = self._kept(call)
        tensors = self._compute(call, args, kwargs) if entry is None else entry.tensors
        if self._ahead is not None:
            before = self._ahead.before(call)
            if before is not None and not (self._cache is not None and self._cache.has(before)):
                self._ahead.start(before)
        hand_over(tensors)
        return None

    def _kept(self, call: SegmentCall) -> Saved | None:
        """From the cache, or computed ahead."""
        began_ns = time.perf_counter_ns()
        ahead = None if self._ahead is None else self._ahead.take(call)
        if ahead is not None:
            self._keep(call, lambda: ahead)
            call.is_retrieval = False
            return ahead
        entry = None if self._cache is None else self._cache.get(call)
        call.is_retrieval = entry is not None
        if entry is not None:
            duration_ns = time.perf_counter_ns() - began_ns
            retrieved = CheckpointEventType.RETRIEVE
            tell(self.observers, call.layer_id, retrieved, duration_ns, entry.size_bytes)
        return entry

    def _compute(self, call: SegmentCall, args: Any, kwargs: Any) -> Sequence[Any]:
        if self._ahead is None:
            tensors = collect(lambda: call.compute_again(args, kwargs))
        else:
            with self._ahead.recomputing():
                tensors = collect(lambda: call.compute_again(args, kwargs))
        given = (args, kwargs)
        self._keep(
            call,
            lambda: saved_by(tensors, call.parameters(), [*call.buffers(), *tensors_in(given)]),
        )
        return tensors

    def _keep(self, call: SegmentCall, entry: Callable[[], Saved]) -> None:
        if self._cache is None:
            return
        try:
            self._cache.put(call, entry())
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            note_failure("the recompute cache", error)

    # ---- what came of it ----

    @property
    def prefetches(self) -> bool:
        """False also where it was asked for and the device has no streams."""
        return self._ahead is not None

    def cache_info(self) -> CacheInfo:
        """All 0 where there is no cache."""
        return CacheInfo(0, 0, 0, 0, 0, 0) if self._cache is None else self._cache.info()

    def clear_cache(self) -> None:
        """Give its memory back now; what was counted stays."""
        if self._cache is not None:
            self._cache.clear()

    def describe(self) -> str:
        """What cache and prefetching were good for, in plain sentences."""
        return f"{self._describe_cache()} {self._describe_prefetch()}"

    def _describe_cache(self) -> str:
        if self._cache is None:
            return "There is no recompute cache."
        info = self._cache.info()
        asked = info.hits + info.misses
        if not asked:
            return "The cache was never asked: nothing was recomputed."
        if not info.hits:
            return f"The cache was asked {_times(asked)} and never had the answer: {_why(info)}"
        lost = f" {info.evicted} of its entries had to make room." if info.evicted else ""
        return (
            f"The cache was asked {_times(asked)} and had the answer {_times(info.hits)}; it "
            f"holds {info.bytes:,} bytes.{lost}"
        )

    def _describe_prefetch(self) -> str:
        if not self._wants_prefetch:
            return "Nothing is recomputed ahead."
        if self._ahead is None:
            return "Nothing is recomputed ahead: there is no device with streams here."
        ahead = self._ahead
        failed = f" {_times(ahead.failed)} it failed." if ahead.failed else ""
        segments = "1 segment was" if ahead.started == 1 else f"{ahead.started:,} segments were"
        return f"{segments} recomputed ahead, {ahead.used:,} of them used.{failed}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _why(info: CacheInfo) -> str:
    if info.refused or info.evicted:
        return (
            f"it is too small ({info.refused} results did not fit at all, {info.evicted} had to "
            "make room). Make it larger, or leave it off."
        )
    return "each graph was used for one backward. It costs memory and gains nothing: leave it off."
