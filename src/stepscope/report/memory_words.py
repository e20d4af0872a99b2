"""What is known about memory, in words: the text and the page say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.model.finding import Location
from stepscope.model.memory import (
    CATEGORIES,
    Coverage,
    DeviceMemory,
    Fragmentation,
    GcUse,
    Growing,
    Headroom,
    Memory,
    Peak,
    PeakPart,
)
from stepscope.report.shorten import shorten
from stepscope.report.units import bytes_text, duration, percent, steps_text

__all__ = [
    "CategoryShare",
    "Fact",
    "by_category",
    "by_line",
    "facts",
    "growth_figures",
    "peak_title",
    "place_text",
    "verdict",
    "where_measured",
]

_GROWS = ("leak", "cycle garbage")  # what needs mending
_MANY = {
    "parameter": "parameters", "gradient": "gradients", "activation": "activations",
    "input": "inputs", "temporary": "temporaries",
}  # fmt: skip
_NAMED = 3  # categories of a peak that the verdict names
_REFUSED = 5
_PATH = 160  # characters of a file's name


class CategoryShare(NamedTuple):
    category: str
    bytes: int
    share: float


class Fact(NamedTuple):
    title: str
    text: str


def verdict(memory: Memory) -> list[str]:
    """What to know first, a sentence each, the worst first."""
    said = [*_refusal(memory), *_growth(memory)]
    if memory.headroom is not None and memory.headroom.steps is not None:
        said.append(_runs_out(memory.headroom))
    largest = max(memory.devices, key=lambda one: one.peak.bytes, default=None)
    if largest is not None:
        said.append(_peak_sentence(largest))
    return said or ["No memory of tensors was seen."]


def _refusal(memory: Memory) -> Iterator[str]:
    if memory.refused:
        last = memory.refused[-1]
        where = place_text(last.location)
        at = f" at {where}" if where else ""
        step = f" in step {last.step:,}" if last.step >= 0 else ""
        yield f"Out of memory: {bytes_text(last.bytes)} more were refused{at}{step}."


def _growth(memory: Memory) -> Iterator[str]:
    found = [one for one in memory.growing if one.verdict in _GROWS]
    if not found:
        if memory.source == "run" and any(device.steps for device in memory.devices):
            yield "No leak was found."
        return
    worst = found[0]
    where = place_text(worst.location) or "a place that is not known"
    each = bytes_text(worst.bytes_per_step)
    if worst.verdict == "leak":
        yield f"Memory leaks: {each} a step stay behind, allocated at {where}."
    else:
        yield (
            f"Memory grows by {each} a step until garbage is collected: objects that refer to each"
            f" other hold what {where} allocates."
        )
    if len(found) > 1:
        yield (
            "One more place grows." if len(found) == 2 else f"{len(found) - 1:,} more places grow."
        )


def _runs_out(headroom: Headroom) -> str:
    low, likely, high = headroom.steps or (0.0, 0.0, 0.0)
    return (
        f"At this rate memory runs out in about {steps_text(round(likely))}"
        f" ({low:,.0f} to {high:,.0f}): {bytes_text(headroom.used_bytes)} of"
        f" {bytes_text(headroom.limit_bytes)} ({headroom.limit}) are in use."
    )


def _peak_sentence(device: DeviceMemory) -> str:
    shares = by_category(device.peak)[:_NAMED]
    made_of = ", ".join(
        f"{percent(one.share)} {_MANY.get(one.category, one.category)}"
        for one in shares
        if one.share >= 0.01
    )
    known = len(shares) > 1 or (shares and shares[0].category != "other")
    tail = f": {made_of}" if made_of and known else ""
    return f"The peak on {shorten(device.device)} is {bytes_text(device.peak.bytes)}{tail}."


def by_category(peak: Peak) -> list[CategoryShare]:
    """Of the parts of a peak, the largest first."""
    sizes = dict.fromkeys(CATEGORIES, 0)
    for part in peak.parts:
        sizes[part.category] = sizes.get(part.category, 0) + part.bytes
    whole = sum(sizes.values())
    found = [CategoryShare(name, size, size / whole) for name, size in sizes.items() if size > 0]
    return sorted(found, key=lambda one: -one.bytes)


def by_line(peak: Peak) -> list[PeakPart]:
    """Parts whose line, layer and category are the same are one, with the stack of the largest.
    Those of which neither line nor layer is known are left out."""
    found: dict[tuple[str, Location], PeakPart] = {}
    for part in peak.parts:
        if place_text(part.location):
            key = (part.category, part.location)
            known = found.get(key)
            found[key] = part if known is None else known._replace(
                bytes=known.bytes + part.bytes, blocks=_both(known.blocks, part.blocks)
            )  # fmt: skip
    return sorted(found.values(), key=lambda part: -part.bytes)


def peak_title(device: DeviceMemory) -> str:
    """When the peak was, and of what its parts are told."""
    peak = device.peak
    when = f" in step {peak.step:,}" if peak.step >= 0 else ""
    if not when and peak.at_ms is not None:
        when = f", {duration(peak.at_ms)} after the beginning"
    told = ""
    if peak.parts and peak.parts_bytes != peak.bytes:
        step = f" of step {peak.parts_step:,}" if peak.parts_step >= 0 else ""
        told = f"; told apart for the {bytes_text(peak.parts_bytes)}{step}"
    return f"Peak on {shorten(device.device)}: {bytes_text(peak.bytes)}{when}{told}"


def place_text(location: Location) -> str:
    """A line, the function it stands in, and the layer that was at work; "": not known."""
    said = ""
    if location.file:
        line = f":{location.line}" if location.line is not None else ""
        said = f"{shorten(location.file, _PATH)}{line}"
    if location.function:
        function = shorten(location.function)
        said = f"{said} in {function}" if said else function
    if location.layer:
        layer = f"layer {shorten(location.layer)}"
        said = f"{said}, {layer}" if said else layer
    return said


def growth_figures(one: Growing) -> str:
    blocks = "1 block" if one.live_blocks == 1 else f"{one.live_blocks:,} blocks"
    said = f"{bytes_text(one.bytes_per_step)} a step · {bytes_text(one.live_bytes)} in {blocks}"
    return f"{said} · {one.category} · steps {one.first_step:,} to {one.last_step:,}"


def where_measured(memory: Memory) -> str:
    if memory.source != "run":
        return memory.source
    rank = f" · rank {memory.rank}" if memory.rank else ""
    return f"{steps_text(memory.sampled_steps)} looked at closely{rank}"


def facts(memory: Memory) -> list[Fact]:
    """What stands below the peak: refusals, unused memory, the limit, gc, and what was seen."""
    found = [
        Fact("refused", _refused_text(one.bytes, one.step, one.location))
        for one in memory.refused[:_REFUSED]
    ]
    if len(memory.refused) > _REFUSED:
        found.append(Fact("refused", f"… and {len(memory.refused) - _REFUSED:,} more"))
    found += [Fact("fragmentation", _fragmentation_text(one)) for one in memory.fragmentation]
    if memory.headroom is not None:
        found.append(Fact("limit", _limit_text(memory.headroom)))
    if memory.gc is not None:
        found.append(Fact("gc", _gc_text(memory.gc)))
        found += [Fact("gc", pattern) for pattern in memory.gc.patterns]
    if memory.coverage is not None:
        found.append(Fact("coverage", _coverage_text(memory.coverage)))
    if memory.stack_share is not None:
        share = percent(memory.stack_share)
        found.append(Fact("stacks", f"{share} of the allocations have a stack"))
    counted = [
        f"{name.replace('_', ' ')} {count:,}" for name, count in memory.counts.items() if count
    ]
    if counted:
        found.append(Fact("counted", ", ".join(counted)))
    return found


def _refused_text(size: int, step: int, location: Location) -> str:
    where = place_text(location)
    at = f" at {where}" if where else ""
    return f"{bytes_text(size)}{at}" + (f" in step {step:,}" if step >= 0 else "")


def _fragmentation_text(one: Fragmentation) -> str:
    said = (
        f"{shorten(one.allocator)} holds {bytes_text(one.reserved_bytes)}, of which"
        f" {bytes_text(one.allocated_bytes)} are in use and {bytes_text(one.free_bytes)} are free"
    )
    if one.largest_free_bytes is not None and one.free_bytes:
        said += f", the largest piece {bytes_text(one.largest_free_bytes)}"
    if one.inactive_split_bytes:
        split = bytes_text(one.inactive_split_bytes)
        said += f"; {split} of it in segments that are partly in use"
    return f"{said}. {one.fix}" if one.fix else f"{said}."


def _limit_text(headroom: Headroom) -> str:
    used, limit = bytes_text(headroom.used_bytes), bytes_text(headroom.limit_bytes)
    said = f"{used} of {limit} ({headroom.limit}) were in use at the last step"
    if headroom.bytes_per_step is not None:
        said += f", {bytes_text(max(0.0, headroom.bytes_per_step))} more with each step"
    return f"{said}."


def _gc_text(use: GcUse) -> str:
    share = "" if use.share is None else f"{percent(use.share)} of the loop's time; "
    each = "; ".join(
        f"generation {one.generation} ran {one.collections:,} times,"
        f" {duration(one.total_ms)} in all, {duration(one.longest_ms)} at most,"
        f" {one.collected:,} objects freed"
        for one in use.generations
    )
    return f"{share}{each or 'no collections'}."


def _coverage_text(coverage: Coverage) -> str:
    """First parts that add up to the whole, then properties, which parts of it may share."""
    held = bytes_text(coverage.rss_bytes)
    parts = _sizes(
        (coverage.tensor_bytes, "are tensors that were seen"),
        (coverage.before_bytes, "were there before the first step"),
        (coverage.mapped_bytes, "are files, libraries and shared memory that came since"),
        (coverage.free_bytes, "are free memory that libc's allocator keeps"),
        (coverage.unexplained_bytes, "are not explained"),
    )
    properties = _sizes(
        (coverage.python_bytes, "are Python objects"),
        (coverage.shared_bytes, "are shared with other processes or are files"),
        (coverage.pinned_bytes, "are pinned"),
    )
    told = f"Of {held} that the process held, {', '.join(parts)}."
    return f"{told} Of all this, {', '.join(properties)}." if properties else told


def _sizes(*known: tuple[int | None, str]) -> list[str]:
    return [f"{bytes_text(size)} {words}" for size, words in known if size is not None]


def _both(one: int | None, other: int | None) -> int | None:
    """None: not counted."""
    return None if one is None or other is None else one + other
