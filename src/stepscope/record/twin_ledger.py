"""The twins of the native ledger and stack table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

__all__ = ["TwinLedger", "TwinStackTable", "line_of"]

MAX_BYTES = 1 << 48
MAX_ADDRESS = (1 << 63) - 1
MAX_STACKS = 1 << 32
KINDS = 256
MAX_DEPTH = 256

Entry = tuple[int, int, int, int, int, int]


class _Totals:
    def __init__(self) -> None:
        self.live_bytes = self.peak_bytes = self.live = 0
        self.allocated = self.freed = self.allocated_bytes = self.freed_bytes = 0

    def book(self, size: int) -> None:
        self.live += 1
        self.allocated += 1
        self.allocated_bytes += size
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def unbook(self, size: int) -> None:
        self.live -= 1
        self.freed += 1
        self.freed_bytes += size
        self.live_bytes -= size


class TwinLedger:
    """See record/protocol.py."""

    def __init__(self, step: Callable[[], int], clock_ns: Callable[[], int]) -> None:
        self._step, self._clock_ns = step, clock_ns
        self._entries: dict[int, Entry] = {}
        self._all = _Totals()
        self._by_kind = [_Totals() for _ in range(KINDS)]
        self._unknown_frees = self._double_allocations = self._bad_sizes = 0

    def alloc(self, address: int, size: int, kind: int = 0, stack: int = 0) -> bool:
        if not 0 <= kind < KINDS:
            raise ValueError("kind must be 0 to 255")
        if not 0 <= stack < MAX_STACKS:
            raise ValueError("stack must be a number that capture() gave")
        if not (0 <= size < MAX_BYTES and 0 < address < MAX_ADDRESS):
            self._bad_sizes += 1
            return False
        previous = self._entries.get(address)
        if previous:
            self._double_allocations += 1
            self._unbook(previous)
        self._entries[address] = (address, size, kind, self._clock_ns(), stack, self._step())
        self._all.book(size)
        self._by_kind[kind].book(size)
        return True

    def _unbook(self, entry: Entry) -> None:
        self._all.unbook(entry[1])
        self._by_kind[entry[2]].unbook(entry[1])

    def free(self, address: int) -> int:
        entry = self._entries.pop(address, None)
        if entry is None:
            self._unknown_frees += 1
            return -1
        self._unbook(entry)
        return entry[1]

    def get(self, address: int) -> Entry | None:
        return self._entries.get(address)

    def live(self) -> list[Entry]:
        return list(self._entries.values())

    def totals(self, kind: int | None = None) -> dict[str, int]:
        if kind is not None and not 0 <= kind < KINDS:
            raise ValueError("kind must be 0 to 255")
        return dict(vars(self._all if kind is None else self._by_kind[kind]))

    def errors(self) -> dict[str, int]:
        return {
            "unknown_frees": self._unknown_frees,
            "double_allocations": self._double_allocations,
            "bad_sizes": self._bad_sizes,
        }


class TwinStackTable:
    """See record/protocol.py: a tree whose nodes are (caller's node, code, instruction)."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, CodeType, int], int] = {}
        self._nodes: list[tuple[int, CodeType, int]] = []

    @property
    def count(self) -> int:
        return len(self._nodes)

    def capture(self, depth: int = 32, skip: int = 0) -> int:
        if not (1 <= depth <= MAX_DEPTH and skip >= 0):
            raise ValueError("depth must be 1 to 256 and skip not negative")
        return self.number_of(sys._getframe(1), depth, skip)

    def number_of(self, frame: FrameType | None, depth: int, skip: int = 0) -> int:
        """The number of the stack whose innermost frame is this one."""
        sites: list[tuple[CodeType, int]] = []
        while frame and len(sites) < depth + skip:
            sites.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        number = 0
        for code, instruction in reversed(sites[skip:]):
            number = self._intern((number, code, instruction))
        return number

    def _intern(self, node: tuple[int, CodeType, int]) -> int:
        number = self._numbers.get(node)
        if number is None:
            self._nodes.append(node)
            number = self._numbers[node] = len(self._nodes)
        return number

    def nodes(self, after: int = 0) -> list[tuple[int, int, str, str, int]]:
        return [
            (number, caller, code.co_filename, code.co_qualname, line_of(code, instruction))
            for number, (caller, code, instruction) in enumerate(self._nodes[after:], after + 1)
        ]

    def resolve(self, number: int) -> list[tuple[str, str, int]]:
        if not 0 <= number <= len(self._nodes):
            raise KeyError("no such stack")
        frames = []
        while number:
            number, code, instruction = self._nodes[number - 1]
            frames.append((code.co_filename, code.co_qualname, line_of(code, instruction)))
        return frames


def line_of(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line if line is not None else -1
    return -1
