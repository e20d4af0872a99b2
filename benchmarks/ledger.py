"""What does booking an allocation cost?

A million allocations and then a million frees (all live at once), and a million pairs of one
allocation and its free, through both cores, against an empty C call in the same loop with the same
arguments. Addresses and sizes are those of a training step on a growing heap: one block after the
other, freed in reverse as a backward pass does. The same in random order shows the worst case.

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

from harness import Result, Target, at_most, paired_ratios, progress, table, turn
from stepscope.record.core import core_reason
from stepscope.record.twin import TwinCore

try:
    from stepscope.record import _native as native
except ImportError as error:
    sys.exit(f"there is no native core to measure: {error}")

EMPTY = "empty call"
KIND, STACK = 1, 7
BASE = 0x7F00_0000_0000
ALIGNMENT = 64  # of a tensor's storage, bytes
LARGEST = 64  # block, in units of the alignment

Call = Callable[..., object]


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


def all_live(alloc: Call, free: Call, blocks: Blocks) -> dict[str, int]:
    """Nanoseconds of the two loops."""
    clock = time.perf_counter_ns
    began = clock()
    for address, size in blocks.allocated:
        alloc(address, size, KIND, STACK)
    allocated = clock()
    for address in blocks.freed:
        free(address)
    return {"allocate": allocated - began, "free": clock() - allocated}


def alternate(alloc: Call, free: Call, blocks: Blocks) -> dict[str, int]:
    """Nanoseconds of the loop over pairs."""
    clock = time.perf_counter_ns
    began = clock()
    for address, size in blocks.allocated:
        alloc(address, size, KIND, STACK)
        free(address)
    return {"alternate": clock() - began}


def calls_of(name: str) -> tuple[Call, Call]:
    """The two calls to measure; ledgers are made anew, so that growing is part of the price."""
    if name == EMPTY:
        return native.noop, native.noop
    ledger = native.Ledger() if name == "native" else TwinCore().Ledger()
    return ledger.alloc, ledger.free


def measure(rounds: int, blocks: Blocks, names: Sequence[str]) -> dict[str, list[dict[str, int]]]:
    """Nanoseconds of every loop, in each round, for each of the named calls."""
    taken: dict[str, list[dict[str, int]]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name in turn(names, number):
            loops = all_live(*calls_of(name), blocks) | alternate(*calls_of(name), blocks)
            taken[name].append(loops)
    gc.enable()
    return taken


Taken = Mapping[str, list[dict[str, int]]]


def medians_ms(taken: Taken) -> dict[str, dict[str, float]]:
    return {
        name: {loop: statistics.median(one[loop] for one in passes) / 1e6 for loop in passes[0]}
        for name, passes in taken.items()
    }


def ratio(taken: Taken, *loops: str) -> float:
    """How many times the empty calls the native calls of these loops take."""
    ours, empty = (
        [sum(one[loop] for loop in loops) for one in taken[name]] for name in ("native", EMPTY)
    )
    return statistics.median(paired_ratios(ours, empty))


def targets_of(taken: Taken) -> list[Target]:
    loops = medians_ms(taken)["native"].items()
    return [
        at_most("alternating pairs, times the empty call", ratio(taken, "alternate"), 3.0),
        at_most("all live, times the empty call", ratio(taken, "allocate", "free"), 8.0),
        *(at_most(f"a million times {loop}, ms", value, 500.0) for loop, value in loops),
    ]


def show(title: str, taken: Taken) -> None:
    rows = [
        (name, *(f"{ms:.0f}" for ms in loops.values())) for name, loops in medians_ms(taken).items()
    ]
    print(table((f"{title}, ms", "allocate", "free", "alternate"), rows))


def main() -> int:
    parser = argparse.ArgumentParser(description="What does booking an allocation cost?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1_000_000)
    arguments = parser.parse_args()

    taken = measure(arguments.rounds, heap(arguments.count), (EMPTY, "native", "twin"))
    worst = measure(arguments.rounds, scattered(arguments.count), (EMPTY, "native"))
    show("heap order", taken)
    show("random order", worst)
    figures = {
        "core": core_reason,
        "count": arguments.count,
        "ms": medians_ms(taken),
        "alternating_ratio": ratio(taken, "alternate"),
        "all_live_ratio": ratio(taken, "allocate", "free"),
        "random_order": {
            "ms": medians_ms(worst),
            "alternating_ratio": ratio(worst, "alternate"),
            "all_live_ratio": ratio(worst, "allocate", "free"),
        },
    }
    print(Result("ledger", figures, targets_of(taken)).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
