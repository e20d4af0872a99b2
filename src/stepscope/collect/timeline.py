"""The spans of the loop as the GPU saw them → `device.*` spans.

An event is recorded in the stream where a span begins and ends; it is asked for its time later,
when the device has passed it. Nothing here ever waits for the device.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["DEVICE_TRACKS", "CudaDriver", "CudaTimeline", "Driver", "Event"]

DEVICE_TRACKS = 0x40000000  # above every thread id of the kernel; the device's index is added
_PENDING_LIMIT = 4096  # spans whose events the device has not passed yet; more are not recorded
# Elapsed times are single-precision milliseconds: after 8 s they are good to a microsecond.
_ANCHOR_NS = 8_000_000_000

_PLACE = "events of the device"
_ON_DEVICE = (names.FORWARD, names.BACKWARD, names.OPTIMIZER_STEP, names.TRANSFER)


class Event(Protocol):
    """A moment in a stream of the device (torch.cuda.Event)."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end: Any) -> float: ...


class Driver(Protocol):
    """What the timeline needs of torch.cuda."""

    def device(self) -> int | None:
        """Index of the current device; None: not in use, or its work is being captured."""

    def event(self) -> Event: ...


class CudaDriver:
    """torch.cuda. Asks it only what does not start it."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def device(self) -> int | None:
        if not self._cuda.is_initialized() or self._cuda.is_current_stream_capturing():
            return None
        return int(self._cuda.current_device())

    def event(self) -> Event:
        event: Event = self._cuda.Event(enable_timing=True)
        return event


class _Moment(NamedTuple):
    event: Event
    host_ns: int


class _Pending(NamedTuple):
    name: int
    began: _Moment
    ended: _Moment


class CudaTimeline:
    """Stands between collectors and recorder: each `begin` and `end` also marks the stream."""

    def __init__(self, recorder: Recorder, driver: Driver) -> None:
        self._recorder = recorder
        self._driver = driver
        self._open = threading.local()
        self._devices: dict[int, _Device] = {}
        self._of_parent: dict[int, _Device] = {}
        self._names = {
            recorder.intern(name): recorder.intern(names.DEVICE_PREFIX + name)
            for name in _ON_DEVICE
        }

    def recorder(self) -> Recorder:
        """The same recorder, with `begin` and `end` going through here."""
        return self._recorder.passing_through(self._begin, self._end)

    def poll(self) -> None:
        """Record what the device has passed meanwhile."""
        for device in list(self._devices.values()):
            device.poll()

    def after_fork(self) -> None:
        """In a forked child: forget the parent's events, without letting them be destroyed."""
        self._of_parent = self._devices
        self._devices = {}
        self._open = threading.local()

    def _begin(self, name: int, arg: int = 0, value: float = 0.0) -> int:
        token = self._recorder.begin(name, arg, value)
        device_name = self._names.get(name)
        if device_name is None or token < 0:
            return token
        try:
            device = self._current()
            if device is not None:
                self._stack().append((token, device_name, device, device.mark()))
        except Exception as error:  # noqa: BLE001 - the host's span goes on without the device's
            self._recorder.failed(_PLACE, error)
        return token

    def _end(self, token: int, failed: int = 0, arg: int | None = None) -> None:
        try:
            self._end_on_device(token)
        except Exception as error:  # noqa: BLE001 - a device that fails is the program's affair
            self._recorder.failed(_PLACE, error)
        self._recorder.end(token, failed, arg)

    def _end_on_device(self, token: int) -> None:
        stack = self._stack()
        while token >= 0 and stack and stack[-1][0] >= token:
            its_token, name, device, began = stack.pop()
            if its_token == token:
                device.ended(name, began)

    def _current(self) -> _Device | None:
        index = self._driver.device()
        if index is None:
            return None
        if index not in self._devices:
            self._devices[index] = _Device(self._recorder, self._driver.event, index)
        return self._devices[index]

    def _stack(self) -> list[tuple[int, int, _Device, _Moment]]:
        try:
            stack: list[tuple[int, int, _Device, _Moment]] = self._open.stack
        except AttributeError:
            stack = self._open.stack = []
        return stack


class _Device:
    """One device: its events in flight, and where its clock stands against the host's."""

    def __init__(self, recorder: Recorder, make_event: Callable[[], Event], index: int) -> None:
        self._recorder = recorder
        self._make_event = make_event
        self._track = DEVICE_TRACKS + index
        self._pool: list[Event] = []
        self._pending: deque[_Pending] = deque()
        self._clock: _DeviceClock | None = None
        self._polling = threading.Lock()

    def mark(self) -> _Moment:
        try:
            event = self._pool.pop()
        except IndexError:
            event = self._make_event()
        event.record()
        return _Moment(event, self._recorder.now_ns())

    def ended(self, name: int, began: _Moment) -> None:
        if len(self._pending) >= _PENDING_LIMIT:
            self._pool.append(began.event)
        else:
            self._pending.append(_Pending(name, began, self.mark()))
        self.poll()

    def poll(self) -> None:
        if not self._polling.acquire(blocking=False):
            return  # another thread is at it
        try:
            while self._pending and self._pending[0].ended.event.query():
                self._write(self._pending.popleft())
        finally:
            self._polling.release()

    def _write(self, span: _Pending) -> None:
        if self._clock is None:
            self._clock = _DeviceClock(span.began)
        clock = self._clock
        began_ns, ended_ns = clock.read(span.began), clock.read(span.ended)
        self._recorder.complete(
            span.name, began_ns - clock.offset_ns, ended_ns - began_ns, 0, 0.0, self._track
        )
        anchor = clock.move_anchor(span.ended, ended_ns)
        self._pool += [e for e in (span.began.event, span.ended.event) if e is not anchor]


class _DeviceClock:
    """Device time, counted from an anchor event, and its smallest distance to the host's clock.

    The device reaches an event after the host has put it into the stream, never before: the
    smallest (device − host) that was seen is the best estimate of the offset of the clocks. It is
    taken over the last two anchors, so that clocks that drift apart are followed.
    """

    def __init__(self, anchor: _Moment) -> None:
        self._anchor = anchor.event
        self._anchor_ns = anchor.host_ns  # device time is told in the host's terms from the start
        self._lowest_ns: float = 0
        self._lowest_before_ns: float = float("inf")

    @property
    def offset_ns(self) -> int:
        return int(min(self._lowest_ns, self._lowest_before_ns))

    def read(self, moment: _Moment) -> int:
        """Device time of a moment that the device has passed."""
        if moment.event is self._anchor:
            return self._anchor_ns
        device_ns = self._anchor_ns + int(self._anchor.elapsed_time(moment.event) * 1e6)
        self._lowest_ns = min(self._lowest_ns, device_ns - moment.host_ns)
        return device_ns

    def move_anchor(self, moment: _Moment, device_ns: int) -> Event:
        """Count from a younger event once the old one is far away; the anchor from now on."""
        if device_ns - self._anchor_ns >= _ANCHOR_NS:
            self._anchor, self._anchor_ns = moment.event, device_ns
            self._lowest_before_ns = self._lowest_ns
            self._lowest_ns = device_ns - moment.host_ns
        return self._anchor
