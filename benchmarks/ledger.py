"""What does booking an allocation cost?

A million allocations and then a million frees (all live at once) through the public calls of
MemoryProfiler, statistics and event recording included, without and with stack traces, against an
empty C call in the same loop with the same arguments. The same in pairs of one allocation and its
free. Addresses and sizes are those of a training step on a growing heap: one block after the other,
freed in reverse as a backward pass does. The same in random order shows the worst case. All loops
run ten Python frames deep.

    python benchmarks/ledger.py
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import Result, Target, at_most, paired_ratios, progress, table, turn
from stepscope import MemoryProfiler
from stepscope.record.core import core_reason

try:
    from stepscope.record import _native as native
except ImportError as error:
    sys.exit(f"there is no native core to measure: {error}")

EMPTY, PLAIN, STACKS = "empty call", "profiler", "with stacks"
KIND = "CPU"
BASE = 0x7F00_0000_0000
ALIGNMENT = 64  # of a tensor's storage, bytes
LARGEST = 64  # block, in units of the alignment
FRAMES = 10

Call = Callable[..., object]
Pass = dict[str, float]  # nanoseconds of each loop
Taken = Mapping[str, list[Pass]]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of memory: (address, size) as they are allocated, addresses as they are freed."""

    allocated: Sequence[tuple[int, int]]
    freed: Sequence[int]


def heap(count: int) -> Blocks:
    """One block after the other, freed in reverse."""
    chance = random.Random(1337)
    sizes = [ALIGNMENT * chance.randint(1, LARGEST) for _ in range(count)]
    addresses = list(itertools.accumulate(sizes[:-1], initial=BASE))
    return _blocks(addresses, sizes, addresses[::-1])


def scattered(count: int) -> Blocks:
    """The same blocks in random order, freed in another random order."""
    chance = random.Random(1337)
    blocks = list(heap(count).allocated)
    chance.shuffle(blocks)
    freed = [address for address, _ in blocks]
    chance.shuffle(freed)
    return _blocks([address for address, _ in blocks], [size for _, size in blocks], freed)


def _blocks(addresses: list[int], sizes: list[int], freed: list[int]) -> Blocks:
    # Through arrays: the int objects then lie in memory in the order of the loop, so that the empty
    # call is as cheap as it can be.
    ordered = zip(array("Q", addresses).tolist(), array("Q", sizes).tolist(), strict=True)
    return Blocks(list(ordered), array("Q", freed).tolist())


def all_live(alloc: Call, free: Call, blocks: Blocks) -> Pass:
    clock = time.perf_counter_ns
    began = clock()
    for address, size in blocks.allocated:
        alloc(address, size, KIND)
    allocated = clock()
    for address in blocks.freed:
        free(address)
    return {"allocate": allocated - began, "free": clock() - allocated}


def alternate(alloc: Call, free: Call, blocks: Blocks) -> Pass:
    clock = time.perf_counter_ns
    began = clock()
    for address, size in blocks.allocated:
        alloc(address, size, KIND)
        free(address)
    return {"alternate": clock() - began}


def deep(frames: int, loop: Callable[..., Pass], *arguments: object) -> Pass:
    """The loop, with that many frames of Python below it at least."""
    return deep(frames - 1, loop, *arguments) if frames > 1 else loop(*arguments)


def run_loop(name: str, loop: Callable[..., Pass], blocks: Blocks) -> Pass:
    """A profiler is made anew each time, so that growing is part of the price. Writing out what the
    loop left behind is told by itself."""
    if name == EMPTY:
        return deep(FRAMES, loop, native.noop, native.noop, blocks)
    with MemoryProfiler() as profiler:
        profiler.capture_stack_traces = name == STACKS
        taken = deep(FRAMES, loop, profiler.track_allocation, profiler.track_deallocation, blocks)
        began = time.perf_counter_ns()
        native.flush()
        after = {f"flush after {'+'.join(taken)}": time.perf_counter_ns() - began}
        found = profiler.get_statistics()
        assert found.allocation_count == found.deallocation_count == len(blocks.freed)
        assert found.dropped_events == 0
    return taken | after


def measure(rounds: int, blocks: Blocks, names: Sequence[str]) -> Taken:
    """Nanoseconds of every loop, in each round, for each of the named calls."""
    taken: dict[str, list[Pass]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name in turn(names, number):
            taken[name].append(run_loop(name, all_live, blocks) | run_loop(name, alternate, blocks))
    gc.enable()
    return taken


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def bytes_for_each_live(blocks: Blocks) -> float:
    """What the process grows by for each live allocation, its events written to where they stay."""
    gc.collect()
    with MemoryProfiler() as profiler:
        profiler.track_allocation(1, 1, KIND)
        native.flush()
        before = rss_bytes()
        for address, size in blocks.allocated:
            profiler.track_allocation(address, size, KIND)
        native.flush()
        return (rss_bytes() - before) / len(blocks.allocated)


def medians_ms(taken: Taken) -> dict[str, dict[str, float]]:
    return {
        name: {loop: statistics.median(one[loop] for one in passes) / 1e6 for loop in passes[0]}
        for name, passes in taken.items()
    }


def ratio(taken: Taken, name: str, *loops: str) -> float:
    """How many times the empty calls of these loops it takes."""
    ours, empty = ([sum(one[loop] for loop in loops) for one in taken[of]] for of in (name, EMPTY))
    return statistics.median(paired_ratios(ours, empty))


def total_ms(taken: Taken, name: str) -> float:
    """Of a million allocations and a million frees, the typical round."""
    return statistics.median(one["allocate"] + one["free"] for one in taken[name]) / 1e6


def targets_of(taken: Taken, live_bytes: float) -> list[Target]:
    both = ("allocate", "free")
    return [
        at_most("a million of each, ms", total_ms(taken, PLAIN), 250.0),
        at_most("a million of each, times the empty call", ratio(taken, PLAIN, *both), 4.0),
        at_most("with 10 frames, times the empty call", ratio(taken, STACKS, *both), 6.0),
        at_most("in pairs, times the empty call", ratio(taken, PLAIN, "alternate"), 4.0),
        at_most("bytes of memory for each live allocation", live_bytes, 64.0),
    ]


def show(title: str, taken: Taken) -> None:
    medians = medians_ms(taken)
    rows = [
        (name, *(f"{loops[loop]:.0f}" for loop in ("allocate", "free", "alternate")))
        for name, loops in medians.items()
    ]
    print(table((f"{title}, ms", "allocate", "free", "alternate"), rows))


def figures_of(taken: Taken) -> dict[str, object]:
    return {
        "ms": medians_ms(taken),
        "total_ms": total_ms(taken, PLAIN),
        "all_live_ratio": ratio(taken, PLAIN, "allocate", "free"),
        "alternating_ratio": ratio(taken, PLAIN, "alternate"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What does booking an allocation cost?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1_000_000)
    arguments = parser.parse_args()

    blocks = heap(arguments.count)
    live_bytes = bytes_for_each_live(blocks)
    measure(1, blocks, (EMPTY, PLAIN))  # the first touch of the machine's memory is dearer
    taken = measure(arguments.rounds, blocks, (EMPTY, PLAIN, STACKS))
    worst = measure(arguments.rounds, scattered(arguments.count), (EMPTY, PLAIN))
    show("heap order", taken)
    show("random order", worst)
    figures = {
        "core": core_reason,
        "count": arguments.count,
        **figures_of(taken),
        "stacks_ratio": ratio(taken, STACKS, "allocate", "free"),
        "bytes_for_each_live": live_bytes,
        "random_order": figures_of(worst),
    }
    print(Result("ledger", figures, targets_of(taken, live_bytes)).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
