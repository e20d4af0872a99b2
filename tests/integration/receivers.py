"""Real receivers of alerts and metrics on this machine: a webhook, an OTLP collector."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

__all__ = ["Collector", "Received", "Receiver"]


class Received:
    """One request."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers, self.body = path, headers, body

    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """An HTTP server that keeps what it is sent. answer: gives the status of each request."""

    def __init__(self, answer: Callable[[Received], int] = lambda _: 200, port: int = 0) -> None:
        self.received: list[Received] = []
        self.refused: list[Received] = []
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.path, headers, self.rfile.read(length))
                status = answer(request)
                (keeper.received if status < 300 else keeper.refused).append(request)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Collector(Receiver):
    """Decodes what it is sent with OpenTelemetry's own protobufs."""

    def metric_names(self) -> set[str]:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
            ExportMetricsServiceRequest,
        )

        found = set()
        for request in self.received:
            if request.path.endswith("/v1/metrics"):
                message = ExportMetricsServiceRequest.FromString(_plain(request))
                for resource in message.resource_metrics:
                    for scope in resource.scope_metrics:
                        found |= {metric.name for metric in scope.metrics}
        return found

    def log_bodies(self) -> list[str]:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        found = []
        for request in self.received:
            if request.path.endswith("/v1/logs"):
                message = ExportLogsServiceRequest.FromString(_plain(request))
                for resource in message.resource_logs:
                    for scope in resource.scope_logs:
                        found += [record.body.string_value for record in scope.log_records]
        return found


def _plain(request: Received) -> bytes:
    if request.headers.get("content-encoding") == "gzip":
        import gzip

        return gzip.decompress(request.body)
    return request.body
