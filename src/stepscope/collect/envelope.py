"""A batch on its way from a worker to the training process → `worker.serialise` and
`input.deserialise` spans.

A worker puts its batch into an `Envelope`, which times itself while the queue's feeder thread
pickles and sends it. Unpickled, it is the batch: nobody has to open it, and whoever receives it
gets what he would have got without us.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.collect.chain import hiding
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["Envelope", "Receiver", "Sender", "payload_bytes"]

_NAME = __name__.encode()
_NAME_WITHIN = 256  # an envelope's pickle says its name in its first bytes
_LOOKED_AT = 10_000  # parts of a batch whose size is asked for


class Envelope:
    """A batch, and who times its way. It is pickled once and then gone."""

    __slots__ = ("_data", "_sender")

    def __init__(self, data: Any, sender: Sender) -> None:
        self._data, self._sender = data, sender

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        self._sender.pickles(self._data)
        return _opened, (_ARRIVING, self._data)


class Sender:
    """In the worker: one span a batch, from the first byte pickled to the last one sent.

    Its CPU time is what sending costs; the rest of it the feeder thread stood before a full pipe,
    a lock of another worker or the GIL.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._name = recorder.intern(names.SERIALISE)
        self._token = -1
        self._bytes = 0

    def pickles(self, data: Any) -> None:
        try:
            if self._token >= 0:  # the batch before it could not be pickled
                self._recorder.end(self._token, 1)
            self._token = self._recorder.begin(self._name)
            self._bytes = payload_bytes(data)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(names.SERIALISE, error)

    def sending(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """`send` of a queue's pipe, which ends the span of what it sends."""

        def send_bytes(message: Any, *args: Any) -> Any:
            try:
                return send(message, *args)
            finally:
                self._sent(len(message))

        return hiding(send, send_bytes)

    def _sent(self, length: int) -> None:
        token, self._token = self._token, -1
        if token < 0:
            return
        try:
            self._recorder.end(token, 0, self._bytes + length)
        except Exception as error:  # noqa: BLE001
            self._recorder.failed(names.SERIALISE, error)


class Receiver:
    """In the training process, or its pin thread: one span a batch, from the first byte read to the
    last one unpickled. FAILED: it was no batch."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._name = recorder.intern(names.DESERIALISE)
        self._open = threading.local()

    def attach(self, queue: Any) -> None:
        """Time what is read from the pipe of this queue too."""
        receive = getattr(queue, "_recv_bytes", None)
        if receive is not None:
            queue._recv_bytes = self._receiving(receive)

    def _receiving(self, receive: Callable[..., bytes]) -> Callable[..., bytes]:
        def recv_bytes(*args: Any) -> bytes:
            self.begins(again=True)
            batch = False
            try:
                message = receive(*args)
                batch = _NAME in message[:_NAME_WITHIN]
                return message
            finally:
                if not batch:
                    self.ends(failed=1)

        return hiding(receive, recv_bytes)

    def begins(self, again: bool = False) -> None:
        try:
            token = getattr(self._open, "token", -1)
            if token < 0 or again:
                self._open.token = self._recorder.begin(self._name)
        except Exception as error:  # noqa: BLE001
            self._recorder.failed(names.DESERIALISE, error)

    def ends(self, failed: int = 0) -> None:
        try:
            token = getattr(self._open, "token", -1)
            self._open.token = -1
            if token >= 0:
                self._recorder.end(token, failed)
        except Exception as error:  # noqa: BLE001
            self._recorder.failed(names.DESERIALISE, error)

    def listen(self) -> None:
        """Be told of every batch that arrives in this process from now on."""
        global _receiver
        _receiver = self

    def leave(self) -> None:
        global _receiver
        if _receiver is self:
            _receiver = None


_receiver: Receiver | None = None


class _Arriving:
    """The first part of an envelope: unpickling it tells that the rest follows."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return _arriving, ()


_ARRIVING = _Arriving()


def _arriving() -> None:
    if _receiver is not None:
        _receiver.begins()


def _opened(_: None, data: Any) -> Any:
    if _receiver is not None:
        _receiver.ends()
    return data


def payload_bytes(data: Any) -> int:
    """Bytes of the tensors in a batch: they travel in shared memory, not through the pipe."""
    found, parts, met = 0, deque([data]), 0
    while parts and met < _LOOKED_AT:  # a batch may contain itself
        met += 1
        part = parts.popleft()
        if isinstance(part, Mapping):
            parts.extend(part.values())
        elif isinstance(part, (list, tuple)):
            parts.extend(part[:_LOOKED_AT])
        elif hasattr(part, "untyped_storage"):
            found += part.numel() * part.element_size()
    return found
