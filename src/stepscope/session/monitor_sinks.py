"""Who else is told of what a monitor in a program finds: sinks, and where alerts wait for them."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.config import ENV_RUN
from stepscope.errors import UsageError
from stepscope.model.alert import Alert
from stepscope.notify.build import make_sinks
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.memory_outbox import MemoryOutbox
from stepscope.notify.sink import Outbox, SinkContext
from stepscope.session.feeding import Newest
from stepscope.session.monitor_settings import run_name

__all__ = ["MonitorSinks"]

_PATIENCE_S: Final = 5.0  # when all is over


class MonitorSinks:
    """tables: those of the settings. alerts_dir: what a sink does not take waits there, for the
    next one with that folder; None: it is lost with the process. UsageError, MissingExtraError: one
    of them cannot be made."""

    def __init__(
        self, tables: Sequence[Mapping[str, Any]], alerts_dir: str | os.PathLike[str] | None
    ) -> None:
        folder = Path(os.environ.get(ENV_RUN) or ".").resolve()
        context = SinkContext(run_name(), platform.node(), os.getpid(), folder)
        self._folder = None if alerts_dir is None else _new_folder(Path(alerts_dir))
        try:
            sinks, metrics = make_sinks(tables, context)
        except Exception:
            self._drop_empty_folder()
            raise
        self._dispatcher = Dispatcher(_outbox(self._folder), sinks, metrics)
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
        self._drop_empty_folder()

    def _drop_empty_folder(self) -> None:
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()  # there was nothing to tell

    def problems(self) -> Iterable[str]:
        for name, why in self._dispatcher.troubles.items():
            yield f"alerts could not be told to {name}: {why}"


def _new_folder(alerts_dir: Path) -> Path:
    """Of this monitor, as runs have theirs."""
    name = f"{run_name()}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_numbers)}"
    folder = alerts_dir.absolute() / name
    try:
        folder.mkdir(0o700, parents=True)
    except OSError as error:
        raise UsageError(
            f"alerts_dir: {folder} cannot be made ({error.strerror}): name a folder that this"
            " program may write to."
        ) from error
    return folder


def _outbox(folder: Path | None) -> Outbox:
    if folder is None:
        return MemoryOutbox()
    from stepscope.store.alerts import AlertStore  # a database: most need none

    return AlertStore(folder.parent, folder)


_numbers = itertools.count(1)  # of the monitors of this process
