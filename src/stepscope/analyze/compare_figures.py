"""The summary of a run → what it is compared by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.model.comparison import RunFigures
from stepscope.model.summary import Summary

__all__ = ["figures_of"]


def figures_of(summary: Summary, name: str, path: str, torch: str = "") -> RunFigures:
    """torch: its version, where it is known."""
    steps, verdict = summary.steps, summary.verdict
    return RunFigures(
        name=name,
        path=path,
        started_unix=summary.run.get("started_unix"),
        steps=steps.count,
        reference_us=steps.reference_us,
        figures={key: float(value) for key, value in _figures(summary) if value is not None},
        phases={part.phase: part.ms / steps.count for part in summary.breakdown if steps.count},
        kind=verdict.kind if verdict is not None else "",
        verdict=verdict.title if verdict is not None else "",
        about={key: text for key, text in _about(summary.run, len(summary.ranks), torch) if text},
        remarks=tuple(_remarks(summary)),
    )


def _figures(summary: Summary) -> Iterator[tuple[str, float | None]]:
    steps = summary.steps
    yield "fast", steps.fast_ms
    yield "loop", summary.wall_ms / steps.count if steps.count else None
    yield "step", steps.median_ms
    yield "p95", steps.p95_ms
    yield "throughput", steps.per_second
    yield "memory", summary.memory.get("peak_rss_bytes")
    yield "startup", summary.startup_ms


def _about(run: Mapping[str, Any], ranks: int, torch: str) -> Iterator[tuple[str, str]]:
    """What should be the same for runs to be comparable; "": not known."""
    host = run.get("host") or {}
    settings = run.get("settings") or {}
    yield "host", str(host.get("name") or "")
    yield "number of CPUs", str(host.get("cpus") or "")
    yield "system", str(host.get("system") or "")
    yield "level of recording", str(settings.get("level") or "")
    yield "memory recording", ", ".join(settings.get("memory") or ()) or "none"
    yield "version of Python", str(run.get("python") or "")
    yield "version of torch", torch
    yield "version of stepscope", str(run.get("stepscope") or "")
    yield "number of ranks", str(ranks or "")


def _remarks(summary: Summary) -> Iterator[str]:
    if not summary.steps.count:
        yield "no training loop was found in it"
    if summary.run.get("ended_unix") is None:
        yield "it goes on, or was killed"
    code = summary.run.get("exit_code")
    if code:
        yield f"it ended with exit code {code}"
    if summary.coverage.get("dropped_events"):
        yield "some of its events were dropped"
