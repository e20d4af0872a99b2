"""The alerts of runs as text: when, what, where, how long, and who was told."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from stepscope.model.alert import Alert
from stepscope.model.alert_list import RunAlerts
from stepscope.model.delivery import AlertRecord, DeliveryState, DeliveryStatus
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.shorten import shorten
from stepscope.report.watch_words import long_time, place, severity_word

__all__ = ["render_alerts"]

_STYLES = {"high": "bold red", "moderate": "yellow", "low": ""}
_TOLD = {
    DeliveryState.DELIVERED: "told",
    DeliveryState.PENDING: "waits for",
    DeliveryState.REFUSED: "refused by",
}


def render_alerts(shown: Sequence[RunAlerts], console: Console, now_unix: float) -> None:
    glyphs = glyphs_for(console.encoding)
    if not shown:
        console.print(_text(glyphs, "No run has alerts. Watch one with: stepscope run --watch …"))
    for one in shown:
        for part in _parts(one, glyphs, now_unix):
            console.print(part)


def _parts(shown: RunAlerts, glyphs: Glyphs, now_unix: float) -> Iterator[RenderableType]:
    count = len(shown.records)
    alerts = "no alerts" if not count else "1 alert" if count == 1 else f"{count:,} alerts"
    going = 0 if shown.ended_unix is not None else sum(_is_firing(one) for one in shown.records)
    goes_on = f", {going:,} {'goes' if going == 1 else 'go'} on" if going else ""
    yield _text(glyphs, f"{shown.name} · {alerts}{goes_on}", "bold")
    heads = [_head(one.alert, shown.ended_unix, now_unix) for one in shown.records]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    for record, head in zip(shown.records, heads, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(head, widths, strict=True) if width]
        padded = "  ".join(cells)
        style = _STYLES[severity_word(record.alert.severity)]
        yield _indented(2, _text(glyphs, padded.rstrip(), style))
        yield _indented(4, _text(glyphs, _what(record.alert)))
        for line in _told(record.deliveries):
            yield _indented(4, _text(glyphs, line, "dim"))
    told = [status for one in shown.records for status in one.deliveries]
    waiting = sum(one.notices for one in told if one.state is DeliveryState.PENDING)
    if waiting:
        notices = "1 notice waits" if waiting == 1 else f"{waiting:,} notices wait"
        send = f"{notices} to be delivered. Try again: stepscope alerts {shown.path} --send"
        yield _indented(2, _text(glyphs, send, "yellow"))


def _is_firing(record: AlertRecord) -> bool:
    return record.alert.is_firing


def _head(alert: Alert, ended_unix: float | None, now_unix: float) -> tuple[str, ...]:
    """When, at which step, how bad, for how long."""
    return (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(alert.began_unix)),
        "" if alert.step is None else f"step {alert.step:,}",
        severity_word(alert.severity),
        _lasted(alert, ended_unix, now_unix),
    )


def _what(alert: Alert) -> str:
    where = place(alert.finding.location)
    parts = [alert.finding.title]
    if where:
        parts.append(f"at {where}" if alert.finding.location.file else where)
    if alert.ranks != (0,):
        parts.append(f"(rank {', '.join(map(str, alert.ranks))})")
    capture = f"\na closer look: {alert.capture}" if alert.capture else ""
    return " ".join(parts) + capture


def _lasted(alert: Alert, run_ended_unix: float | None, now_unix: float) -> str:
    if not alert.is_firing:
        ended_unix = alert.told_unix if alert.ended_unix is None else alert.ended_unix
        return f"{long_time(ended_unix - alert.began_unix)}, over"
    if run_ended_unix is not None:
        return f"{long_time(run_ended_unix - alert.began_unix)}, to the end"
    return f"{long_time(now_unix - alert.began_unix)}, goes on"


def _told(deliveries: Sequence[DeliveryStatus]) -> Iterator[str]:
    """told log alerts.log, mail mx · waits for webhook … (3 attempts: …)"""
    for state, word in _TOLD.items():
        names = [_sink(one) for one in deliveries if one.state is state]
        if names:
            yield f"{word} {', '.join(names)}"


def _sink(status: DeliveryStatus) -> str:
    name = shorten(status.sink, 60)
    if status.state is DeliveryState.DELIVERED or not status.attempts:
        return name
    attempts = "1 attempt" if status.attempts == 1 else f"{status.attempts:,} attempts"
    why = f": {shorten(status.error, 120)}" if status.error else ""
    return f"{name} ({attempts}{why})"


def _indented(by: int, part: Text) -> Padding:
    return Padding(part, (0, 0, 0, by), expand=False)


def _text(glyphs: Glyphs, text: str, style: str = "") -> Text:
    return Text(glyphs.text(text), style)
