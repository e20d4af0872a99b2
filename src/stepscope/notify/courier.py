"""Brings what is pending to one sink, again and again until it is taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from stepscope.notify.sink import AlertSink, Delivery, Outbox, SinkError

__all__ = ["LONGEST_PAUSE_S", "Courier"]

_BATCH: Final = 20
_FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0


class Courier:
    """`work` is for a Worker. trouble: why the sink did not take the last one; "": it did.

    After a failure it pauses for a second or less, and for twice as long each time, up to five
    minutes. Half of a pause is chance: the ranks of a job must not all come back at once.
    """

    def __init__(
        self,
        sink: AlertSink,
        outbox: Outbox,
        now_unix: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.trouble = ""
        self._sink, self._outbox = sink, outbox
        self._now_unix, self._chance = now_unix, chance
        self._failures = 0

    @property
    def sink(self) -> AlertSink:
        return self._sink

    def work(self, stop: Callable[[], bool]) -> float | None:
        """None: all is delivered. A number: seconds to wait before the next attempt."""
        while batch := self._outbox.pending(self._sink.name, _BATCH):
            for delivery in batch:
                if stop():
                    return 0.0
                error = self._offer(delivery)
                if error is not None:
                    return self._pause_s(error)
        return None

    def close(self) -> None:
        try:
            self._sink.close()
        except Exception as error:  # noqa: BLE001 - nobody is left who could act on it
            self.trouble = _told(error)

    def _offer(self, delivery: Delivery) -> SinkError | None:
        """None: we are done with it, also when the sink will never take it."""
        try:
            self._sink.send(delivery.alert)
        except SinkError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a fault in a sink must not lose an alert
            failure = SinkError(_told(error))
        else:
            self._outbox.delivered(delivery.id)
            self.trouble, self._failures = "", 0
            return None
        self.trouble = str(failure)
        self._outbox.failed(
            delivery.id, str(failure), self._now_unix(), permanent=failure.permanent
        )
        return None if failure.permanent else failure

    def _pause_s(self, error: SinkError) -> float:
        longest_s = min(LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        pause_s = longest_s * (0.5 + 0.5 * self._chance())
        asked_s = min(error.retry_after_s or 0.0, LONGEST_PAUSE_S)
        return max(pause_s, asked_s)


def _told(error: Exception) -> str:
    """Only its kind: the text could hold anything, a secret too."""
    return f"It failed with {type(error).__name__}."
