"""The words of the live view."""

from __future__ import annotations

import signal

from stepscope.model.alert import Alert
from stepscope.model.finding import Location
from stepscope.model.live import Left, LiveView, RunState, Unit
from stepscope.report.units import amount, bytes_text, duration, percent, steps_text

__all__ = [
    "age",
    "alert_state",
    "figures",
    "left_text",
    "long_time",
    "place",
    "severity_word",
    "state_text",
    "value_text",
    "verdict_text",
]

_QUIET_S = 5.0  # without a step: worth a word, if steps do not take that long anyway


def long_time(seconds: float) -> str:
    """
    >>> long_time(43.2), long_time(723), long_time(11_520), long_time(183_600)
    ('43 s', '12 min 03 s', '3 h 12 min', '2 d 3 h')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h"


def age(then_unix: float, now_unix: float) -> str:
    return f"{long_time(now_unix - then_unix)} ago"


def left_text(left: Left) -> str:
    """
    >>> left_text(Left(4320, 3900, 4800))
    'about 1 h 12 min left (1 h 05 min to 1 h 20 min)'
    """
    between = f"{long_time(left.low_s)} to {long_time(left.high_s)}"
    return f"about {long_time(left.seconds)} left ({between})"


def state_text(view: LiveView) -> str:
    """In a few words; how long it took or takes is part of it."""
    lasted = f" {long_time(view.elapsed_s)}" if view.elapsed_s is not None else ""
    if view.state is RunState.FINISHED:
        after = f" after{lasted}" if lasted else ""
        return f"{_ended(view.exit_code)}{after}"
    words = {
        RunState.STARTING: f"asking for news, running{lasted}",
        RunState.RUNNING: f"running{lasted}",
        RunState.ENDING: "ended, report being made",
        RunState.KILLED: "killed",
        RunState.NOT_RESPONDING: "not responding",
    }
    return words[view.state]


def _ended(exit_code: int | None) -> str:
    if not exit_code:
        return "finished"
    if exit_code > 0:
        return f"failed, exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"


def verdict_text(view: LiveView) -> str:
    """What costs most; without a verdict, why there is none."""
    if view.verdict is not None:
        title = view.verdict.title
        return f"{title[:1].upper()}{title[1:]}."
    if view.notes:
        return view.notes[0]
    if view.is_over:
        return "No training loop was found."
    return "No verdict yet: training has not begun." if not view.steps else "No verdict yet."


def figures(view: LiveView) -> str:
    """How far it is, how fast, how long it will take."""
    if not view.steps:
        return "no step yet" if not view.is_over else "no steps"
    parts = [steps_text(view.steps)]
    if view.steps_per_second is not None:
        parts.append(f"{view.steps_per_second:.3g} steps/s")
    if view.step_ms is not None:
        parts.append(f"{duration(view.step_ms)} a step")
    quiet_s = view.since_step_s or 0.0
    if not view.is_over and quiet_s > max(_QUIET_S, 3 * (view.step_ms or 0.0) / 1e3):
        parts.append(f"last step {long_time(quiet_s)} ago")
    elif view.ends is not None and not view.is_over:
        parts.append(left_text(view.ends))
    return " · ".join(parts)


def severity_word(severity: float) -> str:
    """As kinds are graded: 0.4 at a moderate share, 0.7 at a high one."""
    if severity >= 0.7:
        return "high"
    return "moderate" if severity >= 0.4 else "low"


def alert_state(alert: Alert, now_unix: float) -> str:
    if alert.is_firing:
        return f"for {long_time(now_unix - alert.began_unix)}"
    ended_unix = alert.ended_unix if alert.ended_unix is not None else alert.told_unix
    return f"over, lasted {long_time(ended_unix - alert.began_unix)}"


def place(location: Location) -> str:
    """Where, as far as it is known; "" where it is not."""
    line = f":{location.line}" if location.line is not None else ""
    parts = [f"{location.file}{line}"] if location.file is not None else []
    if location.function:
        parts.append(f"in {location.function}")
    if location.layer:
        parts.append(f"layer {location.layer}")
    return " ".join(parts)


def value_text(unit: Unit, value: float) -> str:
    if unit is Unit.MILLISECONDS:
        return duration(value)
    if unit is Unit.SHARE:
        return percent(value)
    if unit is Unit.BYTES:
        return bytes_text(value)
    return f"{value:.3g}" if unit is not Unit.PLAIN else amount(value)
