"""Profiles of loaders and of preprocessing as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from stepscope.model.finding import Finding
from stepscope.model.loading import DataLoadingProfile, PreprocessingProfile

__all__ = ["loading_markdown"]


def loading_markdown(
    loaders: Sequence[DataLoadingProfile],
    functions: Sequence[PreprocessingProfile],
    best: DataLoadingProfile | None,
    generated: datetime,
) -> str:
    """The whole page."""
    return "\n".join(_lines(loaders, functions, best, generated)) + "\n"


def _lines(
    loaders: Sequence[DataLoadingProfile],
    functions: Sequence[PreprocessingProfile],
    best: DataLoadingProfile | None,
    generated: datetime,
) -> Iterator[str]:
    title = "Data Loading" if loaders else "Preprocessing"
    yield f"# {title} Profiling Report"
    yield f"Generated: {generated:%Y-%m-%d %H:%M:%S}"
    if loaders:
        yield from _loaders(loaders, best)
    if functions:
        yield from _functions(functions)


def _loaders(
    loaders: Sequence[DataLoadingProfile], best: DataLoadingProfile | None
) -> Iterator[str]:
    yield from ("", "## Configurations", "")
    yield "| batch size | workers | batches/s | samples/s | ms/batch | start s | peak MB | limits |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for one in loaders:
        batch_ms = None if one.avg_batch_time is None else one.avg_batch_time * 1e3
        cells = (
            "–" if one.batch_size is None else str(one.batch_size),
            str(one.num_workers),
            _number(one.throughput_batches_per_second),
            _number(one.throughput_samples_per_second),
            _number(batch_ms),
            _number(one.startup_seconds),
            _number(one.memory_usage_mb),
            ", ".join(limit.value for limit in one.bottlenecks) or "–",
        )
        mark = " **best**" if one is best else ""
        yield f"| {' | '.join(cells)}{mark} |"
    for one in loaders:
        if one.findings or one.suggestions:
            yield from ("", f"### batch_size={one.batch_size}, num_workers={one.num_workers}")
            yield from _found(one.findings, one.suggestions)


def _functions(functions: Sequence[PreprocessingProfile]) -> Iterator[str]:
    yield from ("", "## Preprocessing")
    for one in functions:
        took = "not measured" if one.execution_time is None else f"{one.execution_time * 1e3:.3f}ms"
        yield from ("", f"### {one.operation_name}")
        yield f"- Time: {took} a call ({one.num_iterations} calls)"
        if one.samples_per_second is not None:
            yield f"- Throughput: {one.samples_per_second:,.1f} samples a second"
        if one.cache_lookup_time is not None:
            yield (
                f"- Cache: {one.cache_hits} hits, {one.cache_misses} misses, "
                f"{one.cache_lookup_time * 1e3:.3f}ms a look"
            )
        yield from _found(one.findings, one.suggestions)
        yield from (f"- Note: {note}" for note in one.notes)


def _found(findings: Sequence[Finding], suggestions: Sequence[str]) -> Iterator[str]:
    for one in findings:
        title = f"{one.title[:1].upper()}{one.title[1:]}"
        yield f"- **{title}**: Severity: {one.severity:.2f}, Confidence: {one.confidence:.2f}"
        yield from (f"  - {sentence}" for sentence in (*one.evidence, *one.missing))
    if suggestions:
        yield "- Suggestions:"
        yield from (f"  - {suggestion}" for suggestion in suggestions)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"
