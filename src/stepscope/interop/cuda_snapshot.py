"""Snapshots of torch's caching allocator: `torch.cuda.memory._snapshot()`, as a pickle
(`_dump_snapshot`) or the same as JSON.

`segments` is the state when it was taken, `device_traces` the last things the allocator did on each
device before (at most `max_entries` of `_record_memory_history`; none where that was not called).
Sizes in the traces are what the program asked for; blocks say that and what they really take.
"""

from __future__ import annotations

from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.interop.checked import entries, field, size_of, text_of, whole_number
from stepscope.model.allocations import (
    NO_STACK,
    AllocatorAction,
    AllocatorEvent,
    AllocatorSnapshot,
    Block,
    Segment,
    Stack,
)
from stepscope.model.finding import Location

__all__ = ["is_snapshot", "snapshot_of"]

# A document may hold the same list many times over: what is walked is bounded, not what is stored.
_MAX_ENTRIES: Final = 4_000_000
_MAX_DEVICES: Final = 1024
_MAX_FRAMES: Final = 256
_MAX_LINE: Final = 1 << 31
_IN_USE: Final = {
    "active_allocated": True,
    "active_pending_free": True,  # another stream is not done with it
    "active_awaiting_free": True,
    "inactive": False,
}
# Others (segments, snapshots, requests to free) do not change what is in use.
_ACTIONS: Final = {
    "alloc": AllocatorAction.ALLOCATED,
    "free_completed": AllocatorAction.FREED,
    "free": AllocatorAction.FREED,  # until torch 2.0
    "oom": AllocatorAction.REFUSED,
}


def is_snapshot(document: Any) -> bool:
    return isinstance(document, dict) and "segments" in document


def snapshot_of(document: Any) -> AllocatorSnapshot:
    """FormatError: it is not what torch writes; it says where."""
    reader = _Reader()
    segments = entries(field(document, "segments", "the snapshot"), "segments")
    traces = entries(document.get("device_traces", []), "device_traces")
    if len(traces) > _MAX_DEVICES:
        raise FormatError(f"device_traces has more than {_MAX_DEVICES} devices.")
    return AllocatorSnapshot(
        tuple(reader.segment(one, f"segments[{at}]") for at, one in enumerate(segments)),
        {
            device: found
            for device, trace in enumerate(traces)
            if (found := reader.events(trace, f"device_traces[{device}]"))
        },
    )


class _Reader:
    """Stacks that many entries share are made once."""

    def __init__(self) -> None:
        self._walked = 0
        # By identity: the document keeps its lists alive as long as it is read.
        self._stacks: dict[int, Stack] = {}
        self._frames: dict[int, Location] = {}
        self._places: dict[tuple[str, str, int], Location] = {}

    def segment(self, segment: Any, where: str) -> Segment:
        total = size_of(field(segment, "total_size", where), f"{where}.total_size")
        address = size_of(segment.get("address", 0), f"{where}.address")
        blocks = []
        for at, one in enumerate(entries(field(segment, "blocks", where), f"{where}.blocks")):
            block = self._block(one, address, f"{where}.blocks[{at}]")
            blocks.append(block)
            address = block.address + block.bytes
        if sum(block.bytes for block in blocks) > total:
            raise FormatError(f"{where} has blocks that are larger than it.")
        device = size_of(segment.get("device", 0), f"{where}.device")
        if device >= _MAX_DEVICES:
            raise FormatError(f"{where}.device is {device}, and no machine has so many.")
        return Segment(device, total, tuple(blocks))

    def _block(self, block: Any, next_address: int, where: str) -> Block:
        self._count()
        size = size_of(field(block, "size", where), f"{where}.size")
        state = field(block, "state", where)
        if not isinstance(state, str) or state not in _IN_USE:
            raise FormatError(f"{where}.state is none that is known.")
        history = block.get("history") or [{}]  # until torch 2.0
        first = history[0] if isinstance(history, list) else {}
        old = first if isinstance(first, dict) else {}
        wanted = block.get("requested_size", old.get("real_size", size))
        return Block(
            size_of(block.get("address", next_address), f"{where}.address"),
            size,
            min(size, size_of(wanted, f"{where}.requested_size")),
            _IN_USE[state],
            self._stack(block.get("frames", old.get("frames")), where),
        )

    def events(self, trace: Any, where: str) -> tuple[AllocatorEvent, ...]:
        made = []
        for at, entry in enumerate(entries(trace, where)):
            self._count()
            place = f"{where}[{at}]"
            action = _ACTIONS.get(text_of(field(entry, "action", place), f"{place}.action"))
            if action is not None:
                made.append(self._event(entry, action, place))
        return tuple(made)

    def _event(self, entry: Any, action: AllocatorAction, where: str) -> AllocatorEvent:
        refused = action is AllocatorAction.REFUSED
        address = 0 if refused else size_of(field(entry, "addr", where), f"{where}.addr")
        time_us = entry.get("time_us")
        return AllocatorEvent(
            action,
            address,
            size_of(field(entry, "size", where), f"{where}.size"),
            None if time_us is None else size_of(time_us, f"{where}.time_us"),
            self._stack(entry.get("frames"), where),
        )

    def _stack(self, frames: Any, where: str) -> Stack:
        if not frames:
            return NO_STACK
        known = self._stacks.get(id(frames))
        if known is None:
            listed = entries(frames, f"{where}.frames")[:_MAX_FRAMES]
            try:
                known = tuple([self._place(frame) for frame in listed])
            except (TypeError, KeyError):
                raise _wrong_frame(listed, f"{where}.frames") from None
            self._stacks[id(frames)] = known
        return known

    def _place(self, frame: Any) -> Location:
        """There are millions of frames: what is wrong with one is told by _wrong_frame."""
        known = self._frames.get(id(frame))
        if known is None:
            file, name, line = frame["filename"], frame["name"], frame["line"]
            known_kinds = type(file) is str and type(name) is str and type(line) is int
            if not known_kinds or not -1 <= line < _MAX_LINE:
                raise TypeError
            known = self._places.setdefault((file, name, line), Location(file, line, name))
            self._frames[id(frame)] = known
        return known

    def _count(self) -> None:
        self._walked += 1
        if self._walked > _MAX_ENTRIES:
            raise FormatError(f"it has more than {_MAX_ENTRIES:,} blocks and events.")


def _wrong_frame(frames: list[Any], where: str) -> FormatError:
    try:
        for frame in frames:
            text_of(field(frame, "filename", where), f"{where}.filename")
            text_of(field(frame, "name", where), f"{where}.name")
            whole_number(field(frame, "line", where), f"{where}.line")
    except FormatError as error:
        return error
    return FormatError(f"{where} has something that is no frame.")
