"""An alert in words, for people."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.alert import Alert

__all__ = ["headline", "one_line", "paragraphs"]


def headline(alert: Alert) -> str:
    """over: no step for 40 s (run r)"""
    return one_line(f"{alert.message} (run {alert.run})")


def one_line(text: str) -> str:
    """Without line breaks and without what a terminal or a mail would take for a command."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def paragraphs(alert: Alert) -> Iterator[str]:
    """What is known, the most telling first, a line each."""
    yield one_line(f"Rule {alert.rule}, severity {alert.severity:.2f}, on {alert.host}.")
    if alert.step is not None:
        yield f"It began at step {alert.step:,}."
    if alert.ended_unix is not None:
        yield f"It lasted {max(0.0, alert.ended_unix - alert.began_unix):,.0f} s."
    yield from (one_line(line) for line in alert.finding.evidence)
    advice = alert.finding.recommendation
    if advice is not None and alert.is_firing:
        yield one_line(f"What to do: {advice.title}. {advice.action}")
    if alert.capture:
        yield one_line(f"A closer look is in {alert.capture} of the run folder.")
