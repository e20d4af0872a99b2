from __future__ import annotations

import io
import re

from rich.console import Console

from stepscope.model.alert import Alert
from stepscope.model.alert_list import RunAlerts
from stepscope.model.delivery import AlertRecord, DeliveryState, DeliveryStatus
from stepscope.report.alerts import render_alerts
from tests.unit.notify.alerts_by_hand import firing, resolved

HOOK, LOG, MAIL = "webhook https://example.org #12345678", "log alerts.log", "mail mx #1"
NOW = 1_700_000_123.0


def shown(*records: AlertRecord, ended: float | None = None, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    alerts = RunAlerts("r", "runs/r", records, ended)
    render_alerts([alerts], Console(file=file, width=150), NOW)
    file.seek(0)
    return "\n".join(line.rstrip() for line in file.read().splitlines())


def record(alert: Alert, *deliveries: DeliveryStatus) -> AlertRecord:
    return AlertRecord(alert, deliveries)


def test_a_line_says_when_what_where_and_for_how_long() -> None:
    text = shown(record(firing(capture="captures/1")))
    assert text.startswith("r · 1 alert, 1 goes on\n")
    head = r"^  \S+ \d\d:\d\d:\d\d  step 12  high  2 min 03 s, goes on$"
    assert re.search(head, text, re.MULTILINE)
    assert "\n    steps take 30 % longer <since> 12 & on at train.py:7 in main (rank 0, 3)" in text
    assert "a closer look: captures/1" in text


def test_what_is_over_says_so_and_what_outlived_the_run_too() -> None:
    assert "1 min 00 s, over" in shown(record(resolved()))
    text = shown(record(firing()), ended=1_700_000_100.0)
    assert "1 min 40 s, to the end" in text
    assert "goes on" not in text


def test_who_was_told_who_waits_and_who_refused_it() -> None:
    text = shown(
        record(
            firing(),
            DeliveryStatus(LOG, DeliveryState.DELIVERED, 1, 5.0),
            DeliveryStatus(HOOK, DeliveryState.PENDING, 3, 5.0, "it cannot be reached"),
            DeliveryStatus(MAIL, DeliveryState.REFUSED, 1, 5.0, "mx answered 550."),
        )
    )
    assert "told log alerts.log\n" in text
    assert f"waits for {HOOK} (3 attempts: it cannot be" in text
    assert "refused by mail mx #1 (1 attempt: mx answered 550.)" in text
    assert text.endswith(
        "1 notice waits to be delivered. Try again: stepscope alerts runs/r --send"
    )


def test_a_run_without_alerts_says_so() -> None:
    assert shown() == "r · no alerts"
    file = io.StringIO()
    render_alerts([], Console(file=file, width=150), NOW)
    assert file.getvalue().startswith("No run has alerts.")


def test_text_from_outside_is_shown_and_not_obeyed() -> None:
    text = shown(record(firing(capture="\x1b[2J\u202e[red]")), encoding="ascii")
    assert "\x1b" not in text
    assert r"\u001b[2J\u202e[red]" in text
