"""Work beside what the program does: streams of a device, or nothing where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

__all__ = ["CudaStreams", "Streams", "find_streams"]


class Streams(Protocol):
    """One line of work beside the program's own."""

    def beside(self, inputs: Sequence[Any]) -> AbstractContextManager[None]:
        """What is started inside runs beside the program, after all that it started so far.
        `inputs` are read there: their memory must not be given away before."""

    def mark(self) -> object:
        """Inside `beside`: the point up to which work has been started."""

    def wait(self, mark: object, tensors: Sequence[Any]) -> None:
        """What the program starts from now on comes after the mark, and uses these tensors, which
        were made beside it."""


class CudaStreams:
    """A stream of its own on each device. Never run on a GPU by us: docs/concepts/checkpointing.md.

    `cuda` is torch.cuda, or what stands for it in tests.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._sides: dict[Any, Any] = {}

    @contextmanager
    def beside(self, inputs: Sequence[Any]) -> Iterator[None]:
        device = next((tensor.device for tensor in inputs if tensor.is_cuda), None)
        side = self._side(self._cuda.current_device() if device is None else device)
        side.wait_stream(self._cuda.current_stream(side.device))
        for tensor in inputs:
            if tensor.is_cuda:
                tensor.record_stream(side)
        with self._cuda.stream(side):
            yield

    def mark(self) -> object:
        event = self._cuda.Event()
        event.record()  # on the stream that is current: ours
        return event

    def wait(self, mark: object, tensors: Sequence[Any]) -> None:
        for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
            self._cuda.current_stream(device).wait_event(mark)
        for tensor in tensors:
            if tensor.is_cuda:
                tensor.record_stream(self._cuda.current_stream(tensor.device))

    def _side(self, device: Any) -> Any:
        if device not in self._sides:
            self._sides[device] = self._cuda.Stream(device)
        return self._sides[device]


def find_streams() -> Streams | None:
    """None: there is no device with streams here."""
    import torch

    return CudaStreams(torch.cuda) if torch.cuda.is_available() else None
