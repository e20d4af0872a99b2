"""PerformanceMonitor: watches a program from inside, tells of alerts, sums up."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

from stepscope.errors import UsageError
from stepscope.profilers.closing import Closing
from stepscope.profilers.config import ProfilingConfig

if TYPE_CHECKING:
    from stepscope.model.alert import Alert
    from stepscope.session.callbacks import AlertCallback
    from stepscope.session.monitor_inside import MonitorInside

__all__ = ["PerformanceMonitor"]


class PerformanceMonitor(Closing):
    """Watches this process, its workers, its GPUs and the machine, from start to stop; again: anew.

    It sees CPU and memory every `monitoring_interval`, and the steps of a training loop. It judges
    them every ten intervals (1 to 10 s), and when it is asked for a summary, by the same rules as
    `stepscope run --watch`: `config.rules` sets them, and `cpu_threshold`, `memory_threshold` and
    `gpu_threshold` are rules too. `enabled=False`: nothing at all happens.

    Callbacks are told of each alert from `alert_threshold` on, once, in threads of their own:
    async functions in an event loop. An alert reads like a mapping (`alert["message"]`,
    `alert["severity"]`). A forked child is not watched.
    """

    def __init__(self, config: ProfilingConfig | None = None) -> None:
        if config is not None and not isinstance(config, ProfilingConfig):
            raise UsageError(f"The configuration is a ProfilingConfig, not {config!r}.")
        self.config = config or ProfilingConfig()
        self._callbacks: list[AlertCallback] = []  # given while it was switched off
        self._inside: MonitorInside | None = None
        if self.config.enabled:
            self._made()

    def _made(self) -> MonitorInside:
        from stepscope.session.monitor_inside import MonitorInside
        from stepscope.session.monitor_settings import monitor_settings

        config = self.config
        settings = (
            monitor_settings(config),
            config.monitoring_interval,
            config.alert_threshold,
            config.alerts_dir,
        )
        if self._inside is None:
            self._inside = MonitorInside(*settings)
            weakref.finalize(self, self._inside.abandon).atexit = False
            for callback in self._callbacks:
                self._inside.add_callback(callback)
        elif not self._inside.is_running:
            self._inside.configure(*settings)
        return self._inside

    def start_monitoring(self) -> None:
        """While it runs: nothing happens. What was seen the last time is forgotten."""
        if self.config.enabled:
            self._made().start()

    def stop_monitoring(self) -> None:
        """Alerts that are open are over with it. While it does not run: nothing happens."""
        if self._inside is not None:
            self._inside.stop()

    close = stop_monitoring

    def __enter__(self) -> Self:
        self.start_monitoring()
        return self

    @property
    def is_monitoring(self) -> bool:
        return self._inside is not None and self._inside.is_running

    def add_alert_callback(self, callback: AlertCallback) -> None:
        """Call it with each alert, a plain or an async function. An error in it is counted, and one
        that hangs holds up nobody."""
        if not callable(callback):
            raise UsageError(f"A callback is a function that takes an alert, not {callback!r}.")
        if self._inside is None:
            self._callbacks.append(callback)
        else:
            self._inside.add_callback(callback)

    def remove_alert_callback(self, callback: AlertCallback) -> None:
        """UsageError: it was never added."""
        if self._inside is None and callback in self._callbacks:
            self._callbacks.remove(callback)
        elif self._inside is None or not self._inside.remove_callback(callback):
            raise UsageError(f"{callback!r} is no callback of this monitor.")

    @property
    def alerts(self) -> list[Alert]:
        """The newest of all notices since the start, the oldest first: each alert once when it
        begins and once, `resolved`, when it is over."""
        return [] if self._inside is None else list(self._inside.alerts)

    def get_monitoring_summary(self) -> dict[str, Any]:
        """So far, or of the last time: plain JSON. CPU and GPU in percent (of the CPUs that the
        program may use), memory in GB (2**30 bytes), times in seconds.

        `metrics` has each metric's average, peak, percentiles and trend. What was not measured is
        None and stands in `not_measured`; there is no zero in its place.
        """
        from stepscope.session.monitor_figures import nothing_measured

        if self._inside is None:
            found = nothing_measured(self.config.monitoring_interval)
        else:
            found = self._inside.summary()
        return found | {"enabled": self.config.enabled, "is_monitoring": self.is_monitoring}
