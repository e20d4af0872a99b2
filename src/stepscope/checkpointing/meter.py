"""What memory and time are read from while a step is profiled: the CPU's, or a CUDA device's."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stepscope.collect.tensor_heap import HeapUnseenError, mark_heap
from stepscope.errors import UsageError
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.record.protocol import TensorHeap

__all__ = ["CpuMeter", "CudaMeter", "Marked", "Meter", "meter_for"]

_SMALLEST: Final = 64  # bytes: smaller ones are not counted by the heap either


class Marked(NamedTuple):
    peak_bytes: int  # the most that was live since the mark before
    live_bytes: int  # now


class Meter(Protocol):
    """Bytes of tensors, and moments. A moment is opaque until `ms` is asked, once a step is over:
    on a GPU it is an event of the stream."""

    def settle(self) -> None:
        """The training runs: whatever is live from before the meter was opened counts from now."""

    def mark(self) -> Marked: ...
    def moment(self) -> Any: ...
    def ms(self, began: Any, ended: Any) -> float: ...
    def close(self) -> None: ...


class CpuMeter:
    """Tensors of torch's CPU allocator, each byte of them (decision 012)."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        try:
            self._marks = mark_heap((recorder or Recorder()).core)
        except HeapUnseenError as why:
            raise UsageError(
                f"Tensors on the CPU cannot be measured here: {why}. stepscope's C core is needed,"
                " which is built when it is installed with a C compiler at hand."
            ) from None
        self._before_bytes = 0

    def settle(self) -> None:
        self._before_bytes = _unseen_bytes(self._marks.heap)

    def mark(self) -> Marked:
        if self._marks.is_lost:
            raise UsageError("Somebody else has begun to measure memory: one at a time can.")
        peak, live = self._marks.mark()
        return Marked(peak + self._before_bytes, live + self._before_bytes)

    def moment(self) -> int:
        return time.perf_counter_ns()

    def ms(self, began: int, ended: int) -> float:
        return (ended - began) / 1e6

    def close(self) -> None:
        self._marks.close()


def _unseen_bytes(heap: TensorHeap) -> int:
    """Of the CPU tensors that Python knows and that were made before the heap was watched."""
    import torch

    sizes: dict[int, int] = {}
    for one in gc.get_objects():
        # Not isinstance: that would ask stand-ins of the program's, which run its code.
        if issubclass(type(one), torch.Tensor) and one.device.type == "cpu":
            try:
                storage = one.untyped_storage()
                address, size = storage.data_ptr(), storage.nbytes()
            except (NotImplementedError, RuntimeError):  # it has none
                continue
            # What is not torch's own cannot grow: files that are mapped, arrays, shared memory.
            if size >= _SMALLEST and storage.resizable() and heap.find(address) is None:
                sizes[address] = size
    return sum(sizes.values())


class CudaMeter:
    """Tensors of one CUDA device, as torch's caching allocator counts them."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._cuda, self._device = torch.cuda, device

    def settle(self) -> None:
        """The allocator has counted from its first byte on."""

    def mark(self) -> Marked:
        peak = self._cuda.max_memory_allocated(self._device)
        live = self._cuda.memory_allocated(self._device)
        self._cuda.reset_peak_memory_stats(self._device)
        return Marked(int(peak), int(live))

    def moment(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def ms(self, began: Any, ended: Any) -> float:
        ended.synchronize()
        return float(began.elapsed_time(ended))

    def close(self) -> None:
        """There is nothing to put back."""


def meter_for(model: Any, recorder: Recorder | None = None) -> Meter:
    """For the device that most of the model's parameters are on."""
    import torch

    sizes: dict[Any, int] = {}
    for parameter in model.parameters():
        sizes[parameter.device] = sizes.get(parameter.device, 0) + parameter.numel()
    device = max(sizes, key=lambda one: sizes[one]) if sizes else torch.device("cpu")
    if device.type == "cpu":
        return CpuMeter(recorder)
    if device.type == "cuda":
        return CudaMeter(torch, device)
    raise UsageError(f"Checkpoints are planned for the CPU and for CUDA, not for {device.type}.")
