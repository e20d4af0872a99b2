"""Memory as a run or a file might have it, made up: nothing in it was measured."""

from __future__ import annotations

from stepscope.model.finding import Location
from stepscope.model.memory import (
    Coverage,
    DeviceMemory,
    Fragmentation,
    GcGeneration,
    GcUse,
    Growing,
    Headroom,
    LineBytes,
    Memory,
    MemoryPoint,
    Peak,
    PeakPart,
    RefusedAllocation,
)

FILE = "train.py"
MB = 1_000_000


def made_memory(file: str = FILE, layer: str = "encoder.0") -> Memory:
    """Every field has something in it."""
    place = Location(file, 12, "forward", layer)
    stack = (place, Location(file, 30, "train"), Location(file, 44, "<module>"))
    return Memory(
        source="run",
        rank=1,
        devices=(_cpu(place, stack), _gpu(place, stack)),
        growing=(
            Growing(
                "leak", "It grew with every step and a collection freed nothing of it.",
                1.5 * MB, 300 * MB, 200, "activation", Location(file, 17, "train"), stack,
                (f"list `losses` of {file}:17", "frame of train"), "", 3, 203,
            ),
            Growing(
                "cycle garbage", "A collection frees it.", 0.5 * MB, 20 * MB, 12, "other",
                Location(file, 9, "__init__"), (), ("dict of Node",), "Node", 1, 203,
            ),
            Growing(
                "cache", "It stopped growing at step 9.", 0.0, 5 * MB, 1, "other", Location(),
            ),
        ),
        fragmentation=(
            Fragmentation("glibc", 900 * MB, 600 * MB, 300 * MB, None),
            Fragmentation("cuda:0", 4000 * MB, 2000 * MB, 2000 * MB, 400 * MB, 1500 * MB, "Do it."),
        ),
        coverage=Coverage(
            3100 * MB, 2200 * MB, 600 * MB, 50 * MB, 50 * MB, 40 * MB, 8 * MB, 16 * MB
        ),
        headroom=Headroom(8000 * MB, "cgroup", 3100 * MB, 1.5 * MB, (2900.0, 3267.0, 3800.0)),
        refused=(RefusedAllocation(512 * MB, 203, place, stack),),
        gc=GcUse(
            (GcGeneration(0, 400, 12.0, 0.4, 9000, 0), GcGeneration(2, 4, 320.0, 90.0, 120, 1)),
            0.012,
            ("A full collection runs in every 50th step.",),
        ),
        python_lines=(
            LineBytes(Location(file, 5, "<module>"), 4 * MB, 900, 2 * MB),
            LineBytes(Location(file, 9, "load"), 1 * MB, 30, -2 * MB),  # it holds less in the end
        ),
        sampled_steps=4,
        stack_share=0.5,
        notes=("Stacks were taken on every second step.",),
        counts={"wrong_frees": 2},
    )  # fmt: skip


def _cpu(place: Location, stack: tuple[Location, ...]) -> DeviceMemory:
    parts = (
        PeakPart("activation", 1200 * MB, 40, place, stack),
        PeakPart("parameter", 400 * MB, 60, Location(layer=place.layer)),
        PeakPart("activation", 300 * MB, 2, Location(place.file, 14, "forward", "head"), stack[1:]),
        PeakPart("temporary", 100 * MB, 3),
    )
    peak = Peak(2200 * MB, 150, 9000.0, parts, 2000 * MB, 100)
    points = tuple(
        MemoryPoint(
            1000.0 * step + 10 * at,
            step,
            (400 * MB, 0, 5 * MB * at, 100 * MB * (10 - abs(10 - at)), 0, 0, 0),
        )
        for step in (1, 2, 50, 100)
        for at in range(20)
    )
    steps = tuple((step, (1500 + 3 * step) * MB, (900 + 3 * step) * MB) for step in range(1, 204))
    return DeviceMemory("cpu", peak, points, steps, 50_000, 49_000, 1000 * MB)


def _gpu(place: Location, stack: tuple[Location, ...]) -> DeviceMemory:
    return DeviceMemory("cuda:0", Peak(700 * MB), live_bytes=100 * MB)
