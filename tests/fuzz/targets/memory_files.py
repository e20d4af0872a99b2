"""Memory files of torch: snapshots as pickles and JSON, raw timelines, packed or not."""

from __future__ import annotations

import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console

from stepscope.advise.fragmentation import advise_fragmentation
from stepscope.analyze.memory_files import memory_of_snapshot, memory_of_timeline
from stepscope.interop.load import load_memory_file
from stepscope.interop.perfetto import memory_to_perfetto
from stepscope.interop.tables import memory_to_csv
from stepscope.model.allocations import AllocatorSnapshot
from stepscope.report.memory import render_memory
from tests.fuzz.damage import damaged_bytes, damaged_document, damaged_json, json_text
from tests.fuzz.harness import Feed, Target
from tests.unit.interop.made_snapshot import made_snapshot

TIMELINE = [
    [-1, 1, 4096, 0], [-1, 1, 512, 2], [5, 2, 40, 7], [6, 2, 100, 4], [7, 3, -100, 4],
    [7, 3, 100, 5], [9, 4, -40, 7], [11, 4, -100, 5], [12, 2, 1 << 30, 6],
]  # fmt: skip


def snapshot_pickle(folder: Path) -> Feed:
    document = made_snapshot()

    def content(random: Random) -> bytes:
        if random.random() < 0.5:
            return _pickled(damaged_document(document, random), random)
        return damaged_bytes(_pickled(document, random), random)

    return _feed(folder, content)


def snapshot_json(folder: Path) -> Feed:
    document = made_snapshot()
    return _feed(folder, lambda random: _packed(damaged_json(document, random), random))


def timeline(folder: Path) -> Feed:
    def content(random: Random) -> bytes:
        if random.random() < 0.2:
            return _packed(damaged_bytes(json_text(TIMELINE), random), random)
        return _packed(damaged_json(TIMELINE, random), random)

    return _feed(folder, content)


def _pickled(document: Any, random: Random) -> bytes:
    return pickle.dumps(document, random.choice((2, 3, 4, 5)))


def _packed(content: bytes, random: Random) -> bytes:
    """Now and then as gzip, and now and then damaged after that."""
    if random.random() < 0.7:
        return content
    packed = gzip.compress(content, 1, mtime=0)
    return damaged_bytes(packed, random) if random.random() < 0.5 else packed


def _feed(folder: Path, content: Callable[[Random], bytes]) -> Feed:
    path = folder / "memory.file"

    def feed(random: Random) -> None:
        """Read, analyse, show and export it, as `stepscope memory FILE` does."""
        path.write_bytes(content(random))
        loaded = load_memory_file(path)
        if isinstance(loaded, AllocatorSnapshot):
            memory = advise_fragmentation(memory_of_snapshot(loaded))
        else:
            memory = advise_fragmentation(memory_of_timeline(loaded))
        render_memory(memory, path.name, Console(file=io.StringIO(), width=120))
        memory_to_csv(memory)
        memory_to_perfetto(memory)

    return feed


TARGETS = [
    Target("snapshot-pickle", snapshot_pickle),
    Target("snapshot-json", snapshot_json),
    Target("timeline", timeline),
]
