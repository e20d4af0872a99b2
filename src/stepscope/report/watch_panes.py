"""The parts of the live view's screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from rich.text import Text

from stepscope.model.alert import Alert
from stepscope.model.live import LiveView, PhaseNow
from stepscope.report.figures import speedup
from stepscope.report.units import duration, percent
from stepscope.report.watch_choice import Choice, selected_at
from stepscope.report.watch_gauges import Gauge, gauges
from stepscope.report.watch_rows import Part, Rows
from stepscope.report.watch_words import (
    age,
    alert_state,
    long_time,
    place,
    severity_word,
)

__all__ = ["Panes"]

_NAME, _FIGURE = 16, 11  # columns
_ALERTS: Final = 3  # in the overview
_FEWEST: Final = 3  # phases that are shown, however small the screen
_COLOURS: Final = {
    "input wait": "yellow", "transfer": "magenta", "forward": "green", "backward": "green",
    "optimizer": "green", "evaluation": "cyan", "checkpoint save": "cyan", "gc": "red",
    "python between": "red",
}  # fmt: skip
_SEVERITIES: Final = {"high": "bold red", "moderate": "yellow", "low": ""}
_HELP: Final = (
    ("q", "leave; the run goes on"),
    ("a", "all alerts"),
    ("up, down", "select an alert, or scroll"),
    ("enter", "the selected alert: evidence, where, what to do"),
    ("p", "phases of a step, and the ranks"),
    ("r", "resources and history"),
    ("space", "hold the display still, and go on"),
    ("esc", "back"),
    ("h or ?", "this help"),
)
_CAPTURE: Final = ("c", "ask the program for a closer look at its next steps")


class Panes:
    """Each part is rows from top to bottom. choice None: nobody is there to choose."""

    def __init__(self, view: LiveView, choice: Choice | None, rows: Rows, now_unix: float) -> None:
        self._view, self._choice, self._rows, self._now_unix = view, choice, rows, now_unix

    def overview(self, room: int) -> list[Text]:
        """The most telling of each part, in as many rows as there are."""
        shown = gauges(self._view)
        alerts = list(self.alerts(1 + _ALERTS))
        left = room - len(alerts)
        phases = min(sum(map(_counts, self._view.phases)), max(_FEWEST, left - len(shown) - 2))
        parts = [alerts, list(self.phases(phases)), list(self._gauges(shown))]
        spare = room - sum(map(len, parts))
        made: list[Text] = []
        for part in parts:
            if spare > 0:
                made.append(Text(end=""))
                spare -= 1
            made += part
        return made[:room]

    # ---- alerts ----

    def alerts(self, room: int) -> Iterator[Text]:
        """A title and one row each, around the one that is selected."""
        alerts = self._view.alerts
        firing = sum(alert.is_firing for alert in alerts)
        if not alerts:
            yield self._rows.row(("Alerts", "bold"), ("  none", "dim"))
            return
        over = f", {len(alerts) - firing} over" if len(alerts) > firing else ""
        style = "bold red" if firing else "bold"
        yield self._rows.row(("Alerts", style), f"  {firing or 'none'} going on{over}")
        most = max(1, room - 1)
        selected = self._selected()
        first = max(0, min(selected - most // 2, len(alerts) - most))
        for at, alert in islice(enumerate(alerts), first, first + most):
            yield self._alert_row(alert, is_selected=at == selected)

    def _selected(self) -> int:
        return -1 if self._choice is None else selected_at(self._choice, self._view)

    def _alert_row(self, alert: Alert, *, is_selected: bool) -> Text:
        word = severity_word(alert.severity)
        style = _SEVERITIES[word] if alert.is_firing else "dim"
        parts: list[Part] = [
            ("> " if is_selected else "  ", "bold"),
            self._rows.padded(word if alert.is_firing else "over", 9, style),
            (alert.finding.title, "reverse" if is_selected else style),
        ]
        return self._rows.spread(parts, [(alert_state(alert, self._now_unix), "dim")])

    def alert(self) -> Iterator[Text]:
        """Everything about the selected one."""
        if not self._view.alerts:
            yield self._rows.row(("This alert is not known any more.", "dim"))
            return
        alert = self._view.alerts[max(0, self._selected())]
        finding = alert.finding
        wrapped = self._rows.wrapped
        word = severity_word(alert.severity)
        yield Text(end="")
        yield from wrapped((alert.message, f"bold {_SEVERITIES[word]}".strip()))
        yield from wrapped((" · ".join(self._alert_facts(alert)), "dim"))
        for sentence in finding.evidence:
            yield from wrapped(sentence, indent=2)
        where = place(finding.location)
        if where:
            yield from wrapped(("Where: ", "bold"), (where, "cyan"))
        if finding.recommendation is not None:
            advice = finding.recommendation
            yield from wrapped(("What to do: ", "bold"), (advice.title, "green"))
            yield from wrapped(advice.action, indent=2)
            if advice.expected_speedup is not None:
                yield from wrapped((speedup(advice), "green"), indent=2)
            if advice.risk:
                yield from wrapped((f"Caveat: {advice.risk}", "dim"), indent=2)
        for sentence in finding.missing:
            yield from wrapped((f"Not known: {sentence}", "dim"))
        if alert.capture:
            yield from wrapped(("Closer look: ", "bold"), (alert.capture, "cyan"))

    def _alert_facts(self, alert: Alert) -> Iterator[str]:
        yield f"severity {percent(alert.severity)}"
        yield f"confidence {int(alert.finding.confidence * 100)} %"
        yield f"began {age(alert.began_unix, self._now_unix)}"
        if alert.step is not None:
            yield f"at step {alert.step:,}"
        if not alert.is_firing:
            yield alert_state(alert, self._now_unix)
        yield f"rule {alert.rule}"

    # ---- phases and ranks ----

    def phases(self, most: int | None = None) -> Iterator[Text]:
        """Where the time of a step goes. most: only so many, the largest."""
        phases = [phase for phase in self._view.phases if _counts(phase)]
        if not phases:
            yield self._rows.row(("Phases", "bold"), ("  no step yet", "dim"))
            return
        recent_s = self._view.recent_s
        lately = f"last {long_time(recent_s)}" if recent_s is not None else ""
        yield self._rows.row(
            self._rows.padded("Phases", _NAME, "bold"),
            (f"{lately:>{_FIGURE}}{'whole run':>{_FIGURE}}", "dim"),
        )
        kept = sorted(phases, key=lambda phase: -_share(phase))[:most]
        for phase in phases:
            if phase in kept:
                yield self._phase_row(phase)

    def _phase_row(self, phase: PhaseNow) -> Text:
        colour = _COLOURS.get(phase.phase, "")
        recent = percent(phase.recent_share) if phase.recent_share is not None else ""
        room = max(1, self._rows.width - _NAME - 2 * _FIGURE - 2)
        return self._rows.row(
            self._rows.padded(phase.phase, _NAME, colour),
            f"{recent:>{_FIGURE}}{percent(phase.share):>{_FIGURE}}  ",
            (self._rows.glyphs.bar(min(1.0, _share(phase)), room), colour),
        )

    def ranks(self) -> Iterator[Text]:
        """Nothing, where there is one."""
        if len(self._view.ranks) < 2:
            return
        yield Text(end="")
        header = f"{'steps':>{_FIGURE}}{'a step':>{_FIGURE}}  mostly"
        yield self._rows.row(self._rows.padded("Ranks", _NAME, "bold"), (header, "dim"))
        for rank in self._view.ranks:
            step = duration(rank.step_ms) if rank.step_ms is not None else ""
            mostly = f"{rank.phase} {percent(rank.share)}" if rank.phase else ""
            yield self._rows.row(
                f"{rank.rank!s:<{_NAME}}{rank.steps:>{_FIGURE},}{step:>{_FIGURE}}  {mostly}"
            )

    # ---- resources ----

    def resources(self) -> Iterator[Text]:
        yield from self._gauges(gauges(self._view, everything=True))

    def _gauges(self, shown: Sequence[Gauge]) -> Iterator[Text]:
        """Name, figure, and how it was over the run."""
        when = "over the whole run" if self._view.is_over else "over the run so far"
        yield self._rows.row(("Resources and history", "bold"), (f"  {when}", "dim"))
        wide = max((len(one.text) for one in shown if one.points), default=0) + 2
        for one in shown:
            room = self._rows.width - _NAME - wide
            line = self._rows.sparkline(one.points, max(0, min(room, 120)), one.low, one.high)
            yield self._rows.row(
                self._rows.padded(one.name, _NAME),
                self._rows.padded(one.text, wide, one.style) if line else (one.text, one.style),
                (line, "cyan"),
            )

    def help(self) -> Iterator[Text]:
        yield Text(end="")
        can_capture = self._choice is not None and self._choice.can_capture
        for key, meaning in (*_HELP, *([_CAPTURE] if can_capture else [])):
            yield self._rows.row(("  ", ""), self._rows.padded(key, 12, "bold"), meaning)
        yield Text(end="")
        yield from self._rows.wrapped(
            "The verdict is what costs most time so far, as stepscope report will say it. Shares"
            " of phases add up to the time of the training loop. Nothing here slows training but"
            " one small file a second, written while somebody watches.",
            indent=2,
        )


def _counts(phase: PhaseNow) -> bool:
    """It would not be shown as 0.0 %."""
    return max(phase.share, phase.recent_share or 0.0) >= 0.0005


def _share(phase: PhaseNow) -> float:
    return phase.share if phase.recent_share is None else phase.recent_share
