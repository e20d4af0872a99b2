"""The table of metrics keeps to what Prometheus and OpenTelemetry agreed on."""

from __future__ import annotations

import re

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY

from stepscope.model.metric_table import METRICS, Metric, MetricType, metric_named

SUFFIXES = {"s": "_seconds", "By": "_bytes", "1": "_ratio", "Cel": "_celsius", "W": "_watts"}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_a_name_says_type_and_base_unit(metric: Metric) -> None:
    assert re.fullmatch("stepscope(_[a-z]+)+", metric.prometheus)
    name = metric.prometheus.removesuffix("_total")
    assert (name != metric.prometheus) == (metric.type is MetricType.COUNTER)
    assert name.endswith(SUFFIXES.get(metric.unit, ""))
    assert metric.about
    assert not metric.about.endswith(".")


def test_opentelemetry_names_become_those_of_prometheus_when_they_are_handed_on() -> None:
    """By the SDK's own translation, which is that of a collector."""
    reader = PrometheusMetricReader(disable_target_info=True)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    try:
        meter = provider.get_meter("stepscope")
        metrics = [*METRICS.values(), metric_named("val/accuracy")]
        for metric in metrics:
            if metric.type is MetricType.COUNTER:
                meter.create_counter(metric.otel, metric.unit, metric.about).add(1)
            else:
                meter.create_gauge(metric.otel, metric.unit, metric.about).set(1)
        found = {sample.name for family in REGISTRY.collect() for sample in family.samples}
        assert {metric.prometheus for metric in metrics} <= found
    finally:
        provider.shutdown()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("val/accuracy", "stepscope_user_val_accuracy"),
        ("Top-5 (%)", "stepscope_user_Top_5"),
        ("step_seconds ", "stepscope_user_step_seconds"),
        ("\n", "stepscope_user_unnamed"),
        ("7", "stepscope_user_7"),
        ("x" * 1000, f"stepscope_user_{'x' * 100}"),
    ],
)
def test_what_the_program_told_of_is_apart_from_our_own(name: str, expected: str) -> None:
    metric = metric_named(name)
    assert metric.is_of_program
    assert metric.prometheus == expected


def test_a_reading_with_two_labels_has_both() -> None:
    alert = METRICS["alert"]
    assert alert.labels_of("slowdown/input-cpu") == {"rule": "slowdown", "kind": "input-cpu"}
    assert alert.labels_of("my/rule/threshold") == {"rule": "my/rule", "kind": "threshold"}
    assert alert.labels_of("odd") == {"rule": "odd", "kind": ""}


def test_a_reading_with_one_label_or_none() -> None:
    assert METRICS["gpu_busy_ratio"].labels_of("0") == {"gpu": "0"}
    assert METRICS["loss"].labels_of("") == {}
    assert metric_named("mine").labels_of("a/b") == {"label": "a/b"}
