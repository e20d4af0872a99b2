"""Recomputing the next segment that backward will ask for, on a stream beside it.

Backward meets segments in the order opposite to forward's. When one is computed again, the one
that forward ran before it is started too, so that it is ready when backward gets there.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from stepscope.checkpointing.cache import Saved, saved_by
from stepscope.checkpointing.engine_handover import collect
from stepscope.checkpointing.engine_observers import note_failure
from stepscope.checkpointing.streams import Streams
from stepscope.checkpointing.wrapping_call import SegmentCall

__all__ = ["Ahead"]


class _Origin(NamedTuple):
    """What a call's forward was given, to run it again without torch's asking."""

    before: weakref.ref[SegmentCall] | None  # the call that forward ran before it
    # Arguments: tensors weakly, because they live as long as torch needs them, not for us.
    leaves: tuple[Any, ...]
    shape: Any
    random: tuple[Any, list[int], list[Any]]  # CPU's state, devices and theirs
    autocast: tuple[tuple[str, bool, Any], ...]  # device, on, type


class Ahead:
    """At most one segment is ahead: its activations are what prefetching costs in memory."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._local = threading.local()
        self._lock = threading.RLock()  # a graph may go while this thread is in here already
        self._ready: tuple[weakref.ref[SegmentCall], Saved] | None = None
        self.started = self.used = self.failed = 0

    @contextmanager
    def within(self, call: SegmentCall, arguments: Any) -> Iterator[None]:
        """Around a forward. Checkpoints inside others are not run ahead: these bring them along."""
        depth = getattr(self._local, "depth", 0)
        if depth == 0:
            call.origin = self._guarded(lambda: self._originating(arguments))
            self._local.last = weakref.ref(call)
        self._local.depth = depth + 1
        try:
            yield
        finally:
            self._local.depth = depth

    @contextmanager
    def recomputing(self) -> Iterator[None]:
        """Around a recomputation: checkpoints made inside it are not the program's forward."""
        depth = getattr(self._local, "depth", 0)
        self._local.depth = depth + 1
        try:
            yield
        finally:
            self._local.depth = depth

    def take(self, call: SegmentCall) -> Saved | None:
        """What was computed ahead for it; what comes next waits until it is there."""
        with self._lock:
            if self._ready is None or self._ready[0]() is not call:
                return None
            entry, self._ready = self._ready[1], None
        if not entry.is_valid:
            return None
        self._streams.wait(entry.ready, entry.tensors)
        self.used += 1
        return entry

    def before(self, call: SegmentCall) -> SegmentCall | None:
        """What forward ran before this call, if it can be started and was not met yet."""
        origin = call.origin
        before = origin.before() if origin is not None and origin.before is not None else None
        # One that ran as often as this one was met by this backward already. The kept results of
        # a selective one are in contexts that only torch can enter.
        if before is None or before.origin is None or before.runs >= call.runs:
            return None
        return None if before.part.contexts is not None else before

    def start(self, call: SegmentCall) -> None:
        """Compute it again, beside what the program does. Never raises."""
        entry = self._guarded(lambda: self._compute(call))
        if entry is not None:
            self.started += 1
            with self._lock:
                self._ready = weakref.ref(call, self._forget), entry

    def _forget(self, gone: weakref.ref[SegmentCall]) -> None:
        """The graph went before its backward came."""
        with self._lock:
            if self._ready is not None and self._ready[0] is gone:
                self._ready = None

    def _compute(self, call: SegmentCall) -> Saved | None:
        from torch import enable_grad

        arguments = _arguments(call.origin)
        if arguments is None:
            return None
        args, kwargs = arguments
        given = [leaf() for leaf in call.origin.leaves if isinstance(leaf, weakref.ref)]
        inputs = [*given, *call.parameters(), *call.buffers()]
        with self._streams.beside(inputs), self.recomputing(), _as_in_forward(call.origin):
            with enable_grad():
                tensors = collect(lambda: call.compute_again(args, kwargs))
            mark = self._streams.mark()
        return saved_by(tensors, call.parameters(), [*call.buffers(), *given], mark)

    def _originating(self, arguments: Any) -> _Origin:
        import torch
        from torch.utils._pytree import tree_flatten
        from torch.utils.checkpoint import get_device_states

        leaves, shape = tree_flatten(arguments)
        weak = tuple(weakref.ref(one) if isinstance(one, torch.Tensor) else one for one in leaves)
        devices, states = get_device_states(*leaves)
        kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        autocast = tuple(
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in kinds
        )
        last = getattr(self._local, "last", None)
        return _Origin(last, weak, shape, (torch.get_rng_state(), devices, states), autocast)

    def _guarded(self, do: Any) -> Any:
        """None: it failed. Nothing is lost: torch asks for it in its own time."""
        try:
            return do()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.failed += 1
            note_failure("recomputing ahead", error)
            return None


def _arguments(origin: _Origin) -> Any:
    """None: some of them are gone."""
    from torch.utils._pytree import tree_unflatten

    leaves = [one() if isinstance(one, weakref.ref) else one for one in origin.leaves]
    lost = any(
        isinstance(one, weakref.ref) and leaf is None
        for one, leaf in zip(origin.leaves, leaves, strict=True)
    )
    return None if lost else tree_unflatten(leaves, origin.shape)


@contextmanager
def _as_in_forward(origin: _Origin) -> Iterator[None]:
    """Random numbers and autocast as they were, and both as they are after it."""
    import torch
    from torch.utils.checkpoint import set_device_states

    state, devices, states = origin.random
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=devices))
        torch.set_rng_state(state)
        set_device_states(devices, states)
        for kind, on, dtype in origin.autocast:
            # Weights that were cast here are ready on this stream only: no cache.
            stack.enter_context(torch.autocast(kind, enabled=on, dtype=dtype, cache_enabled=False))
        yield
