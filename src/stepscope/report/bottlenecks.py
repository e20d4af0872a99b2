"""A session of a BottleneckProfiler as Markdown, in the form of the source document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from stepscope.model.bottlenecks import BottleneckProfile, ProfilingSession

__all__ = ["session_markdown"]


def session_markdown(session: ProfilingSession, generated: datetime) -> str:
    """The whole page."""
    return "\n".join(_lines(session, generated)) + "\n"


def _lines(session: ProfilingSession, generated: datetime) -> Iterator[str]:
    yield "# Bottleneck Profiling Report"
    yield f"Generated: {generated:%Y-%m-%d %H:%M:%S}  "
    yield f"Session ID: {session.session_id}"
    yield from _summary(session)
    yield from ("", "## Performance Metrics")
    for name, value in session.performance_metrics.items():
        yield f"- {name}: {'not measured' if value is None else f'{value:.4f}'}"
    yield from _bottlenecks(session)
    yield from _operations(session)
    if session.notes:
        yield from ("", "## Notes")
        yield from (f"- {note}" for note in session.notes)


def _summary(session: ProfilingSession) -> Iterator[str]:
    duration, end = session.duration, session.end_time
    yield from ("", "## Session Summary")
    yield f"- Start Time: {session.start_time:%Y-%m-%d %H:%M:%S %z}"
    yield f"- End Time: {'it goes on' if end is None else f'{end:%Y-%m-%d %H:%M:%S %z}'}"
    yield f"- Duration: {'it goes on' if duration is None else f'{duration:.2f} seconds'}"
    if session.verdict:
        yield f"- Verdict: {session.verdict}"


def _bottlenecks(session: ProfilingSession) -> Iterator[str]:
    yield from ("", "## Bottleneck Analysis")
    yield f"Total Bottlenecks Detected: {len(session.bottlenecks)}"
    yield from ("", "### Bottlenecks by Type")
    if not session.bottlenecks:
        yield from ("", "None was found.")
    for name, group in session.by_type().items():
        yield from ("", f"#### {name.replace('_', ' ').title()}")
        for one in group:
            yield from _one(one)


def _one(one: BottleneckProfile) -> Iterator[str]:
    time = "not measured" if one.execution_time is None else f"{one.execution_time:.4f}s"
    figures = [f"Severity: {one.severity:.2f}", f"Frequency: {one.frequency}", f"Time: {time}"]
    if one.optimization_potential is not None:
        figures.append(f"Potential: {one.optimization_potential:.2f}")
    yield f"- **{one.operation_name}**: {', '.join(figures)}"
    yield from (f"  - {sentence}" for sentence in one.evidence)
    if one.suggestions:
        yield "  - Suggestions:"
        yield from (f"    - {suggestion}" for suggestion in one.suggestions)


def _operations(session: ProfilingSession) -> Iterator[str]:
    if not session.operations:
        return
    yield from ("", "## Operations", "")
    yield "| operation | runs | seconds | CPU seconds | peak MB |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, one in session.operations.items():
        numbers = (one.execution_time, one.cpu_time, one.peak_ram_mb)
        cells = ["–" if number is None else f"{number:.3f}" for number in numbers]
        yield f"| {name.replace('|', chr(92) + '|')} | {one.calls or 0} | {' | '.join(cells)} |"
