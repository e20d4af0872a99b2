"""Every tensor on the CPU → what is allocated, by whom, and what for (decision 012).

Totals of every step and, now and then, what each line holds; on sampled steps every block that
comes and goes. Nothing here runs in an allocation: that is the core's.
"""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stepscope.collect.cuda_memory import CudaHistory
from stepscope.collect.holders import Holders
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.labels import Labels
from stepscope.collect.layers import LayersCollector
from stepscope.collect.limits import OwnLimits
from stepscope.collect.python_heap import PythonLines
from stepscope.collect.sampled import Roots
from stepscope.collect.stacks import tell_nodes
from stepscope.collect.suspects import Suspects
from stepscope.collect.tensor_heap import TENSORS, HeapUnseenError, leave_heap, use_heap
from stepscope.collect.watch import Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.record.protocol import TensorHeap

__all__ = ["TensorMemory"]

# Whose larger blocks are seen too: kernels' workspaces, and arrays of numpy.
LIBRARIES: Final = ("libtorch_cpu.so", "_multiarray_umath")
WINDOW_SPREAD: Final = 1.05  # each window is this many times as far into the run as the one before
WINDOW_SHARE: Final = 0.005  # of the time since the first step: more must not go into windows
DEAR_SPREAD: Final = 1.25  # where they would take more
EXAMINED_SHARE: Final = 0.01  # of the time, that looking for holders may have taken when it starts
COST_ROUNDS: Final = 500
MOST_OPTIMIZERS: Final = 16


class TensorMemory(HookingCollector):
    """`after_step` with every step's optimizer; `begin_step` and `end_step` around sampled ones."""

    name = "tensor memory"

    def __init__(
        self, roots: Roots, layers: LayersCollector, lines: PythonLines | None = None
    ) -> None:
        super().__init__()
        self.cuda: CudaHistory | None = None  # where there are GPUs
        self._layers = layers
        self._labels = Labels(roots)
        self._lines = lines
        self._heap: TensorHeap | None = None
        self._optimizers: dict[int, Callable[[], Any]] = {}
        self._steps, self._next = 0, 1
        self._first_ns = self._spent_ns = self._windows_ns = self._examined_ns = 0

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """See StepsCollector: in another process nobody looks."""
        return _nobody, ()

    # ---- going in ----

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._intern_names(recorder.intern)
        if self.cuda is not None:
            self._guarded(self.cuda.start)
        try:
            heap = use_heap(recorder.core)
        except HeapUnseenError as why:
            self._tell_seen({"why": str(why)})
            return
        self._limits = OwnLimits()
        pages = self._limits.pages()
        if pages is not None:
            before = recorder.intern(names.MEMORY_BEFORE)
            recorder.sample(before, float(pages[1]), pages[2])
        heap.stacks(True)
        heap.cost_ns(1)  # what a stack costs when it is met for the first time is no measure
        tell_nodes(recorder, heap.resolve())
        self._pair_ns = heap.cost_ns(COST_ROUNDS)
        self._heap = heap
        self._suspects, self._holders = Suspects(), Holders(recorder, heap)
        self._watched, self._told = {TENSORS}, 0
        self._watch_libraries()

    def _intern_names(self, intern: Callable[[str], int]) -> None:
        self._peak, self._window = intern(names.MEMORY_STEP_PEAK), intern(names.MEMORY_WINDOW)
        self._begin, self._end = intern(names.MEMORY_LOOK_BEGIN), intern(names.MEMORY_LOOK_END)
        self._limit, self._rss = intern(names.MEMORY_LIMIT), intern(names.MEMORY_RSS)
        self._reserved, self._free = intern(names.HEAP_RESERVED), intern(names.HEAP_FREE)
        self._total, self._own = intern(names.MEMORY_TOTAL), intern(names.OWN_MEMORY_NS)

    def _watch_libraries(self) -> None:
        """Those that are loaded by now."""
        assert self._heap is not None
        for library in LIBRARIES:
            if library not in self._watched and self._heap.watch(library, False) > 0:
                self._watched.add(library)
        if len(self._watched) != self._told:
            self._told = len(self._watched)
            self._tell_seen({"libraries": sorted(self._watched)})

    def _tell_seen(self, seen: dict[str, Any]) -> None:
        recorder = self._recorder
        recorder.mark(recorder.intern(names.MEMORY_SEEN), 0, recorder.intern(json.dumps(seen)))

    def _uninstall(self) -> None:
        self.drop_step()
        cuda = self.cuda
        if cuda is not None:
            self._guarded(lambda: cuda.tell(self._recorder, at_end=True))
            self._guarded(cuda.stop)
        if self._heap is not None:
            self._guarded(self._tell_stacks)  # of what was refused since the last step
            self._heap.tell_peak()
            self._guarded(self._tell_cost)
            leave_heap(self._heap)
            self._heap = None
        super()._uninstall()

    def after_fork(self) -> None:
        """In a child: the core books nothing there."""
        self._heap = None

    # ---- every step ----

    def after_step(self, optimizer: Any) -> None:
        """Never raises. Where steps are short, several may lie between two calls."""
        heap = self._heap
        if heap is None or not self._running:
            return
        self._steps += 1
        most_bytes, live_bytes = heap.end_step()
        self._recorder.sample(self._peak, float(most_bytes), live_bytes)
        if id(optimizer) not in self._optimizers and len(self._optimizers) < MOST_OPTIMIZERS:
            self._guarded(lambda: self._remember(optimizer))
        if self._steps >= self._next:
            self._guarded(self._end_window)

    def _remember(self, optimizer: Any) -> None:
        self._optimizers[id(optimizer)] = weakref.ref(optimizer)

    def _end_window(self) -> None:
        began_ns = self._recorder.now_ns()
        self._first_ns = self._first_ns or began_ns
        suspects = self._suspects.look(self._tell_window(), self._steps)
        ended_ns = self._recorder.now_ns()
        self._windows_ns += ended_ns - began_ns
        is_dear = self._windows_ns > WINDOW_SHARE * (ended_ns - self._first_ns)
        spread = DEAR_SPREAD if is_dear else WINDOW_SPREAD
        # The first ones come with every step: a leak shows within them.
        spread = spread if self._steps > 2 * Suspects.WINDOWS else 1.0
        self._next = max(self._steps + 1, math.ceil(self._steps * spread))
        # The first time it is worth its cost in any case: that is why it was asked for.
        elapsed_ns = ended_ns - self._first_ns
        if suspects and self._examined_ns <= EXAMINED_SHARE * elapsed_ns:
            self._holders.examine(suspects, self._steps)
            self._examined_ns += self._recorder.now_ns() - ended_ns
        self._spent_ns += self._recorder.now_ns() - began_ns
        self._tell_cost()

    def _tell_window(self) -> list[tuple[int, int, int, int]]:
        """What is held, and what the process holds in all."""
        assert self._heap is not None
        sample, heap = self._recorder.sample, self._heap
        self._tell_stacks()
        rows = heap.tell_held()
        self._recorder.mark(self._window)
        heap.tell_peak()
        nearest, pages, malloc = self._limits.nearest(), self._limits.pages(), heap.malloc_info()
        if nearest is not None:
            kind = self._recorder.intern(nearest.kind)
            sample(self._limit, float(nearest.limit_bytes), nearest.used_bytes, 0, kind)
        if pages is not None:
            sample(self._rss, float(pages[1]), pages[2])
        if self.cuda is not None:
            self.cuda.sample_pinned(self._recorder)
        if malloc is not None:
            reserved, free, top, mapped = malloc
            sample(self._reserved, float(reserved), mapped)
            sample(self._free, float(free), top)
        return rows

    def _tell_stacks(self) -> None:
        assert self._heap is not None
        tell_nodes(self._recorder, self._heap.resolve())

    def _tell_cost(self) -> None:
        assert self._heap is not None
        totals = self._heap.totals()
        text = self._recorder.intern(json.dumps(totals))
        self._recorder.mark(self._total, 0, text)
        spent_ns = self._spent_ns + totals["allocated"] * self._pair_ns
        self._recorder.sample(self._own, float(spent_ns))

    # ---- sampled steps ----

    def begin_step(self) -> None:
        heap, calls = self._heap, self._layers.calls
        if heap is None or not self._running:
            return
        began_ns = self._recorder.now_ns()
        self._watch_libraries()
        self._tell_stacks()
        self._labels.tell(heap, self._living())
        heap.tell_held()
        self._recorder.mark(self._window)
        if calls is not None:
            calls.at, calls.entered = heap.layer, lambda given: self._labels.tell_input(heap, given)
        self._recorder.mark(self._begin, heap.totals()["live_bytes"])
        heap.record(True)
        self._begin_cost_ns = self._recorder.now_ns() - began_ns

    def end_step(self) -> int:
        heap = self._heap
        if heap is None:
            return 0
        began_ns = self._recorder.now_ns()
        self._labels.tell(heap, self._living())
        heap.record(False)
        heap.layer(0)
        self._tell_stacks()
        self._recorder.mark(self._end, heap.totals()["live_bytes"])
        if self._lines is not None:
            self._lines.tell(self._recorder)
        if self.cuda is not None:
            self.cuda.tell(self._recorder)
        return self._begin_cost_ns + self._recorder.now_ns() - began_ns

    def drop_step(self) -> None:
        if self._heap is not None:
            self._heap.record(False)
            self._heap.layer(0)

    def _living(self) -> list[Any]:
        found = [optimizer() for optimizer in self._optimizers.values()]
        return [optimizer for optimizer in found if optimizer is not None]

    def _guarded(self, do: Callable[[], Any]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(self.name, error)


def _nobody() -> TensorMemory:
    return TensorMemory(Roots(), LayersCollector(Watch()))
