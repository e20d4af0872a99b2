"""Who holds what, what limits memory, what is suspected, and what a GPU's allocator tells."""

from __future__ import annotations

import gc
import json
import resource
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.collect.cuda_memory import CudaHistory
from stepscope.collect.holders import Holders, chain_of
from stepscope.collect.labels import GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER, Labels
from stepscope.collect.limits import OwnLimits
from stepscope.collect.python_heap import PythonLines
from stepscope.collect.sampled import Roots
from stepscope.collect.suspects import Suspects
from stepscope.model import names
from stepscope.record.core import core
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read

KIB = 1024
NEEDS_HEAP = pytest.mark.skipif(core.TensorHeap is None, reason="not the native core")
kept_for_good: list[Any] = []


# ---- who holds what ----


class Box:
    def __init__(self, thing: Any) -> None:
        self.thing = thing


def test_a_chain_of_holders_ends_with_a_variable() -> None:
    box = [{"a": torch.zeros(3)}]
    found = chain_of(next(iter(box[0].values())), [])
    assert found == [
        "key 'a' of a dict of 1",
        "item 0 of a list of 1",
        "local variable 'box' of test_a_chain_of_holders_ends_with_a_variable()",
    ]


def test_a_global_variable_and_an_attribute_are_named() -> None:
    kept_for_good.append(Box(torch.zeros(3)))
    try:
        found = chain_of(kept_for_good[0].thing, [])
    finally:
        kept_for_good.clear()
    assert found[0] == f"attribute 'thing' of a {__name__}.Box"
    assert found[-1] == f"global variable 'kept_for_good' of {__name__}"


@pytest.fixture
def heap() -> Iterator[Any]:
    assert core.TensorHeap is not None
    made = core.TensorHeap(*(core.intern(f"memory.{at}") for at in range(6)))
    assert made.watch("libc10.so", True) > 0
    made.stacks(True)
    made.book(True)
    yield made
    made.stop()


class Cycle:
    def __init__(self) -> None:
        self.tensor = torch.zeros(KIB)
        self.me = self


def told(read: Read, name: str) -> dict[int, dict[str, Any]]:
    return {row.arg: json.loads(row.text) for row in read(name)}


@NEEDS_HEAP
def test_what_a_collection_frees_is_told_with_its_class(
    recorder: Recorder, read: Read, heap: Any
) -> None:
    enabled = gc.isenabled()
    gc.disable()
    try:
        known = {row[0] for row in heap.held()}
        for _ in range(3):
            Cycle()
        (stack,) = {row[0] for row in heap.held()} - known
        before = gc.get_debug(), list(gc.garbage)
        Holders(recorder, heap).examine([stack], 9)
        assert (gc.get_debug(), gc.garbage) == before
    finally:
        if enabled:
            gc.enable()
    found = told(read, names.MEMORY_GARBAGE)[stack]
    assert (found["before"], found["freed"], found["step"]) == (3 * 4 * KIB, 3 * 4 * KIB, 9)
    assert found["classes"][0] == f"{__name__}.Cycle"
    assert not read(names.MEMORY_HOLDER)  # nobody is left


class Dead:
    pass


@NEEDS_HEAP
def test_proxies_of_what_is_gone_do_no_harm(recorder: Recorder, read: Read, heap: Any) -> None:
    known = {row[0] for row in heap.held()}
    kept = [torch.zeros(KIB)]
    (stack,) = {row[0] for row in heap.held()} - known
    cycle: list[Any] = [weakref.proxy(Dead())]
    cycle.append(cycle)
    del cycle
    Holders(recorder, heap).examine([stack], 9)
    assert told(read, names.MEMORY_HOLDER)[stack]["held_by"]
    del kept


@NEEDS_HEAP
def test_what_no_collection_frees_is_told_with_its_holder(
    recorder: Recorder, read: Read, heap: Any
) -> None:
    known = {row[0] for row in heap.held()}
    kept = [torch.zeros(KIB) for _ in range(3)]
    (stack,) = {row[0] for row in heap.held()} - known
    Holders(recorder, heap).examine([stack], 9)
    rows = read()
    found = {row.name: json.loads(row.text) for row in rows if row.name.startswith("memory.")}
    assert found[names.MEMORY_GARBAGE]["freed"] == 0
    assert found[names.MEMORY_HOLDER]["held_by"][0].endswith(" of a list of 3")
    assert "'kept'" in found[names.MEMORY_HOLDER]["held_by"][-1]
    assert [row.name for row in rows].count(names.OWN_LOOK) == 1  # it took time, and says so
    del kept


@NEEDS_HEAP
def test_what_only_a_graph_holds_leads_to_the_tensor_that_has_the_graph(
    recorder: Recorder, read: Read, heap: Any
) -> None:
    recorder.core.set_step(0)
    core.set_step(1)
    weight = torch.ones(KIB, requires_grad=True)
    before = {row[0] for row in heap.held()}
    losses = [(weight * torch.rand(KIB)).sum() for _ in range(3)]
    core.set_step(20)
    new = [row for row in heap.held() if row[0] not in before]
    stack = max(new, key=lambda row: row[2])[0]
    Holders(recorder, heap).examine([stack], 20)
    core.set_step(0)
    chain = told(read, names.MEMORY_HOLDER)[stack]["held_by"]
    assert chain[0] == "the autograd graph of a tensor"
    assert "'losses'" in chain[-1]
    del losses


# ---- labels ----


@NEEDS_HEAP
def test_parameters_gradients_state_and_input_are_known_by_their_storages(heap: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(4, 8)
    model(batch).sum().backward()
    optimizer.step()
    roots = Roots()
    roots.add(model)
    labels = Labels(roots)
    labels.tell(heap, [optimizer])
    labels.tell_input(heap, (batch, {"more": [torch.zeros(2)]}))

    def label(tensor: torch.Tensor) -> int:
        return int(heap.find(tensor.untyped_storage().data_ptr())[1])

    weight = model[0].weight
    assert isinstance(weight, torch.nn.Parameter)
    assert weight.grad is not None
    assert label(weight) == PARAMETER
    assert label(model[1].running_mean) == PARAMETER
    assert label(weight.grad) == GRADIENT
    assert label(optimizer.state[weight]["exp_avg"]) == OPTIMIZER_STATE
    assert label(batch) == INPUT


# ---- suspects ----


def windows(*sizes: int, stack: int = 5, label: int = 0) -> list[list[tuple[int, int, int, int]]]:
    return [[(stack, label, size * KIB, 1)] for size in sizes]


def looked(rows: list[list[tuple[int, int, int, int]]]) -> list[list[int]]:
    suspects = Suspects()
    return [suspects.look(row, step) for step, row in enumerate(rows, 5)]


def test_a_line_that_grows_with_every_window_is_suspected_once() -> None:
    found = looked(windows(*range(0, 150, 10)))
    assert found.index([5]) == Suspects.WINDOWS
    assert sum(map(len, found)) == 1  # again only at four times the steps


@pytest.mark.parametrize(
    "sizes",
    [range(100, 0, -5), [50] * 20, [50 * (step % 2) for step in range(20)], range(20)],
    ids=["shrinks", "stays", "comes and goes", "too little"],
)
def test_others_are_not_suspected(sizes: Any) -> None:
    assert not any(looked(windows(*sizes)))


def test_a_line_that_grows_until_garbage_is_collected_is_suspected_while_it_is_high() -> None:
    # 0 10 20 30 40 KiB, twice: it has grown in 6 windows at the second 20, and by enough at 40.
    found = looked(windows(*(10 * (step % 5) for step in range(10))))
    assert found == [[]] * 9 + [[5]]


def test_a_line_that_came_and_went_is_suspected_once_it_grows_without_falling() -> None:
    often = [50 * (step % 2) for step in range(20)]
    found = looked(windows(*often, *range(100, 800, 100)))
    assert found.index([5]) == len(often) - 1 + Suspects.WINDOWS - 1


def test_what_has_a_purpose_or_no_line_is_not_suspected() -> None:
    assert not any(looked(windows(*range(0, 200, 10), label=PARAMETER)))
    assert not any(looked(windows(*range(0, 200, 10), stack=0)))


# ---- limits ----


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_nearest_limit_counts() -> None:
    limits = OwnLimits()
    pages = limits.pages()
    assert pages is not None
    virtual, resident, shared = pages
    assert virtual > resident > shared > 0
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    room = 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (virtual + room, hard))
    try:
        nearest = limits.nearest()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    limits.close()
    assert nearest is not None
    assert (nearest.kind, nearest.limit_bytes) == ("RLIMIT_AS", virtual + room)
    assert nearest.left_bytes <= room


# ---- Python's own heap ----


def test_lines_of_the_python_heap_are_told(recorder: Recorder, read: Read) -> None:
    import tracemalloc

    was_tracing = tracemalloc.is_tracing()
    lines = PythonLines()
    try:
        held = [bytes(KIB) for _ in range(300)]
        lines.tell(recorder)
    finally:
        if not was_tracing:
            tracemalloc.stop()
    ours = [row for row in read(names.PYTHON_LINE) if row.text.endswith(f"\t{__file__}")]
    most = max(ours, key=lambda row: row.value)
    line = Path(__file__).read_text().splitlines()[int(most.text.split("\t")[0]) - 1]
    assert "bytes(KIB)" in line
    assert most.value >= len(held) * KIB


# ---- the CUDA allocator, on a stand-in of torch.cuda ----


class Cuda:
    """What torch.cuda gives, as far as it is asked."""

    def __init__(self, recording: bool = False) -> None:
        self.calls: list[Any] = []
        self.recording = recording
        self.memory = self

    def _record_memory_history(self, enabled: str | None = "all", **more: Any) -> None:
        self.calls.append(enabled)
        self.recording = enabled is not None

    def _snapshot(self) -> dict[str, Any]:
        return {"segments": [{"device": 0}], "device_traces": [[]], "external": object()}

    def is_initialized(self) -> bool:
        return True

    def host_memory_stats(self) -> dict[str, int]:
        return {"allocated_bytes.current": 4096}


Saved = dict[str, bytes]


def history(cuda: Cuda, saved: Saved) -> CudaHistory:
    save: Callable[[str, bytes], None] = saved.__setitem__
    return CudaHistory(cuda, lambda: cuda.recording, save)


def test_the_history_of_a_gpu_is_saved_as_plain_data(recorder: Recorder, read: Read) -> None:
    cuda, saved = Cuda(), Saved()
    watched = history(cuda, saved)
    watched.start()
    for _ in range(100):
        watched.tell(recorder)
    taken = len(read(names.MEMORY_CUDA))
    assert 1 <= taken <= 7  # at twice the steps each
    watched.tell(recorder, at_end=True)
    watched.stop()
    assert cuda.calls == ["all", None]
    assert json.loads(saved["cuda-memory.json"]) == {
        "segments": [{"device": 0}], "device_traces": [[]]
    }  # fmt: skip


def test_a_history_that_the_program_switched_on_is_left_on(recorder: Recorder) -> None:
    cuda = Cuda(recording=True)
    watched = history(cuda, {})
    watched.start()
    watched.stop()
    assert cuda.calls == []


def test_pinned_memory_is_sampled(recorder: Recorder, read: Read) -> None:
    history(Cuda(), {}).sample_pinned(recorder)
    (row,) = read(names.MEMORY_PINNED)
    assert row.value == 4096.0
