"""Metrics and alerts for an OpenTelemetry collector: OTLP over HTTP, with the official SDK.

Both are sent from the threads of the dispatcher: the SDK's exporters are called, its periodic
readers and batches are not used, so that an alert stays in the outbox until a collector took it.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stepscope.errors import MissingExtraError
from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.http import check_headers, check_url
from stepscope.notify.options import Options
from stepscope.notify.secrets import resolve, short_hash
from stepscope.notify.series import AlertMarks, Newest, labelled
from stepscope.notify.sink import SinkContext

if TYPE_CHECKING:
    from stepscope.notify.otlp_client import OtlpClient

__all__ = ["OtlpSettings", "OtlpSink", "make"]

_VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
)


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """endpoint: without /v1/metrics and /v1/logs; "": as the OTEL_* variables say, else this
    machine. headers: beside those of these variables. service: service.name; "": likewise, else
    stepscope. timeout_s: of one attempt; 0: likewise."""

    endpoint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    service: str = ""
    timeout_s: float = 0.0


def make(options: Options, context: SinkContext) -> OtlpSink:
    """endpoint, headers and service: see OtlpSettings; $NAME in the first two is a variable.
    labels: for every series, and of the resource."""
    if importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise MissingExtraError("The OpenTelemetry SDK", "otel")
    context = labelled(options, context)
    written = options.text("endpoint", "")
    headers = {
        name: resolve(value, options.where(f"headers.{name}"))
        for name, value in options.table("headers").items()
    }
    settings = OtlpSettings(
        options.secret("endpoint", "").removesuffix("/"),
        headers,
        options.text("service", ""),
        options.number("timeout_s", 0.0, most=60.0),
    )
    interval_s = options.number("interval_s", 10.0, least=0.1)
    options.done()
    check_headers(headers, options.where("headers"))
    if settings.endpoint:
        check_url(settings.endpoint, options.where("endpoint"))
    for variable in () if settings.endpoint else _VARIABLES:
        if os.environ.get(variable):
            check_url(os.environ[variable], variable)
    return OtlpSink(f"otlp-{short_hash(written)}", settings, context, interval_s)


class OtlpSink:
    """An AlertSink and a MetricsSink: alerts are log records.

    The SDK is imported when there is something to send, in the thread that sends it.
    """

    def __init__(
        self, name: str, settings: OtlpSettings, context: SinkContext, interval_s: float
    ) -> None:
        self.name, self.interval_s = name, interval_s
        self._settings, self._context = settings, context
        self._began_unix = time.time()
        self._newest, self._marks = Newest(), AlertMarks()
        self._lock = threading.Lock()
        self._client_made: OtlpClient | None = None

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        """All that is known is sent each time: what did not change is still so."""
        self._newest.update(readings)
        self._client().send_metrics(self._newest.all(), self._began_unix, now_unix)

    def alert(self, alert: Alert) -> None:
        self._newest.update(self._marks.told(alert))

    def send(self, alert: Alert) -> None:
        self._client().send_alert(alert)

    def close(self) -> None:
        """Comes once for alerts and once for metrics: the other can still be at work, and connects
        again if it has to."""
        if self._client_made is not None:
            self._client_made.close()

    def _client(self) -> OtlpClient:
        with self._lock:
            if self._client_made is None:
                from stepscope.notify.otlp_client import OtlpClient

                self._client_made = OtlpClient(self._settings, self._context)
            return self._client_made
