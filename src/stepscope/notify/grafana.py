"""A dashboard of Grafana, made from the metric table.

It shows what Prometheus has, scraped from us or handed on by an OpenTelemetry collector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stepscope.model.metric_table import METRICS, Metric, MetricType

__all__ = ["dashboard"]

_SCHEMA: Final = 39  # of Grafana 10 and later
_COLUMNS, _WIDTH, _HEIGHT = 24, 8, 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = 'run=~"$run", rank=~"$rank"'
_OF_PROGRAM: Final = "stepscope_user_.+"  # the names of what the program told of itself
_ROWS: Final = {
    "Training": ("step", "phase", "input", "loss"),
    "Alerts": ("alert",),
    "Resources": ("cpu", "memory", "host", "reference", "disk", "gc"),
    "GPU": ("gpu",),
    "stepscope itself": (),  # and whatever belongs nowhere else
}
_UNITS: Final = {
    "s": "s",
    "By": "bytes",
    "1": "percentunit",
    "Cel": "celsius",
    "W": "watt",
    "{step}/s": "suffix: steps/s",
}
_RATE_UNITS: Final = {"By": "Bps", "{step}": "suffix: steps/s"}
_IN_CPUS: Final = "cpu_ratio"  # can be more than 1: no share


def dashboard() -> dict[str, Any]:
    """To be imported as it is (Dashboards, New, Import), or provisioned."""
    return {
        "uid": "stepscope",
        "title": "stepscope",
        "tags": ["stepscope", "training"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,  # one cross-hair for all panels
        "refresh": "10s",
        "schemaVersion": _SCHEMA,
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": [panel | {"id": id} for id, panel in enumerate(_panels(), 1)],
    }


def _variables() -> list[dict[str, Any]]:
    told = METRICS["memory_bytes"].prometheus  # is there from the beginning, of every rank
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"},
        _choice("run", f"label_values({told}, run)"),
        _choice("rank", f'label_values({told}{{run=~"$run"}}, rank)'),
    ]


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time changes: runs come and go
        "sort": 4 if name == "run" else 3,  # the newest first, if they are named by their time
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for title in _ROWS:
        yield {
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
        }
        panels = [_panel(one) for one in METRICS.values() if _row_of(one) == title]
        panels += [_program_panel()] if title == "Training" else []
        yield from _placed(panels, top + 1)
        top += 1 + _HEIGHT * -(-len(panels) * _WIDTH // _COLUMNS)


def _row_of(metric: Metric) -> str:
    found = (title for title, words in _ROWS.items() if metric.name.startswith(words))
    return next(found, list(_ROWS)[-1])


def _placed(panels: Sequence[dict[str, Any]], top: int) -> Iterator[dict[str, Any]]:
    a_row = _COLUMNS // _WIDTH
    for at, panel in enumerate(panels):
        x, y = at % a_row * _WIDTH, top + at // a_row * _HEIGHT
        yield panel | {"gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT}}


def _panel(metric: Metric) -> dict[str, Any]:
    selected = f"{metric.prometheus}{{{_CHOSEN}}}"
    unit = _UNITS.get(metric.unit, "short")
    if metric.type is MetricType.COUNTER and metric.unit in _RATE_UNITS:
        selected = f"rate({selected}[$__rate_interval])"
        unit = _RATE_UNITS[metric.unit]
    elif metric.type is MetricType.COUNTER:
        selected = f"increase({selected}[$__rate_interval])"
    legend = " ".join(
        f"{{{{{name}}}}}" for name in ("run", "rank", *metric.label.split("/")) if name
    )
    return {
        "type": "state-timeline" if metric.name == "alert" else "timeseries",
        "title": metric.name.replace("_", " "),
        "description": metric.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": _field(metric, unit), "overrides": []},
        "targets": [_target(selected, legend)],
    }


def _field(metric: Metric, unit: str) -> dict[str, Any]:
    if metric.name == "alert":
        words = {"0": {"text": "over", "color": "green"}, "1": {"text": "on", "color": "red"}}
        return {"mappings": [{"type": "value", "options": words}]}
    if metric.name == _IN_CPUS:
        return {"unit": "suffix: CPUs", "min": 0}
    return {"unit": unit, "min": 0} if metric.name != "loss" else {"unit": unit}


def _program_panel() -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": "told by the program",
        "description": "What the program told of with stepscope.metric()",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
        "targets": [
            _target(f'{{__name__=~"{_OF_PROGRAM}", {_CHOSEN}}}', "{{__name__}} {{run}} {{rank}}")
        ],
    }


def _target(query: str, legend: str) -> dict[str, Any]:
    return {"refId": "A", "datasource": _SOURCE, "expr": query, "legendFormat": legend}
