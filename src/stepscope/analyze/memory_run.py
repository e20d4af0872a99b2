"""What a process told about its memory → model/memory.py's Memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stepscope.analyze.gc_use import GcFold
from stepscope.analyze.memory_events import MemoryEvents, StepMemory
from stepscope.analyze.memory_growth import FLOOR_BYTES, Examined, Line, examined_of, judge_line
from stepscope.analyze.memory_headroom import headroom
from stepscope.analyze.memory_look import Group, Look
from stepscope.analyze.memory_points import PointFold
from stepscope.model.event import Batch
from stepscope.model.finding import Location
from stepscope.model.memory import (
    MAX_MEMORY_POINTS,
    OTHER,
    Coverage,
    DeviceMemory,
    Fragmentation,
    Growing,
    LineBytes,
    Memory,
    MemoryPoint,
    Peak,
    PeakPart,
    RefusedAllocation,
)

__all__ = ["GrownNow", "MemoryFold"]

MOST_LINES: Final = 40  # whose growth is judged, and that are listed
MOST_PARTS: Final = 400
MOST_STEPS: Final = 500
CLOSE: Final = 0.9  # of the peak: a step that came so close stands for it


class GrownNow(NamedTuple):
    """A line, and how many bytes more it holds after the last of two steps than after the first."""

    location: Location
    bytes: int
    first_step: int
    last_step: int


class MemoryFold:
    """`update` with every batch of one process, in order; `get` at any time."""

    def __init__(self) -> None:
        self._events = MemoryEvents()
        self._gc = GcFold()

    def update(self, batch: Batch) -> None:
        self._gc.update(batch)
        self._events.update(batch)

    def get(self, rank: int = 0) -> Memory | None:
        """None: nobody asked for it, or this process has told nothing yet."""
        events = self._events
        if not events.has_any:
            return None
        events.finish_looks()
        growing = self._growing()
        return Memory(
            source="run",
            rank=rank,
            devices=(self._device(),) if events.totals else (),
            growing=tuple(growing),
            fragmentation=self._fragmentation(),
            coverage=self._coverage(),
            headroom=headroom(events.limits, events.steps, growing),
            refused=tuple(self._refused()),
            gc=self._gc.get(),
            python_lines=tuple(self._python_lines()),
            sampled_steps=len(events.looks),
            stack_share=self._stack_share(),
            notes=tuple(self._notes()),
            counts={
                key: events.totals[key]
                for key in ("double_allocations", "lost_nodes", "without_room", "refused")
                if events.totals.get(key)
            },
        )

    def most_grown(self, grown_bytes: float) -> GrownNow | None:
        """The line that holds the most more than when the process was smaller by so much; None:
        no line explains half of that. Asked while it still grows: what it is, only time tells."""
        events = self._events
        end = events.windows[-1] if events.windows else 0
        by_line: dict[Location, list[int]] = {}
        for stack in events.lines:
            by_line.setdefault(events.frames.users_line(stack), []).append(stack)
        for start in reversed(events.windows[:-1]):
            grown = {
                place: sum(events.lines[one].at(end) - events.lines[one].at(start) for one in own)
                for place, own in by_line.items()
            }
            place = max(grown, key=grown.__getitem__, default=None)
            if place is not None and place.file and grown[place] >= grown_bytes / 2:
                return GrownNow(place, grown[place], start, end)
        return None

    # ---- the device ----

    def _device(self) -> DeviceMemory:
        events, totals = self._events, self._events.totals
        return DeviceMemory(
            device="cpu",
            peak=self._peak(),
            points=self._points(),
            steps=tuple(
                (one.step, one.most_bytes, one.end_bytes)
                for one in _thinned(events.steps, MOST_STEPS)
            ),
            allocations=totals.get("allocated", 0),
            frees=totals.get("freed", 0),
            live_bytes=totals.get("live_bytes", 0),
        )

    def _peak(self) -> Peak:
        events = self._events
        most = max(events.steps, key=lambda one: one.most_bytes, default=None)
        whole = events.totals.get("peak_bytes", 0)
        peak = Peak(bytes=max(whole, most.most_bytes if most else 0))
        if most is not None and most.most_bytes >= whole:
            peak = replace(peak, step=most.step)
        look = self._highest()
        if look is None or look.peak_bytes < CLOSE * events.peak_total:
            # It was where nobody looked closely: evaluation, or before training. Lines are known.
            return replace(
                peak,
                step=events.peak_step if events.peak_total else peak.step,
                parts=self._lines_at_peak(),
                parts_bytes=sum(events.peak_parts.values()),
                parts_step=events.peak_step,
            )
        return replace(
            peak,
            at_ms=self._ms(look.peak_ns),
            parts=self._parts(look.peak),
            parts_bytes=look.peak_bytes,
            parts_step=look.step,
        )

    def _lines_at_peak(self) -> tuple[PeakPart, ...]:
        lines = self._events.lines
        return self._parts(
            {
                Group(lines[stack].purpose if stack in lines else OTHER, stack, 0): (size, None)
                for stack, size in self._events.peak_parts.items()
            }
        )

    def _highest(self) -> Look | None:
        return max(self._events.looks, key=lambda look: look.peak_bytes, default=None)

    def _parts(self, groups: Mapping[Group, tuple[int, int | None]]) -> tuple[PeakPart, ...]:
        """By purpose, layer and line of the user's, whatever stack of ours led there; from bytes
        and blocks (None: not counted)."""
        frames, layers = self._events.frames, self._events.layers
        found: dict[tuple[str, Location], list[tuple[int, int | None, int]]] = {}
        for group, (size, blocks) in groups.items():
            place = replace(frames.users_line(group.stack), layer=layers.get(group.layer))
            found.setdefault((group.category, place), []).append((size, blocks, group.stack))
        parts = []
        for (category, place), each in found.items():
            counts = [blocks for _, blocks, _ in each if blocks is not None]
            size, stack = sum(size for size, _, _ in each), max(each, key=lambda one: one[0])[2]
            blocks = sum(counts) if counts else None
            parts.append(PeakPart(category, size, blocks, place, frames.stack(stack)))
        parts.sort(key=lambda part: -part.bytes)
        return tuple(parts[:MOST_PARTS])

    def _points(self) -> tuple[MemoryPoint, ...]:
        """Within the highest look all of them; of the others where they begin, are highest, end."""
        looks, highest = sorted(self._events.looks, key=lambda one: one.step), self._highest()
        if highest is None:
            return ()
        room = MAX_MEMORY_POINTS - 3 * len(looks)
        found: list[MemoryPoint] = []
        for look in looks:
            if look is highest:
                fold = PointFold(len(look.points), room)
                for point in look.points:
                    fold.update(self._ms(point.time_ns), point.bytes, look.step)
                found += fold.get()
            else:
                top = max(look.points, key=lambda point: sum(point.bytes))
                found += [
                    MemoryPoint(self._ms(point.time_ns), look.step, point.bytes)
                    for point in dict.fromkeys((look.points[0], top, look.points[-1]))
                ]
        return tuple(found)

    def _ms(self, time_ns: int) -> float:
        return max(0.0, (time_ns - self._events.first_ns) / 1e6)

    # ---- growth ----

    def _growing(self) -> list[Growing]:
        events = self._events
        if len(events.windows) < 2:
            return []
        transients = {one.step: one.most_bytes - one.end_bytes for one in events.steps}
        found = []
        for stacks, line in self._candidates():
            examined = self._examined(stacks)
            grown = judge_line(line, events.windows, transients, examined)
            if grown is None:
                continue
            examined, stack = examined or Examined(0, 0), stacks[0]
            found.append(
                Growing(
                    verdict=grown.verdict,
                    why=grown.why,
                    bytes_per_step=grown.bytes_per_step,
                    live_bytes=line.bytes[-1],
                    live_blocks=line.blocks[-1],
                    category=line.category,
                    location=events.frames.users_line(stack),
                    stack=events.frames.stack(stack),
                    held_by=examined.held_by,
                    made_by=", ".join(examined.classes[:1]),
                    first_step=grown.first_step,
                    last_step=grown.last_step,
                    steady_share=grown.steady_share,
                    kept_share=examined.kept_share,
                )
            )
        return sorted(found, key=lambda one: (one.verdict != "leak", -one.bytes_per_step))

    def _candidates(self) -> list[tuple[list[int], Line]]:
        """Lines that hold more than they did a quarter into the run, or were found to hold
        garbage; with the numbers of their stacks, the largest first."""
        events = self._events
        by_lines: dict[tuple[Location, ...], list[int]] = {}
        for stack in events.lines:
            by_lines.setdefault(events.frames.users_lines(stack), []).append(stack)
        start, end = events.windows[len(events.windows) // 4], events.windows[-1]
        found = []
        for stacks in by_lines.values():
            grown = sum(events.lines[one].at(end) - events.lines[one].at(start) for one in stacks)
            if grown >= FLOOR_BYTES or any(one in events.garbage for one in stacks):
                stacks.sort(key=lambda one: -events.lines[one].at(end))
                found.append((grown, stacks))
        found.sort(key=lambda one: -one[0])
        return [
            (stacks, Line.together([events.lines[one] for one in stacks]))
            for _, stacks in found[:MOST_LINES]
        ]

    def _examined(self, stacks: Sequence[int]) -> Examined | None:
        garbage, holders = self._events.garbage, self._events.holders
        return examined_of(
            [garbage[one] for one in stacks if one in garbage],
            [holders[one] for one in stacks if one in holders],
        )

    # ---- the rest ----

    def _coverage(self) -> Coverage | None:
        events = self._events
        if not events.points:
            return None
        most = max(events.points, key=lambda point: point.rss_bytes)
        return Coverage(
            rss_bytes=most.rss_bytes,
            tensor_bytes=most.tensor_bytes,
            before_bytes=events.before[0] if events.before else None,
            mapped_bytes=max(0, most.shared_bytes - events.before[1]) if events.before else None,
            free_bytes=most.free_bytes,
            python_bytes=self._python_bytes(),
            shared_bytes=most.shared_bytes,
            pinned_bytes=events.pinned_bytes,
        )

    def _fragmentation(self) -> tuple[Fragmentation, ...]:
        events = self._events
        if events.reserved is None or events.free is None:
            return ()
        reserved = sum(events.reserved)
        free, top = events.free
        reused = max((one.most_bytes - one.end_bytes for one in events.steps), default=0)
        found = Fragmentation(
            "glibc", reserved, reserved - free, free, top, reused_bytes=min(reused, free)
        )
        return (found,)

    def _refused(self) -> list[RefusedAllocation]:
        frames = self._events.frames
        return [
            RefusedAllocation(
                one.bytes, one.step, frames.users_line(one.stack), frames.stack(one.stack)
            )
            for one in self._events.refused
        ]

    def _python_bytes(self) -> int | None:
        lines = self._events.python
        return sum(size for size, _ in lines[-1].values()) if lines else None

    def _python_lines(self) -> list[LineBytes]:
        lines = self._events.python
        if not lines:
            return []
        first = lines[0] if len(lines) > 1 else None
        return [
            LineBytes(
                Location(file, line),
                size,
                blocks,
                None if first is None else size - first.get((file, line), (0, 0))[0],
            )
            for (file, line), (size, blocks) in sorted(
                lines[-1].items(), key=lambda one: -one[1][0]
            )
        ]

    def _stack_share(self) -> float | None:
        totals = self._events.totals
        allocated = totals.get("allocated", 0)
        return totals.get("with_stack", 0) / allocated if allocated else None

    def _notes(self) -> list[str]:
        events, notes = self._events, []
        if why := events.seen.get("why"):
            notes.append(f"Tensors were not seen: {why}.")
        elif not events.looks:
            notes.append("No step was looked at closely: what the peak is made of is not known.")
        if events.broken_looks:
            notes.append(
                f"{events.broken_looks} steps that were looked at are left out: events of theirs"
                " were dropped."
            )
        return notes


def _thinned(rows: Sequence[StepMemory], most: int) -> list[StepMemory]:
    """Every n-th, and the last."""
    stride = -(-len(rows) // most)
    return [*rows[:-1:stride], rows[-1]] if rows else []
