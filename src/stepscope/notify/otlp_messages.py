"""Readings and alerts as values of the OpenTelemetry SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from stepscope.model.alert import Alert
from stepscope.model.metric_table import MetricType, metric_named
from stepscope.model.watching import Reading
from stepscope.notify.levels import Level, level_of
from stepscope.notify.series import clean, families, labels_of
from stepscope.notify.sink import SinkContext, notice_key

__all__ = ["log_record_of", "metrics_of", "resource_of"]

_SCOPE: Final = InstrumentationScope("stepscope")
_LONGEST_TEXT: Final = 4000
_SEVERITIES: Final = {
    Level.INFO: (SeverityNumber.INFO, "INFO"),
    Level.WARNING: (SeverityNumber.WARN, "WARN"),
    Level.ERROR: (SeverityNumber.ERROR, "ERROR"),
}


def resource_of(context: SinkContext, service: str = "") -> Resource:
    """Whose it is. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES can say otherwise, and `service`
    has the last word."""
    attributes: dict[str, Any] = {
        **{name: clean(value) for name, value in context.labels.items()},
        "service.name": "stepscope",
        "service.instance.id": f"{context.host}/{context.run}",
        "host.name": context.host,
        "stepscope.run": context.run,
    }
    if context.pid:
        attributes["process.pid"] = context.pid
    resource = Resource(attributes).merge(OTELResourceDetector().detect())
    return resource.merge(Resource({"service.name": service})) if service else resource


def metrics_of(
    readings: Sequence[Reading],
    context: SinkContext,
    span_unix: tuple[float, float],
    resource: Resource,
) -> MetricsData:
    """span_unix: since when counters count, and now."""
    found = families(readings, lambda metric: metric.otel)
    metrics = [_metric(name, of, context, span_unix) for name, of in found.items()]
    scope = ScopeMetrics(_SCOPE, metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(
    name: str, readings: Sequence[Reading], context: SinkContext, span_unix: tuple[float, float]
) -> Metric:
    metric = metric_named(readings[0].metric)
    began_ns, now_ns = (int(at * 1e9) for at in span_unix)
    is_counter = metric.type is MetricType.COUNTER
    points = [
        NumberDataPoint(
            dict(labels_of(reading, context)), began_ns if is_counter else 0, now_ns, reading.value
        )
        for reading in readings
    ]
    data = Sum(points, AggregationTemporality.CUMULATIVE, True) if is_counter else Gauge(points)
    return Metric(name, metric.about, metric.unit, data)


def log_record_of(alert: Alert, resource: Resource) -> ReadableLogRecord:
    number, word = _SEVERITIES[level_of(alert)]
    record = LogRecord(
        timestamp=int(alert.told_unix * 1e9),
        observed_timestamp=int(alert.told_unix * 1e9),
        context=Context({"stepscope.alert": alert.id}),  # not the current one: it is of no trace
        severity_number=number,
        severity_text=word,
        body=clean(alert.message, _LONGEST_TEXT),
        attributes=_attributes(alert),
        event_name="stepscope.alert",
    )
    return ReadableLogRecord(record, resource, _SCOPE)


def _attributes(alert: Alert) -> dict[str, Any]:
    """What is known of it, under the names of the semantic conventions where there are some."""
    where, advice = alert.finding.location, alert.finding.recommendation
    attributes: dict[str, Any] = {
        "stepscope.run": alert.run,
        "stepscope.alert.id": alert.id,
        "stepscope.alert.notice": notice_key(alert),
        "stepscope.alert.rule": alert.rule,
        "stepscope.alert.kind": alert.finding.kind,
        "stepscope.alert.state": alert.state.value,
        "stepscope.alert.severity": alert.severity,
        "stepscope.alert.metric": alert.metric,
        "stepscope.alert.value": alert.value,
        "stepscope.alert.limit": alert.limit,
        "stepscope.alert.recommendation": advice.action if advice else None,
        "stepscope.step": alert.step,
        "stepscope.ranks": list(alert.ranks),
        "code.file.path": where.file,
        "code.line.number": where.line,
        "code.function.name": where.function,
    }
    return {
        name: clean(value, _LONGEST_TEXT) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }
