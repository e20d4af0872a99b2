"""What sinks are, and what feeds them.

A module of this room that makes sinks has

    def make(options: Options, context: SinkContext) -> AlertSink | MetricsSink

which reads its keys of a [[sink]] table from `options` (notify/options.py), imports what it needs
only then (MissingExtraError), and raises UsageError for settings that cannot be. notify/build.py
knows the modules by their `type`, and looks at what was made: an object with `send` hears of
alerts, one with `update` of metrics, one with both of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from stepscope.errors import StepscopeError
from stepscope.model.alert import Alert
from stepscope.model.delivery import Delivery, OutboxCounts, notice_key
from stepscope.model.watching import Reading

__all__ = [
    "AlertSink",
    "Delivery",
    "HearsAlerts",
    "MetricsSink",
    "Outbox",
    "OutboxCounts",
    "Selective",
    "Served",
    "SinkContext",
    "SinkError",
    "notice_key",
]


class SinkError(StepscopeError):
    """A sink did not take it. The message holds no secrets.

    permanent: it never will (a request that is wrong, an address that is gone).
    retry_after_s: what the other side asks for; None: it says nothing.
    """

    def __init__(
        self, message: str, *, permanent: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Who it is about. folder: the run's. labels: what the user wants said with everything."""

    run: str
    host: str
    pid: int
    folder: Path
    labels: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class AlertSink(Protocol):
    """Takes alerts, one at a time, in a thread of its own.

    name: unique, the same in every run, without secrets: what is pending is kept under it.
    send: returns when it was taken, raises SinkError when not; takes seconds at most, whatever the
    other side does. The same notice may come twice, with the same `notice_key`.
    """

    @property
    def name(self) -> str: ...

    def send(self, alert: Alert) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class MetricsSink(Protocol):
    """Takes the newest readings every `interval_s`, in a thread of its own.

    update: the newest reading of each series (metric, label, rank) that has one since the last call
    that was taken. now_unix: the present, to which `Reading.time_ns` cannot be compared. Raises
    SinkError when it was not taken: the next call comes at the next interval.
    close: after the last update; what is buffered is to be written.
    """

    @property
    def name(self) -> str: ...

    @property
    def interval_s(self) -> float: ...

    def update(self, readings: Sequence[Reading], now_unix: float) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class HearsAlerts(Protocol):
    """A metrics sink that marks alerts too. In its thread, before the update that follows; one that
    fails is not repeated."""

    def alert(self, alert: Alert) -> None: ...


@runtime_checkable
class Served(Protocol):
    """A metrics sink that can be read at an address."""

    @property
    def address(self) -> str: ...


@runtime_checkable
class Selective(Protocol):
    """A sink that is told of some alerts only."""

    def wants(self, alert: Alert) -> bool: ...


class Outbox(Protocol):
    """Keeps alerts until their sinks took them. Never raises; works from several threads."""

    def add(self, alert: Alert, sinks: Sequence[str]) -> None:
        """The same notice again replaces what it says and is not delivered again."""

    def pending(self, sink: str, limit: int) -> list[Delivery]:
        """The oldest first. They are the caller's until it is done with them."""

    def delivered(self, id: str) -> None: ...

    def failed(self, id: str, error: str, at_unix: float, *, permanent: bool = False) -> None:
        """It stays pending, unless that is permanent."""

    def counts(self) -> OutboxCounts: ...

    def close(self) -> None:
        """Others may deliver what is left."""
