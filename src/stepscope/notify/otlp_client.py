"""The exporters of the OpenTelemetry SDK, called by hand, and what they say kept to ourselves.

Imported when there is something to send: the SDK takes a while.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http import _log_exporter as logs_module
from opentelemetry.exporter.otlp.proto.http import metric_exporter as metrics_module
from opentelemetry.sdk.metrics.export import MetricExportResult

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.otlp import OtlpSettings
from stepscope.notify.otlp_messages import log_record_of, metrics_of, resource_of
from stepscope.notify.sink import SinkContext, SinkError

__all__ = ["OtlpClient"]

_REFUSED: Final = frozenset({400, 405, 413, 415, 422})  # the same request fares no better later
_TIMEOUT_S: Final = 4.0
_TIMEOUT_VARIABLE: Final = "OTEL_EXPORTER_OTLP_TIMEOUT"


class OtlpClient:
    """Sends, or raises SinkError. Metrics and alerts may come from two threads."""

    def __init__(self, settings: OtlpSettings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._resource = resource_of(context, settings.service)
        self._metrics = _Channel(metrics_module.OTLPMetricExporter, "metrics", settings)
        self._logs = _Channel(logs_module.OTLPLogExporter, "logs", settings)

    def send_metrics(self, readings: Sequence[Reading], began_unix: float, now_unix: float) -> None:
        message = metrics_of(readings, self._context, (began_unix, now_unix), self._resource)
        self._metrics.export(message)

    def send_alert(self, alert: Alert) -> None:
        """Also one that an earlier run left behind."""
        resource = self._resource
        if alert.run != self._context.run:
            whose = SinkContext(alert.run, alert.host, 0, self._context.folder)
            resource = resource_of(whose, self._settings.service)
        self._logs.export([log_record_of(alert, resource)])

    def close(self) -> None:
        self._metrics.close()
        self._logs.close()


class _Channel:
    """An exporter for one kind of message."""

    def __init__(self, exporter: Any, kind: str, settings: OtlpSettings) -> None:
        self._status: int | None = None
        self._session = requests.Session()
        self._session.hooks["response"].append(self._answered)
        self._session.max_redirects = 0  # the headers may hold secrets, for this address alone
        default_s = None if _TIMEOUT_VARIABLE in os.environ else _TIMEOUT_S
        self._exporter = exporter(
            endpoint=f"{settings.endpoint}/v1/{kind}" if settings.endpoint else None,
            headers=dict(settings.headers),
            timeout=settings.timeout_s or default_s,
            session=self._session,
        )

    def export(self, message: Any) -> None:
        self._status = None
        try:
            with _quiet():
                result = self._exporter.export(message)
        finally:
            # No connection stays open: a program that closes all descriptors, as daemons do, would
            # get its number for a file of its own.
            self._session.close()
        # To the SDK redirects are a success, too: it has not followed them, nobody has the message.
        if result.name == MetricExportResult.SUCCESS.name and self._status in range(200, 300):
            return
        if self._status is None:
            raise SinkError("The OTLP collector cannot be reached.")
        raise SinkError(
            f"The OTLP collector answered {self._status}.", permanent=self._status in _REFUSED
        )

    def close(self) -> None:
        """Its connections; the next message would open new ones."""
        self._session.close()

    def _answered(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._status = response.status_code


class _Ours(logging.Filter):
    """Drops what the SDK logs of our exports: a dead collector would fill a log, and the trouble of
    the sink says the same once. The program's own exports are heard as before."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.get_ident() not in self.threads


_ours: Final = _Ours()
for _module in (metrics_module, logs_module):
    logging.getLogger(_module.__name__).addFilter(_ours)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    _ours.threads.add(threading.get_ident())
    try:
        yield
    finally:
        _ours.threads.discard(threading.get_ident())
