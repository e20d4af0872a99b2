"""What the native core sees of torch's CPU allocator. The twin cannot, and says so."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.model.event import EventType
from stepscope.model.memory import CATEGORIES, PARAMETER
from stepscope.record.twin import TwinCore
from tests.contract.conftest import native_core
from tests.contract.frames_reader import decode

torch = pytest.importorskip("torch")
NAMES = (
    "memory.alloc",
    "memory.free",
    "memory.refused",
    "memory.label",
    "memory.held",
    "memory.peak",
)
KIB = 1024
LABEL = CATEGORIES.index(PARAMETER) + 1


@pytest.fixture
def heap() -> Iterator[Any]:
    core = native_core()
    if not core.TensorHeap:
        pytest.skip("this core does not know the frames of this Python")
    made = core.TensorHeap(*map(core.intern, NAMES))
    assert made.watch("libc10.so", True) > 0
    made.stacks(True)
    made.book(True)
    yield made
    made.record(False)
    made.stop()


def address_of(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def test_the_twin_sees_no_tensors() -> None:
    assert TwinCore().TensorHeap is None


def test_a_tensor_is_booked_with_its_bytes_and_gone_with_it(heap: Any) -> None:
    before = heap.totals()
    tensor = torch.empty(1000, dtype=torch.float32)
    found = heap.find(address_of(tensor))
    assert (found[0], found[1]) == (4000, 0)
    assert heap.totals()["live_bytes"] == before["live_bytes"] + 4000
    address = address_of(tensor)
    del tensor
    assert heap.find(address) is None
    after = heap.totals()
    assert after["live_bytes"] == before["live_bytes"]
    assert after["allocated"] - before["allocated"] == after["freed"] - before["freed"] == 1


def make_one(size: int) -> Any:
    return torch.zeros(size)


def test_a_block_knows_the_line_that_made_it(heap: Any) -> None:
    tensor = make_one(5000)
    stack = heap.find(address_of(tensor))[2]
    nodes = {number: (caller, file, function, line) for number, caller, file, function, line in
             heap.resolve()}  # fmt: skip
    caller, file, function, line = nodes[stack]
    assert (file, function) == (__file__, "make_one")
    assert line == make_one.__code__.co_firstlineno + 1
    assert nodes[caller][2] == test_a_block_knows_the_line_that_made_it.__name__


def test_the_same_line_is_the_same_stack(heap: Any) -> None:
    kept = []
    for _ in range(3):
        kept.append(make_one(100))
        heap.resolve()  # from here on its code is kept, and it is found by its hash
    stacks = {heap.find(address_of(tensor))[2] for tensor in kept}
    assert len(stacks) == 1
    (stack,) = stacks
    rows = [row for row in heap.held() if row[0] == stack]
    assert rows == [(stack, 0, 3 * 400, 3)]
    assert {address for address, _, _ in heap.blocks(stack)} == set(map(address_of, kept))


def test_what_backward_allocates_is_seen(heap: Any) -> None:
    weight = torch.zeros(64, 64, requires_grad=True)
    (weight @ torch.ones(64, 64)).sum().backward()
    assert weight.grad is not None
    assert heap.find(address_of(weight.grad))[0] == 64 * 64 * 4


def test_a_step_has_a_peak_of_its_own(heap: Any) -> None:
    heap.end_step()
    _, before = heap.end_step()
    torch.empty(1 << 20, dtype=torch.uint8)
    kept = torch.empty(1 << 10, dtype=torch.uint8)
    assert heap.end_step() == (before + (1 << 20), before + (1 << 10))
    assert heap.end_step() == (before + (1 << 10),) * 2
    del kept


def test_the_peak_is_told_as_it_was_whatever_changed_since(heap: Any) -> None:
    core = native_core()
    core.drain()
    large = torch.empty(8 << 20, dtype=torch.uint8)
    small = torch.empty(1 << 20, dtype=torch.uint8)
    stacks = [heap.find(address_of(tensor))[2] for tensor in (large, small)]
    del large
    later = torch.empty(2 << 20, dtype=torch.uint8)
    assert heap.tell_peak() == 2
    rows = recorded(core)
    assert [(row.cpu_start_ns, row.value) for row in rows] == [
        (stacks[0], 8.0 * KIB**2),
        (stacks[1], 1.0 * KIB**2),
    ]
    assert {row.arg for row in rows} == {9 << 20}
    assert heap.tell_peak() == 0
    del small, later


def test_a_label_moves_the_bytes(heap: Any) -> None:
    tensor = make_one(256)
    stack = heap.find(address_of(tensor))[2]
    assert heap.label(address_of(tensor), LABEL)
    assert [row[1:] for row in heap.held() if row[0] == stack] == [(LABEL, KIB, 1)]
    assert not heap.label(12345, LABEL)
    with pytest.raises(ValueError, match="0 to 8"):
        heap.label(address_of(tensor), 9)


def test_what_changed_is_recorded_and_nothing_else(heap: Any) -> None:
    core = native_core()
    heap.tell_held()
    core.drain()
    kept = make_one(512)
    heap.tell_held()
    rows = recorded(core)
    assert [(row.name, row.value, row.arg) for row in rows] == [("memory.held", 2.0 * KIB, 1)]
    del kept
    heap.tell_held()
    assert [(row.value, row.arg) for row in recorded(core)] == [(0.0, 0)]
    heap.tell_held()
    assert recorded(core) == []


def test_blocks_are_events_while_they_are_recorded(heap: Any) -> None:
    core = native_core()
    forward = core.intern("forward")
    core.drain()
    heap.record(True)
    heap.layer(7)
    token = core.begin(forward)
    tensor = torch.empty(2 * KIB, dtype=torch.uint8)
    core.end(token)
    heap.layer(0)
    address = address_of(tensor)
    heap.label(address, LABEL)
    del tensor
    heap.record(False)
    torch.empty(KIB)
    rows = [row for row in recorded(core) if row.name.startswith("memory.")]
    assert [row.name for row in rows] == ["memory.alloc", "memory.label", "memory.free"]
    allocated, _, freed = rows
    assert (allocated.arg, allocated.value, allocated.text) == (address, 2.0 * KIB, "forward")
    assert (allocated.cpu_ns, allocated.flags) == (7, 0)  # the layer; not labelled yet
    assert (freed.arg, freed.value, freed.flags) == (address, 2.0 * KIB, LABEL)
    assert freed.cpu_start_ns == allocated.cpu_start_ns > 0  # the stack of the allocation


def recorded(core: Any) -> list[SimpleNamespace]:
    """The allocations that are pending."""
    told = {core.intern(name): name for name in (*NAMES, "forward")}
    rows = (SimpleNamespace(**row) for row in decode(core.drain(), told).rows)
    return [row for row in rows if row.type == EventType.ALLOCATION]


@pytest.mark.not_under("asan", "tsan", reason="their malloc ends the process instead of refusing")
def test_an_allocation_that_is_refused_is_told(heap: Any) -> None:
    before = heap.totals()["refused"]
    with pytest.raises(RuntimeError, match="allocate memory"):
        torch.empty(1 << 46)
    assert heap.totals()["refused"] == before + 1


def test_large_blocks_of_a_library_are_its_own(heap: Any) -> None:
    numpy = pytest.importorskip("numpy")
    assert heap.watch("_multiarray_umath", False) >= 0
    before = heap.totals()["workspace_bytes"]
    array, small = numpy.zeros(100_000), numpy.zeros(10)
    assert heap.totals()["workspace_bytes"] == before + array.nbytes
    del array, small
    assert heap.totals()["workspace_bytes"] == before


def test_nothing_is_booked_after_stop(heap: Any) -> None:
    heap.stop()
    allocated = heap.totals()["allocated"]
    torch.empty(100)
    assert heap.totals()["allocated"] == allocated


def test_its_cost_is_measured_and_leaves_no_trace(heap: Any) -> None:
    before = heap.totals()
    assert 0.0 < heap.cost_ns(200) < 1e6
    assert heap.totals() == before


def test_an_unknown_library_is_passed_over(heap: Any) -> None:
    assert heap.watch("libnobody.so", False) == 0


LIBRARY = """
#include <stdlib.h>
static int counter = 1;
void *take(size_t size) { void *made = NULL; return posix_memalign(&made, 64, size) ? NULL : made; }
void give(void *block) { free(block); }
int count(void) { return ++counter; }
"""
CALLER = """
import ctypes, sys
from stepscope.record import _native as core
library = ctypes.CDLL(sys.argv[1])
library.take.argtypes, library.take.restype = [ctypes.c_size_t], ctypes.c_void_p
library.give.argtypes = [ctypes.c_void_p]
heap = core.TensorHeap(*map(core.intern, %r))
assert heap.watch("libtail.so", True) == 2
heap.book(True)
block = library.take(4096)
assert heap.find(block)[0] == 4096
library.give(block)
print(library.count())
"""
GNU_RELRO = 0x6474E552


def extend_relro(library: Path, more_bytes: int) -> None:
    """Let the segment that becomes read-only end that much later: within a page, as linkers for
    another page size let it."""
    content = bytearray(library.read_bytes())
    (first,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for at in range(first, first + size * count, size):
        if struct.unpack_from("<I", content, at) == (GNU_RELRO,):
            (length,) = struct.unpack_from("<Q", content, at + 40)
            struct.pack_into("<Q", content, at + 40, length + more_bytes)
    library.write_bytes(content)


def test_variables_behind_the_read_only_segment_stay_writable(heap: Any, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("needs a C compiler")
    source, library = tmp_path / "tail.c", tmp_path / "libtail.so"
    source.write_text(LIBRARY)
    lazy = ["-Wl,-z,relro", "-Wl,-z,lazy"]  # the imports then lie beside the variables
    subprocess.run([compiler, "-shared", "-fPIC", *lazy, "-o", library, source], check=True)
    extend_relro(library, 64)
    done = subprocess.run(
        [sys.executable, "-c", CALLER % (NAMES,), library],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.not_under("asan", "tsan", reason="they replace the allocator that is asked")
def test_libc_says_what_it_holds(heap: Any) -> None:
    reserved, free, top, mapped = heap.malloc_info()
    assert reserved > free >= top >= 0
    assert mapped >= 0


NO_MEMORY = """
import resource, torch
from stepscope.record import _native as core
heap = core.TensorHeap(*map(core.intern, %r))
heap.watch("libc10.so", True); heap.book(True)
kept = torch.empty(100)
address = kept.untyped_storage().data_ptr()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (1 << 20, hard))  # from now on no memory can be mapped
heap.stop()
heap.watch("libc10.so", True); heap.book(True)
assert heap.find(address) is None and not heap.label(address, 1)
del kept
unbooked = [torch.empty(100) for _ in range(3)]
before = heap.totals()
del unbooked
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
booked = torch.empty(100)
print(before["allocated"], before["without_room"], heap.totals()["live_bytes"])
"""


@pytest.mark.not_under("asan", "tsan", reason="they map memory themselves, and end without it")
def test_without_memory_nothing_is_booked_until_there_is_some_again(heap: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY % (NAMES,)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0 3 400\n"), done.stderr


GROWTH = """
import threading, torch
from stepscope.record import _native as core
heap = core.TensorHeap(*map(core.intern, %r))
heap.watch("libc10.so", True); heap.stacks(True); heap.book(True)
kept = [[] for _ in range(4)]
def grow(mine):
    for number in range(6000):
        mine.append(torch.empty(16))
        if number %% 3 == 0:
            del mine[number // 5]
threads = [threading.Thread(target=grow, args=(mine,)) for mine in kept]
for thread in threads: thread.start()
while any(thread.is_alive() for thread in threads):
    heap.held(); heap.tell_peak()
live = sum(map(len, kept))
rows = heap.held()
assert sum(row[3] for row in rows) == heap.totals()["live"] == live, (rows, heap.totals(), live)
assert sum(row[2] for row in rows) == heap.totals()["live_bytes"] == 64 * live
assert all(heap.find(one.untyped_storage().data_ptr())[0] == 64 for mine in kept for one in mine)
kept.clear(); del threads
print(live, heap.totals()["live"])
"""


@pytest.mark.threaded
def test_the_heap_grows_while_threads_book_and_others_read(heap: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH % (NAMES,)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "16000 0\n"), done.stderr


PROGRAM = """
import gc, os, sys, threading, torch
from stepscope.record.core import core
heap = core.TensorHeap(*map(core.intern, %r))
heap.watch("libc10.so", True); heap.stacks(True); heap.book(True)
def churn(stop):
    kept = []
    while not stop.is_set():
        kept.append(torch.empty(100))
        del kept[:-50]
stop = threading.Event()
threads = [threading.Thread(target=churn, args=(stop,)) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        torch.empty(1000)  # books nothing, and does not wait for a lock of the parent's
        os._exit(0 if heap.totals()["allocated"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    heap.resolve(); heap.held()
stop.set()
for thread in threads: thread.join()
totals = heap.totals()
print(totals["live"], totals["allocated"] - totals["freed"])
"""


@pytest.mark.threaded
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_many_threads_and_forks_leave_it_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM % (NAMES,))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    live, difference = map(int, done.stdout.split())
    assert live == difference
