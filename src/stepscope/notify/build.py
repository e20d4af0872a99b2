"""[[sink]] tables → sinks."""

from __future__ import annotations

import importlib
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from stepscope.errors import StepscopeError, UsageError
from stepscope.model.alert import Alert
from stepscope.notify.options import Options
from stepscope.notify.sink import AlertSink, MetricsSink, SinkContext
from stepscope.notify.words import one_line

__all__ = ["ALERT_TYPES", "SINK_TYPES", "Chosen", "make_sinks"]

# Each is a module of this room, which is imported when it is asked for. These are told of alerts;
# of metrics are otlp and the others.
ALERT_TYPES: Final = ("log", "webhook", "command", "mail", "bell", "otlp")
SINK_TYPES: Final = (*ALERT_TYPES, "prometheus", "tensorboard", "mlflow", "wandb")
_LONGEST_NAME: Final = 100


class Chosen:
    """A sink that hears of some alerts only. name: what the user calls it; "": its own name."""

    def __init__(
        self, sink: AlertSink, name: str = "", min_severity: float = 0.0, rules: Sequence[str] = ()
    ) -> None:
        self._sink, self._name = sink, name
        self._min_severity, self._rules = min_severity, frozenset(rules)

    @property
    def name(self) -> str:
        return self._name or self._sink.name

    def wants(self, alert: Alert) -> bool:
        of_rules = not self._rules or alert.rule in self._rules
        return of_rules and alert.severity >= self._min_severity

    def send(self, alert: Alert) -> None:
        self._sink.send(alert)

    def close(self) -> None:
        self._sink.close()


def make_sinks(
    tables: Sequence[Mapping[str, Any]], context: SinkContext
) -> tuple[list[AlertSink], list[MetricsSink]]:
    """Those that hear of alerts, and those that hear of metrics; one sink may be among both.

    UsageError: a table asks for what there is not. MissingExtraError: it needs a part that is not
    installed.
    """
    alerts: dict[str, AlertSink] = {}
    metrics: list[MetricsSink] = []
    all_made: list[Any] = []
    try:
        for table in tables:
            chosen, made = _make(table, context, all_made)
            if isinstance(made, AlertSink):
                _refuse_second(chosen.name, alerts)
                alerts[chosen.name] = chosen
            if isinstance(made, MetricsSink):
                metrics.append(made)
    except StepscopeError:
        for made in all_made:
            made.close()
        raise
    return list(alerts.values()), metrics


def _refuse_second(name: str, there: Container[str]) -> None:
    if name in there:
        raise UsageError(f"The sink {name} is there twice: give each its own name.")


def _make(table: Any, context: SinkContext, all_made: list[Any]) -> tuple[Chosen, Any]:
    if not isinstance(table, Mapping):
        raise UsageError("[[sink]] has to be a table.")
    type = table.get("type")
    if type not in SINK_TYPES:
        there = ", ".join(SINK_TYPES)
        raise UsageError(f"There is no sink of the type {type!r}: there are {there}.")
    options = Options(table, type)
    options.text("type")
    name = options.text("name", "")
    if one_line(name) != name or len(name) > _LONGEST_NAME:
        raise UsageError(f"{options.where('name')} has to be a short text in one line.")
    least = options.number("min_severity", 0.0, most=1.0)
    rules = options.texts("rules", ())
    made = importlib.import_module(f"stepscope.notify.{type}").make(options, context)
    all_made.append(made)
    options.done()
    return Chosen(made, name and f"{type} {name}", least, rules), made
