"""An OTLP collector of our own: a real HTTP server that reads with the official protobufs."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from stepscope.errors import UsageError
from stepscope.model.metric_table import METRICS, MetricType
from stepscope.model.watching import Reading
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.memory_outbox import MemoryOutbox
from stepscope.notify.otlp import OtlpSink, make
from stepscope.notify.sink import AlertSink, HearsAlerts, MetricsSink, SinkError
from tests.unit.notify.exports import ALERT, RESOLVED, context, every_metric, options

NOW = 1_700_000_500.0


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent; answers with `status`."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.status = 200
        self.location = ""
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.logs: list[ExportLogsServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        answer = b""
        if self.server.status == 200 and self.path == "/v1/metrics":
            self.server.metrics.append(ExportMetricsServiceRequest.FromString(body))
            answer = ExportMetricsServiceResponse().SerializeToString()
        elif self.server.status == 200 and self.path == "/v1/logs":
            self.server.logs.append(ExportLogsServiceRequest.FromString(body))
            answer = ExportLogsServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[Collector]:
    server = Collector(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "_METRICS", "_LOGS"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP{name}_ENDPOINT", raising=False)


@pytest.fixture
def sink(collector: Collector, tmp_path: Path) -> Iterator[OtlpSink]:
    made = make(options("otlp", endpoint=collector.url), context(tmp_path, team="vision"))
    with contextlib.closing(made):
        yield made


def plain(attributes: Any) -> dict[str, Any]:
    found = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [of.int_value for of in value.values] if kind == "array_value" else value
    return found


def metrics_in(request: ExportMetricsServiceRequest) -> dict[str, Any]:
    (of_resource,) = request.resource_metrics
    (scope,) = of_resource.scope_metrics
    assert len({metric.name for metric in scope.metrics}) == len(scope.metrics)
    return {metric.name: metric for metric in scope.metrics}


def test_every_metric_arrives_with_its_name_unit_type_and_value(
    sink: OtlpSink, collector: Collector
) -> None:
    assert isinstance(sink, MetricsSink)
    sink.update(every_metric(), NOW)
    found = metrics_in(collector.metrics[0])
    assert len(found) == len(METRICS)
    for at, metric in enumerate(METRICS.values(), 1):
        got = found[metric.otel]
        assert (got.unit, got.description) == (metric.unit, metric.about)
        is_counter = metric.type is MetricType.COUNTER
        assert got.WhichOneof("data") == ("sum" if is_counter else "gauge")
        data = got.sum if is_counter else got.gauge
        (point,) = data.data_points
        assert (point.as_double, point.time_unix_nano) == (at, int(NOW * 1e9))
        if is_counter:
            assert data.is_monotonic
            assert data.aggregation_temporality == 2  # cumulative
            assert point.start_time_unix_nano > 0


def test_points_have_the_labels_of_the_prometheus_page(
    sink: OtlpSink, collector: Collector
) -> None:
    sink.update([Reading(1, "phase_ratio", 0.5, "backward", 3)], NOW)
    (point,) = metrics_in(collector.metrics[0])["stepscope.phase.ratio"].gauge.data_points
    assert plain(point.attributes) == {
        "run": "monday",
        "rank": "3",
        "host": "box",
        "phase": "backward",
        "team": "vision",
    }


def test_the_resource_says_whose_they_are(sink: OtlpSink, collector: Collector) -> None:
    sink.update([Reading(1, "loss", 1.0)], NOW)
    (of_resource,) = collector.metrics[0].resource_metrics
    assert plain(of_resource.resource.attributes) == {
        "service.name": "stepscope",
        "service.instance.id": "box/monday",
        "host.name": "box",
        "process.pid": 4711,
        "stepscope.run": "monday",
        "team": "vision",
    }


def test_what_did_not_change_is_sent_again(sink: OtlpSink, collector: Collector) -> None:
    sink.update([Reading(1, "loss", 1.0), Reading(1, "memory_bytes", 5.0)], NOW)
    sink.update([Reading(2, "loss", 0.5)], NOW + 10)
    found = metrics_in(collector.metrics[1])
    assert found["stepscope.loss"].gauge.data_points[0].as_double == 0.5
    assert found["stepscope.memory"].gauge.data_points[0].as_double == 5.0


def test_an_alert_is_a_log_record_of_its_severity_without_a_trace(
    sink: OtlpSink, collector: Collector
) -> None:
    assert isinstance(sink, AlertSink)
    sink.send(ALERT)
    sink.send(RESOLVED)
    records = [one.resource_logs[0].scope_logs[0].log_records[0] for one in collector.logs]
    begin, end = records
    assert begin.body.string_value == "Steps take 40 % longer at train.py:12"
    assert (begin.severity_number, begin.severity_text) == (17, "ERROR")
    assert (end.severity_number, end.severity_text) == (9, "INFO")
    assert begin.time_unix_nano == 1_700_000_002_000_000_000
    assert begin.event_name == "stepscope.alert"
    assert not any(begin.trace_id + begin.span_id)
    assert plain(begin.attributes) == {
        "stepscope.run": "monday",
        "stepscope.alert.id": "a1",
        "stepscope.alert.notice": "a1:firing",
        "stepscope.alert.rule": "slowdown",
        "stepscope.alert.kind": "slowdown",
        "stepscope.alert.state": "firing",
        "stepscope.alert.severity": 0.8,
        "stepscope.alert.metric": "step_seconds",
        "stepscope.alert.value": 0.14,
        "stepscope.alert.limit": 0.1,
        "stepscope.alert.recommendation": "Cache the files.",
        "stepscope.step": 120,
        "stepscope.ranks": [0],
        "code.file.path": "train.py",
        "code.line.number": 12,
        "code.function.name": "step",
    }


def test_a_moderate_alert_is_a_warning(sink: OtlpSink, collector: Collector) -> None:
    sink.send(replace(ALERT, finding=replace(ALERT.finding, severity=0.5)))
    (record,) = collector.logs[0].resource_logs[0].scope_logs[0].log_records
    assert record.severity_number == 13


def test_an_alert_of_an_earlier_run_is_said_to_be_that_run_s(
    sink: OtlpSink, collector: Collector
) -> None:
    sink.send(replace(ALERT, run="sunday"))
    found = plain(collector.logs[0].resource_logs[0].resource.attributes)
    assert found["stepscope.run"] == "sunday"
    assert "process.pid" not in found


def test_text_that_is_no_utf8_arrives_all_the_same(sink: OtlpSink, collector: Collector) -> None:
    where = replace(ALERT.finding.location, file="tr\udcffain.py")
    sink.send(replace(ALERT, finding=replace(ALERT.finding, location=where)))
    sink.update([Reading(1, "\udcff", 1.0, "\udcff")], NOW)
    (record,) = collector.logs[0].resource_logs[0].scope_logs[0].log_records
    assert plain(record.attributes)["code.file.path"] == "tr?ain.py"
    assert "stepscope.user.unnamed" in metrics_in(collector.metrics[0])


def test_metrics_of_the_program_that_read_alike_stay_two(
    sink: OtlpSink, collector: Collector
) -> None:
    sink.update([Reading(1, "loss/a", 1.0), Reading(1, "loss a", 2.0)], NOW)
    assert len(metrics_in(collector.metrics[0])) == 2


def test_alerts_are_metrics_too(sink: OtlpSink, collector: Collector) -> None:
    assert isinstance(sink, HearsAlerts)
    sink.alert(ALERT)
    sink.update([], NOW)
    found = metrics_in(collector.metrics[0])
    (mark,) = found["stepscope.alert"].gauge.data_points
    assert mark.as_double == 1
    assert plain(mark.attributes)["kind"] == "slowdown"
    (total,) = found["stepscope.alerts"].sum.data_points
    assert total.as_double == 1


def test_headers_and_endpoint_come_from_the_variables_of_opentelemetry(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=one,x-tenant=vision")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "training")
    monkeypatch.setenv("COLLECTOR_KEY", "two")
    made = make(options("otlp", headers={"API-Key": "$COLLECTOR_KEY"}), context(tmp_path))
    with contextlib.closing(made):
        made.update([Reading(1, "loss", 1.0)], NOW)
    (headers,) = collector.headers
    assert (headers["api-key"], headers["x-tenant"]) == ("two", "vision")  # the table wins
    (of_resource,) = collector.metrics[0].resource_metrics
    assert plain(of_resource.resource.attributes)["service.name"] == "training"


@pytest.mark.parametrize(("status", "permanent"), [(400, True), (401, False), (500, False)])
def test_a_collector_that_refuses_is_a_trouble_and_is_logged_nowhere(
    sink: OtlpSink,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
    *,
    status: int,
    permanent: bool,
) -> None:
    collector.status = status
    with caplog.at_level(logging.DEBUG, "opentelemetry"):
        with pytest.raises(SinkError, match=f"answered {status}") as raised:
            sink.send(ALERT)
        with pytest.raises(SinkError, match=f"answered {status}"):
            sink.update([Reading(1, "loss", 1.0)], NOW)
    assert raised.value.permanent is permanent
    assert not caplog.records


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirect_is_a_trouble_and_is_not_followed(
    sink: OtlpSink, collector: Collector, status: int
) -> None:
    with serving() as elsewhere:
        collector.status, collector.location = status, f"{elsewhere.url}/v1/logs"
        with pytest.raises(SinkError, match=f"answered {status}") as raised:
            sink.send(ALERT)
        with pytest.raises(SinkError, match=f"answered {status}"):
            sink.update([Reading(1, "loss", 1.0)], NOW)
        assert not raised.value.permanent
        assert elsewhere.headers == []
    assert len(collector.headers) == 2


def test_a_dead_collector_is_a_trouble_without_secrets_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as gone:
        url, port = gone.url.replace("http://", "http://user:s3cret@"), gone.server_address[1]
    made = make(options("otlp", endpoint=url, timeout_s=0.2), context(tmp_path))
    with pytest.raises(SinkError, match="cannot be reached") as raised:
        made.send(ALERT)
    assert not raised.value.permanent
    assert "s3cret" not in str(raised.value) + made.name
    assert not caplog.records
    made = make(options("otlp", endpoint=url, timeout_s=30), context(tmp_path))
    with serving(port) as back, contextlib.closing(made):
        made.send(ALERT)
        assert len(back.logs) == 1


def test_what_the_program_s_own_exporters_log_is_still_heard(
    sink: OtlpSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.update([Reading(1, "loss", 1.0)], NOW)
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").warning("mine")
    assert caplog.messages == ["mine"]


def test_one_half_can_go_on_when_the_other_is_closed(sink: OtlpSink, collector: Collector) -> None:
    sink.update([Reading(1, "loss", 1.0)], NOW)
    sink.close()
    sink.send(ALERT)
    assert len(collector.logs) == 1


@pytest.mark.parametrize(
    "endpoint", ["collector:4318", "ftp://collector", "https://:1", "http://a:b@c:d", "s3cret"]
)
def test_an_endpoint_that_is_none_is_said_without_showing_it(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(UsageError, match="endpoint of the otlp sink is no address") as raised:
        make(options("otlp", endpoint=endpoint), context(tmp_path))
    assert endpoint not in str(raised.value)


def test_a_header_that_cannot_be_sent_is_said_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the value of key holds") as raised:
        make(options("otlp", headers={"key": "s3cret\nx"}), context(tmp_path))
    assert "s3cret" not in str(raised.value)


def test_an_alert_waits_for_a_collector_that_is_down_and_arrives_once(
    sink: OtlpSink, collector: Collector
) -> None:
    collector.status = 500
    dispatcher = Dispatcher(MemoryOutbox(), [sink], [sink])
    dispatcher.tell(ALERT)
    dispatcher.update([Reading(1, "loss", 1.0)])
    wait_for(lambda: sink.name in dispatcher.troubles)
    collector.status = 200
    dispatcher.tell(RESOLVED)
    wait_for(lambda: dispatcher.counts().delivered == 2)
    assert dispatcher.close(patience_s=60)
    bodies = [
        one.resource_logs[0].scope_logs[0].log_records[0].body.string_value
        for one in collector.logs
    ]
    assert bodies == [ALERT.message, RESOLVED.message]
    assert "stepscope.loss" in metrics_in(collector.metrics[-1])


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_variable_that_holds_no_address_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "nowhere")
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is no address"):
        make(options("otlp"), context(tmp_path))
