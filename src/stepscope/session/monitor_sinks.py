"""Who else is told of what a monitor in a program finds: sinks, fed from memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.config import ENV_RUN
from stepscope.model.alert import Alert
from stepscope.notify.build import make_sinks
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.memory_outbox import MemoryOutbox
from stepscope.notify.sink import SinkContext
from stepscope.session.feeding import Newest
from stepscope.session.monitor_settings import run_name

__all__ = ["MonitorSinks"]

_PATIENCE_S: Final = 5.0  # when all is over


class MonitorSinks:
    """tables: those of the settings. UsageError, MissingExtraError: one of them cannot be made."""

    def __init__(self, tables: Sequence[Mapping[str, Any]]) -> None:
        folder = Path(os.environ.get(ENV_RUN) or ".").resolve()
        context = SinkContext(run_name(), platform.node(), os.getpid(), folder)
        sinks, metrics = make_sinks(tables, context)
        self._dispatcher = Dispatcher(MemoryOutbox(), sinks, metrics)
        self.newest = Newest() if metrics else None  # a listener of the feed, where one is needed
        self._dispatcher.start()

    def tell(self, alert: Alert) -> None:
        self._dispatcher.tell(alert)

    def pass_on(self) -> None:
        """What was read since the last time."""
        if self.newest is not None:
            self._dispatcher.update(self.newest.take())

    def close(self) -> None:
        """Waits a moment for those that have not been told all."""
        self._dispatcher.close(_PATIENCE_S)

    def problems(self) -> Iterable[str]:
        for name, why in self._dispatcher.troubles.items():
            yield f"alerts could not be told to {name}: {why}"
