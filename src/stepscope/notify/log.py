"""Alerts as log lines: JSON with the fields of the Elastic Common Schema, through structlog.

The user's own configuration of structlog is neither read nor changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from stepscope.errors import MissingExtraError
from stepscope.model.alert import Alert
from stepscope.model.delivery import json_line, notice_key
from stepscope.notify.levels import Level, level_of
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.printer import write_line

__all__ = ["ECS_VERSION", "Log", "make"]

ECS_VERSION: Final = "8.11.0"
_STDERR: Final = "stderr"
_FIRST: Final = ("@timestamp", "log.level", "message", "ecs.version")  # as ECS loggers write them


def make(options: Options, context: SinkContext) -> Log:
    """path: of a file, in the run folder unless it is absolute; "stderr": there."""
    return Log(options.text("path", "alerts.log"), options.text("service", "stepscope"), context)


class Log:
    """One line a notice. The file is opened for each, so that it may be moved, removed or cut off
    at any time, as programs that rotate logs do."""

    def __init__(self, path: str, service: str, context: SinkContext) -> None:
        try:
            import structlog
        except ImportError as error:
            raise MissingExtraError("structlog", "watch") from error
        self._path, self._service, self._context = path, service, context
        lines = _Stderr() if path == _STDERR else _File(context.folder / path, _mode(path))
        self._logger: Any = structlog.wrap_logger(
            lines,
            processors=[
                structlog.processors.EventRenamer("message"),
                _in_order,
                structlog.processors.JSONRenderer(serializer=_serialize),
            ],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=False,
        ).bind(**_about(service, context))

    @property
    def name(self) -> str:
        return f"log {self._path}"

    def send(self, alert: Alert) -> None:
        try:
            getattr(self._logger, level_of(alert).value)(alert.message, **_fields(alert))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise SinkError(f"The log {self._path} cannot be written ({reason}).") from error

    def close(self) -> None:
        """Nothing stays open."""


def _mode(path: str) -> int:
    """Private in the run folder; elsewhere a program of another user may collect the log."""
    return 0o644 if Path(path).is_absolute() else 0o600


class _Lines:
    """What structlog calls with a line, whatever its level."""

    def info(self, line: str) -> None:
        raise NotImplementedError

    def warning(self, line: str) -> None:
        self.info(line)

    def error(self, line: str) -> None:
        self.info(line)


class _File(_Lines):
    def __init__(self, path: Path, mode: int) -> None:
        self._path, self._mode = path, mode
        self._is_torn = False

    def info(self, line: str) -> None:
        content = f"{chr(10) if self._is_torn else ''}{line}\n".encode("ascii")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, self._mode)
        try:
            written = os.write(descriptor, content)
        finally:
            os.close(descriptor)
        self._is_torn = written != len(content)
        if self._is_torn:
            raise OSError(28, "No space left on device")


class _Stderr(_Lines):
    def info(self, line: str) -> None:
        if sys.stderr is None:
            raise ValueError("there is no stderr")
        write_line(line, sys.stderr)


def _in_order(
    logger: Any, method: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    first = {key: fields[key] for key in _FIRST}
    return {**first, **{key: value for key, value in fields.items() if value is not None}}


def _serialize(fields: MutableMapping[str, Any], **more: Any) -> str:
    return json_line(fields)


def _about(service: str, context: SinkContext) -> dict[str, Any]:
    return {
        "ecs.version": ECS_VERSION,
        "log.logger": "stepscope",
        "service.name": service,
        "service.type": "stepscope",
        "process.pid": context.pid,
        "labels": dict(context.labels) or None,
    }


def _fields(alert: Alert) -> dict[str, Any]:
    return {
        "@timestamp": _iso(alert.told_unix),
        "log.level": level_of(alert).value,
        **_event(alert),
        **_error(alert),
        "rule.name": alert.rule,
        "rule.category": alert.finding.kind,
        "host.name": alert.host,
        **_ours(alert),
    }


def _event(alert: Alert) -> dict[str, Any]:
    ended = alert.ended_unix
    took_s = None if ended is None else max(0.0, ended - alert.began_unix)
    return {
        "event.kind": "alert",
        "event.category": ["process"],
        "event.type": ["info"],
        "event.action": alert.state.value,
        "event.module": "stepscope",
        "event.dataset": "stepscope.alerts",
        "event.severity": round(alert.severity * 100),
        "event.id": notice_key(alert),
        "event.code": alert.finding.kind,
        "event.reason": " ".join(alert.finding.evidence) or None,
        "event.start": _iso(alert.began_unix),
        "event.end": None if ended is None else _iso(ended),
        "event.duration": None if took_s is None else round(took_s * 1e9),
    }


def _error(alert: Alert) -> dict[str, Any]:
    if level_of(alert) is not Level.ERROR:
        return {}
    return {"error.type": alert.finding.kind, "error.message": alert.finding.title}


def _ours(alert: Alert) -> dict[str, Any]:
    where, advice = alert.finding.location, alert.finding.recommendation
    return {
        "stepscope.alert": alert.id,
        "stepscope.state": alert.state.value,
        "stepscope.run": alert.run,
        "stepscope.rank": alert.ranks[0] if alert.ranks else None,
        "stepscope.ranks": list(alert.ranks),
        "stepscope.step": alert.step,
        "stepscope.rule": alert.rule,
        "stepscope.kind": alert.finding.kind,
        "stepscope.severity": alert.severity,
        "stepscope.confidence": alert.finding.confidence,
        "stepscope.metric": alert.metric,
        "stepscope.value": alert.value,
        "stepscope.limit": alert.limit,
        "stepscope.location.file": where.file,
        "stepscope.location.line": where.line,
        "stepscope.location.function": where.function,
        "stepscope.location.layer": where.layer,
        "stepscope.recommendation": None if advice is None else f"{advice.title}. {advice.action}",
        "stepscope.capture": alert.capture or None,
    }


def _iso(unix: float) -> str:
    text = datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
