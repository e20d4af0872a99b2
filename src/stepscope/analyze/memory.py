"""Findings about memory: leaks, garbage in cycles, an allocator in pieces, and too little of it.

Their shares are of bytes, not of time: of what the process held at most, or of the limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.growth import FLOOR_BYTES, judge_growth
from stepscope.analyze.judge import likely, own_part, severity
from stepscope.analyze.words import bytes_text, percent, plural
from stepscope.model import names
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.memory import Fragmentation, Growing, Memory
from stepscope.model.timeline import Timeline

__all__ = ["memory_findings"]

MOST_LEAKS: Final = 3
COIN: Final = 0.5  # confidence where nothing tells a cause from its rival (analyze/judge.py)
FEWEST: Final = 16  # samples of the process's size, and steps: fewer make no 4 windows of growth
POINTS: Final = 100  # of its growth that are looked at
LEAST_GROWN_SHARE: Final = 0.1  # of the process's size


def memory_findings(evidence: Evidence) -> list[Finding]:
    """The worst first."""
    memory = evidence.details.memory
    if memory is None:
        return list(_process_grows(evidence))
    found = [
        *_leaks(memory),
        *_garbage(memory),
        *_pressure(memory),
        *(one for each in memory.fragmentation for one in _fragmentation(memory, each)),
    ]
    return sorted(found, key=lambda finding: -finding.severity)


def _held_bytes(memory: Memory) -> float:
    """The most that the process held."""
    devices = [device.peak.bytes for device in memory.devices]
    rss = memory.coverage.rss_bytes if memory.coverage is not None else 0
    return float(max([rss, *devices, 1]))


def _used_up(memory: Memory) -> float:
    """How much of the run's life is over: 0.5, memory ends it in as many steps as it has made; 0:
    nothing says that it will."""
    if memory.refused:
        return 1.0
    headroom = memory.headroom
    if headroom is None or headroom.steps is None:
        return 0.0
    done = max((step for device in memory.devices for step, _, _ in device.steps), default=0)
    return done / (done + headroom.steps[1]) if done else 0.0


# ---- leaks ----


def _leaks(memory: Memory) -> Iterator[Finding]:
    leaks = [one for one in memory.growing if one.verdict == "leak"]
    for leak in leaks[:MOST_LEAKS]:
        share = min(1.0, leak.live_bytes / _held_bytes(memory))
        yield Finding(
            kind="leak",
            title=f"memory: a line keeps {bytes_text(leak.bytes_per_step)} more with every step",
            share=share,
            severity=max(severity("leak", share), _used_up(memory)),
            # Garbage that nobody collected grows like a leak: a collection tells them apart.
            confidence=leak.steady_share * (COIN + (1.0 - COIN) * (leak.kept_share or 0.0)),
            evidence=tuple(_leak_sentences(memory, leak)),
            missing=() if leak.held_by else ("Who refers to it was not found.",),
            location=leak.location,
            measures={
                "bytes_per_step": leak.bytes_per_step,
                "live_bytes": float(leak.live_bytes),
                "of_graph": float(leak.held_by[:1] == (names.HELD_BY_GRAPH,)),
            },
        )


def _leak_sentences(memory: Memory, leak: Growing) -> Iterator[str]:
    yield (
        f"It holds {bytes_text(leak.live_bytes)} in {plural(leak.live_blocks, 'block')} after step"
        f" {leak.last_step:,}, and {bytes_text(leak.bytes_per_step)} more with every step."
    )
    yield leak.why
    if leak.held_by:
        yield f"Held by: {' ← '.join(leak.held_by)}."
    headroom = memory.headroom
    if headroom is not None and headroom.steps is not None:
        low, middle, high = headroom.steps
        about = f"{middle:,.0f}" if high - low < 1 else f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"
        yield (
            f"Memory runs out in about {about} steps: {bytes_text(headroom.used_bytes)} of"
            f" {bytes_text(headroom.limit_bytes)} ({headroom.limit}) are used."
        )


def _process_grows(evidence: Evidence) -> Iterator[Finding]:
    """From the size of the process alone, where nobody asked for more."""
    timeline = evidence.details.timeline
    if timeline is None or len(timeline.rss) < FEWEST or len(timeline.buckets) < FEWEST:
        return
    points = list(_after_steps(timeline))
    most = max(size for _, size in points)
    growth = judge_growth(points, max(FLOOR_BYTES, LEAST_GROWN_SHARE * most))
    if not growth.leaks or growth.slope is None or growth.grown_bytes is None:
        return
    share = min(1.0, growth.grown_bytes / most)
    a_step = growth.slope
    yield Finding(
        kind="leak",
        title=f"memory: the process grows by {bytes_text(a_step)} with every step",
        share=share,
        severity=severity("leak", share),
        confidence=COIN * growth.growing_windows / growth.windows,
        evidence=(
            f"It grew by {bytes_text(growth.grown_bytes)} to {bytes_text(most)}. {growth.why}",
            f"That is {bytes_text(a_step)} with every step.",
        ),
        missing=("To find the line: stepscope run --memory …",),
        measures={"bytes_per_step": a_step},
    )


def _after_steps(timeline: Timeline) -> Iterator[tuple[float, float]]:
    """How large the process was after some of the steps, evenly: a step that takes long would look
    like a pause in the growth."""
    times = [at_ms for at_ms, _ in timeline.rss]
    for bucket in timeline.buckets[:: -(-len(timeline.buckets) // POINTS)]:
        place = bisect_right(times, bucket.start_ms) - 1
        if place >= 0:
            yield float(bucket.first_step), timeline.rss[place][1]


# ---- garbage ----


def _garbage(memory: Memory) -> Iterator[Finding]:
    for one in memory.growing:
        if one.verdict != "cycle garbage":
            continue
        share = min(1.0, one.live_bytes / _held_bytes(memory))
        what = f" of class {one.made_by}" if one.made_by else ""
        yield Finding(
            kind="cycle-garbage",
            title=f"memory: tensors wait in cycles{what} for the garbage collector",
            share=share,
            severity=severity("cycle-garbage", share),
            confidence=1.0 - (one.kept_share or 0.0),  # a collection was seen to free it
            evidence=(
                (
                    f"{bytes_text(one.bytes_per_step)} more with every step until Python collects;"
                    f" {bytes_text(one.live_bytes)} at the last look."
                ),
                one.why,
                *((f"Objects of class {one.made_by} refer to each other.",) if one.made_by else ()),
            ),
            location=one.location,
            measures={"bytes_per_step": one.bytes_per_step},
        )
        return


# ---- too little ----


def _pressure(memory: Memory) -> Iterator[Finding]:
    headroom = memory.headroom
    if headroom is None:
        return
    share = min(1.0, headroom.used_bytes / headroom.limit_bytes) if headroom.limit_bytes else 0.0
    if memory.refused:
        share = 1.0
    if share < KINDS["memory-pressure"].moderate_share:
        return
    refused = memory.refused[-1] if memory.refused else None
    largest = _largest_category(memory)
    used, limit = bytes_text(headroom.used_bytes), bytes_text(headroom.limit_bytes)
    sentences = [f"{used} of {limit} are used ({headroom.limit})."]
    if refused is not None:
        sentences.insert(0, f"An allocation of {bytes_text(refused.bytes)} was refused.")
    if largest is not None:
        sentences.append(f"Most of the tensors' peak is {largest[0]}: {percent(largest[1])}.")
    yield Finding(
        kind="memory-pressure",
        title="memory: it ran out" if refused else "memory: nearly all of it is used",
        share=share,
        severity=1.0 if refused else severity("memory-pressure", share),
        # A refusal was seen. Else the rest of the memory in use may be other programs'.
        confidence=1.0 if refused else likely(own_part(_held_bytes(memory), headroom.used_bytes)),
        evidence=tuple(sentences),
        location=refused.location if refused else Location(),
        measures={f"{name}_share": part for name, part in _categories(memory).items()},
    )


def _categories(memory: Memory) -> dict[str, float]:
    """Of the highest peak: how much of it each purpose has."""
    device = max(memory.devices, key=lambda one: one.peak.bytes, default=None)
    if device is None or not device.peak.parts_bytes:
        return {}
    sizes: Counter[str] = Counter()
    for part in device.peak.parts:
        sizes[part.category] += part.bytes
    return {name: size / device.peak.parts_bytes for name, size in sizes.items()}


def _largest_category(memory: Memory) -> tuple[str, float] | None:
    shares = _categories(memory)
    best = max(shares, key=shares.__getitem__, default=None)
    return (best, shares[best]) if best is not None else None


# ---- in pieces ----


def _fragmentation(memory: Memory, one: Fragmentation) -> Iterator[Finding]:
    scattered = one.scattered_bytes
    share = min(1.0, scattered / _held_bytes(memory))
    least = max(Signal.SCATTERED_BYTES, Signal.SCATTERED_SHARE * one.reserved_bytes)
    is_much = scattered > least
    if not is_much or share < KINDS["fragmentation"].moderate_share:
        return
    on_host = one.inactive_split_bytes is None
    known = one._asdict().items()
    yield Finding(
        kind="fragmentation",
        title=f"memory: {one.allocator} keeps {bytes_text(scattered)} in pieces that nobody uses",
        share=share,
        severity=severity("fragmentation", share),
        confidence=COIN if on_host else 1.0,  # libc tells of its topmost piece only
        evidence=(
            (
                f"{bytes_text(one.allocated_bytes)} of {bytes_text(one.reserved_bytes)} that it"
                f" has taken are in use, and {bytes_text(one.reused_bytes)} wait for the next step;"
                f" of the rest, {bytes_text(one.largest_free_bytes or 0)} are in one piece."
            ),
        ),
        measures={name: float(value) for name, value in known if isinstance(value, int)}
        | {"on_host": float(on_host)},
    )
