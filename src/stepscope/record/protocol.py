"""What a recording core can do. Both cores pass the same contract tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Core",
    "Ledger",
    "Node",
    "Operation",
    "StackSampler",
    "StackTable",
    "Tally",
    "TensorHeap",
    "Tracker",
]

# (number, number of its caller, file, function, line). Caller 0: outermost. A code object that was
# freed before anybody could look has no file, the function "?" and line 0.
Node: TypeAlias = tuple[int, int, str, str, int]


class Ledger(Protocol):
    """What is allocated now, with running totals and peaks."""

    def alloc(self, address: int, size: int, kind: int = 0, stack: int = 0, /) -> bool:
        """Book an allocation; False: refused and counted (negative or absurd size)."""

    def free(self, address: int, /) -> int:
        """Book a release; the size that was freed, or -1 for an unknown address (counted)."""

    def get(self, address: int, /) -> tuple[int, int, int, int, int, int] | None:
        """(address, size, kind, time_ns, stack, step) of a live allocation."""

    def live(self) -> list[tuple[int, int, int, int, int, int]]:
        """All live allocations, in no order."""

    def totals(self, kind: int | None = None, /) -> dict[str, int]:
        """live_bytes, peak_bytes, live, allocated, freed, allocated_bytes, freed_bytes."""

    def errors(self) -> dict[str, int]:
        """unknown_frees, double_allocations, bad_sizes: booked wrongly, totals untouched."""


class StackTable(Protocol):
    """Stacks as numbers, by (code, instruction)."""

    @property
    def count(self) -> int:
        """How many distinct (caller, code, instruction) there are."""

    def capture(self, depth: int = 32, skip: int = 0, /) -> int:
        """The number of the caller's stack; 0 for an empty one."""

    def resolve(self, number: int, /) -> list[tuple[str, str, int]]:
        """[(file, function, line)], innermost first."""

    def nodes(self, after: int = 0, /) -> list[Node]:
        """What the numbers after that one mean, callers before their callees."""


class Tracker(Protocol):
    """What a program says about its memory: booked, and recorded as ALLOCATION events.

    The first 255 types of memory are told apart; all others are one more, "(other types)". Wrong
    bookings are counted and listed and leave the totals right. Events wait, up to a million, until
    the writer (`attach`) or `take` takes them; who books when there is no room waits for the
    writer, or calls `full`.
    """

    enabled: bool
    stack_depth: int  # frames to take with each allocation; 0: none

    @property
    def stacks(self) -> StackTable: ...
    @property
    def waiting(self) -> int:
        """How many events wait to be taken."""

    def track_allocation(self, address: int, size_bytes: int, allocation_type: str) -> None: ...
    def track_deallocation(self, address: int, size_bytes: int | None = None) -> None: ...
    def track_reallocation(
        self,
        old_address: int,
        new_address: int,
        size_bytes: int,
        allocation_type: str | None = None,
    ) -> None: ...
    def track_snapshot(self) -> None: ...

    def totals(self, allocation_type: str | None = None, /) -> dict[str, int]:
        """As of a Ledger; of a type that was never seen all are 0."""

    def kinds(self) -> list[str]:
        """The types that were seen, by their number."""

    def errors(self) -> dict[str, int]:
        """unknown_frees, size_mismatches, double_allocations, bad_sizes; dropped_events."""

    def wrong(self) -> list[tuple[str, int, int, int, int, int]]:
        """(reason, address, size, kind, time_ns, step) of the last 256 wrong bookings, oldest
        first; kind and size -1: not known."""

    def live(self, before_ns: int, /) -> list[tuple[int, int, int, int, int, int]]:
        """What is allocated and was before then, as Ledger.get gives it; in no order."""

    def take(self) -> bytes:
        """An EVENTS frame of what waits, or a part of it; b"": nothing does."""

    def attach(self) -> None:
        """Let the writer take what waits, from now on."""

    def detach(self) -> None:
        """Keep what waits until somebody takes it."""

    def call(
        self,
        first: Callable[[], object] | None = None,
        each: Callable[[], object] | None = None,
        full: Callable[[], object] | None = None,
    ) -> None:
        """Call these before the next event, after each one, and when there is no room."""


class Operation(Protocol):
    """A block of the program, and the totals of its runs that have ended."""

    def run(self) -> AbstractContextManager[Any]:
        """For one run; runs may nest, overlap and cross threads."""

    def totals(self) -> dict[str, int]:
        """calls, failed, running, wall_ns, user_ns, system_ns, shortest_ns, longest_ns, last_ns,
        first_start_ns, last_end_ns."""


class Tally(Protocol):
    """Events counted by layer and kind, exactly and at any rate, in bounded memory.

    Of each layer and kind the first `keep` are recorded too, then every 2nd, from twice as many on
    every 4th, and so on. 4,096 layers and 64 kinds are told apart; all others are one more,
    "(other layers)", "(other types)". A kind is a str, or something whose `value` is one.

    Negative or absurd amounts: ValueError; wrong types: TypeError.
    """

    enabled: bool  # at first not: what is said is not heard, nor looked at

    def add(self, layer: str, kind: object, duration_ns: int, bytes: int, held: int = 0, /) -> None:
        """held: by how many bytes what is in use changes; no layer gives back more than it has."""

    def record_event(
        self, layer_id: str, event_type: object, duration_ms: float, memory_bytes: int = 0
    ) -> None:
        """The bytes of the kind that `holds` are in use until one that `releases` has as many."""

    def totals(self) -> list[tuple[str, str, int, int, int, int, int]]:
        """(layer, kind, count, ns, bytes, first_ns, last_ns); layers as they were seen first."""

    def in_use(self) -> tuple[int, int]:
        """Bytes now, and at most."""

    def clear(self, number: int, /) -> None:
        """Begin anew; events carry this number from now on."""


class StackSampler(Protocol):
    """Looks at the Python threads of this process at irregular intervals, from a thread of its own.

    Each look at a thread is a sample event: arg is the number of its stack, value the ns since the
    event before (what the sample stands for), track the thread, text the name of the innermost
    span that was open on it. Flag NATIVE: it ran, or waited in, C that Python code called (a call,
    an operator, an import, …), as told by the instruction that the innermost frame stands at; what
    that gets wrong is listed in native/opcodes.h. Looks at a thread that did not run in between may
    be told as one, at most every 50 ms.
    """

    def start(
        self,
        interval_ns: int,
        threads: Sequence[int] = (),
        skip: Sequence[int] = (),
        /,
    ) -> None:
        """Sample every 0.5 to 1.5 intervals. One sampler a process: RuntimeError if one runs.

        `threads`: only these, by the kernel's ids; none given: all. `skip`: never these.
        """

    def stop(self) -> None:
        """End the thread; harmless when none runs. Python's own end does it too."""

    def wait(self) -> bool:
        """Until there is something new to resolve, at most every 50 ms; False: it was stopped.

        A code object that ends before somebody resolves is lost, so one thread should wait. That
        thread is not sampled.
        """

    def resolve(self) -> list[Node]:
        """What the numbers that are new since the last call mean, callers before their callees."""

    def counters(self) -> dict[str, int]:
        """taken, torn (thrown away), late (looks that had to wait more than an interval for a CPU
        or the GIL: they favour what lets go of it), truncated (outer or inner frames missing),
        nodes, lost_nodes (freed before they could be told) and cpu_ns of its thread."""


class TensorHeap(Protocol):
    """The blocks of torch's CPU allocator, seen where it calls malloc; those of less than 64 bytes
    are passed over. One a process.

    Labels say what a block is for: 0 not known, 1 to 7 by the order of model/memory.py's
    CATEGORIES, 8 taken by a library for itself. Stacks are numbers as the StackSampler has them.
    """

    def watch(self, library: str, holds_tensors: bool, /) -> int:
        """Have a loaded library's calls go through us: how many of its imports changed; 0: it is
        not loaded, or known already; -1: its table cannot be written. Where it does not hold
        tensors, blocks of 4 KiB and more are its own, and smaller ones are passed over."""

    def stop(self) -> None:
        """Put everything back as it was."""

    def book(self, on: bool, /) -> None: ...
    def stacks(self, on: bool, /) -> None: ...
    def record(self, on: bool, /) -> None:
        """An event for each block that comes and goes (model/names.py)."""

    def layer(self, number: int, /) -> None:
        """The layer that this thread is at work in, for the events; 0: none."""

    def label(self, address: int, label: int, /) -> bool:
        """False: there is no such block."""

    def end_step(self) -> tuple[int, int]:
        """(most bytes since the last call, bytes now)."""

    def mark(self) -> tuple[int, int]:
        """The same with a count of its own: who asks for one does not disturb the other."""

    def held(self) -> list[tuple[int, int, int, int]]:
        """[(stack, label, bytes, blocks)] of what is live."""

    def tell_held(self) -> list[tuple[int, int, int, int]]:
        """The same of what has changed since the last call, and an event for each."""

    def tell_peak(self) -> int:
        """An event for each stack that held something when most was live, if that was since the
        last call; how many there are."""

    def blocks(self, stack: int, /) -> list[tuple[int, int, int]]:
        """[(address, bytes, step)] that this stack allocated and that are live."""

    def find(self, address: int, /) -> tuple[int, int, int, int] | None:
        """(bytes, label, stack, step) of a live block."""

    def resolve(self) -> list[Node]:
        """What the numbers that are new since the last call mean."""

    def cost_ns(self, rounds: int, /) -> float:
        """What booking a block and giving it back adds, measured now, stacks as they are set."""

    def totals(self) -> dict[str, int]: ...
    def malloc_info(self) -> tuple[int, int, int, int] | None:
        """Bytes of libc's allocator: reserved, free, free at the top, in mappings of their own."""


class Core(Protocol):
    """The calls of docs/architecture.md, "The recorder"."""

    name: str
    Nothing: type[Any]  # its objects can be called, entered and left, and do nothing
    nothing: Any  # one of them
    Ledger: Callable[[], Ledger]
    StackTable: Callable[[], StackTable]
    Operation: Callable[[int, int, int], Operation]  # name, identity, how many runs to keep
    StackSampler: Callable[[int], StackSampler]
    Tally: Callable[
        [int, str, str, int], Tally
    ]  # name, what holds, what releases, how many to keep
    Tracker: Callable[[int, Sequence[int]], Tracker]  # its number, and ids of names.TRACKED
    # Names for alloc, free, refused, label, held, peak. None: this core cannot see tensors.
    TensorHeap: Callable[[int, int, int, int, int, int], TensorHeap] | None

    def now_ns(self) -> int: ...
    def intern(self, text: str, /) -> int: ...
    def begin(self, name: int, arg: int = 0, value: float = 0.0, /) -> int: ...
    def end(self, token: int, failed: int = 0, arg: int | None = None, /) -> None: ...
    def is_open(self, name: int, /) -> bool: ...
    def span(
        self, name: int, arg: int = 0, value: float = 0.0, /
    ) -> AbstractContextManager[Any]: ...
    def complete(
        self,
        name: int,
        time_ns: int,
        duration_ns: int,
        arg: int = 0,
        value: float = 0.0,
        track: int = 0,
        /,
    ) -> None: ...
    def sample(
        self,
        name: int,
        value: float,
        arg: int = 0,
        track: int = 0,
        text: int = 0,
        flags: int = 0,
        /,
    ) -> None: ...
    def innermost_open(self, track: int, /) -> int: ...
    def mark(self, name: int, arg: int = 0, text: int = 0, /) -> None: ...
    def set_step(self, number: int, /) -> None:
        """The step that events carry from now on. In step 0 CPU clocks are read at all ends of
        spans, later where the last reading is old and in short bursts (native/log.c)."""

    def gc_callback(self, name: int, /) -> Callable[[str, dict[str, int]], None]: ...
    def drain(self) -> bytes: ...
    def open(
        self,
        base: str,
        header: bytes,
        status: str = "",
        own: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0),
        /,
    ) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def after_fork(self) -> None: ...
    def position(self) -> tuple[int, int, int, int, int]: ...
    def discard(self, position: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0), /) -> None: ...
    def set_pace(
        self, flush_ns: int = 1_000_000_000, clock_ns: int = 10_000_000, /
    ) -> tuple[int, int]:
        """How often what waits is written where no batch is full, and how far apart bursts of CPU
        clock readings are. What they were before."""

    def watch_process(self, rss: int, cpu: int, interval_ns: int, /) -> None:
        """While the writer is open: what this process holds, and its CPU time; 0: no more."""

    def watch_memory(self, rss: int, peak: int, /) -> bool: ...
    def cpu_now(self) -> tuple[int, int]: ...
    def call_at(self, callback: Callable[[], int] | None, at_ns: int, /) -> None: ...
