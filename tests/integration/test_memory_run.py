"""What `--memory` says about programs whose memory is known."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path

import pytest

from stepscope.analyze.memory_run import MemoryFold
from stepscope.model.event import COLUMNS, Batch
from stepscope.model.memory import (
    ACTIVATION,
    GRADIENT,
    INPUT,
    OPTIMIZER_STATE,
    OTHER,
    PARAMETER,
    TEMPORARY,
    Growing,
    Memory,
)
from stepscope.record.core import core
from stepscope.store.frames import FramesReader
from tests.integration.joined import SCRIPTS, Ran, run_joined

pytestmark = pytest.mark.skipif(
    core.TensorHeap is None, reason="this core cannot see tensors: it is not the native one"
)
SEEN = {"STEPSCOPE_MEMORY": "tensors"}


def run(folder: Path, *command: str) -> Ran:
    return run_joined(folder, [f"memory/{command[0]}", *command[1:]], **SEEN)


def memory_of(folder: Path, until_ns: int | None = None) -> Memory:
    """`until_ns`: as far as it was known then."""
    fold = MemoryFold()
    for path in sorted(folder.glob("rank-*/*.frames")):
        for batch in FramesReader(path).read_new():
            fold.update(batch if until_ns is None else before(batch, until_ns))
    found = fold.get()
    assert found is not None
    return found


def before(batch: Batch, until_ns: int) -> Batch:
    """What of it was recorded by then."""
    kept = [at for at, when in enumerate(batch.columns["time_ns"]) if when <= until_ns]
    columns = {
        column.name: memoryview(array(column.code, [batch.columns[column.name][at] for at in kept]))
        for column in COLUMNS
    }
    return Batch(len(kept), columns, batch.names)


def at_peak(memory: Memory) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for part in memory.devices[0].peak.parts:
        sizes[part.category] += part.bytes
    return sizes


def leaks(memory: Memory) -> list[Growing]:
    return [one for one in memory.growing if one.verdict == "leak"]


def line_with(script: str, text: str) -> int:
    lines = (SCRIPTS / "memory" / script).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def test_the_peak_of_a_network_is_what_it_comes_to_by_hand(tmp_path: Path) -> None:
    assert run(tmp_path, "known.py").exit_code == 0
    memory = memory_of(tmp_path)
    weights = 2 * 1024 * 4096 * 4
    expected = {
        PARAMETER: weights,
        OPTIMIZER_STATE: weights,  # momentum
        GRADIENT: weights,  # of the step before: they are set to none after forward
        ACTIVATION: 512 * (4096 + 1024) * 4,  # what relu gave, what the model gave
        INPUT: 512 * 1024 * 4,
        TEMPORARY: 16 * 1024 * 1024 * 4,
    }
    found = at_peak(memory)
    for category, size in expected.items():
        assert found[category] == pytest.approx(size, rel=0.01), category
    # What matrix products keep for themselves.
    assert found[OTHER] < 0.1 * memory.devices[0].peak.bytes
    peak = memory.devices[0].peak
    assert peak.parts_bytes == pytest.approx(peak.bytes, rel=0.01)
    pad = next(part for part in peak.parts if part.category == TEMPORARY)
    assert pad.location.line == line_with("known.py", "pad = ")
    assert pad.location.layer == "Known"
    narrow = [p for p in peak.parts if (p.category, p.location.layer) == (ACTIVATION, "narrow")]
    assert sum(part.bytes for part in narrow) == 512 * 1024 * 4
    assert max(point.total for point in memory.devices[0].points) == peak.parts_bytes
    assert memory.devices[0].allocations > memory.devices[0].frees > 0
    assert not leaks(memory)


@pytest.mark.parametrize("size", [40_000, 1_000_000])
def test_a_leak_is_found_within_twenty_steps_with_its_line_and_rate(
    tmp_path: Path, size: int
) -> None:
    run(tmp_path, "leaks.py", str(size), "20")
    (leak,) = leaks(memory_of(tmp_path))
    assert leak.bytes_per_step == pytest.approx(size, rel=0.05)
    assert leak.location.line == line_with("leaks.py", "# the leak")
    assert leak.location.function == "keep"
    assert [place.line for place in leak.stack][-1] == line_with("leaks.py", "    keep()")
    assert leak.held_by[-1] == "global variable 'kept' of __main__"


def test_caches_late_optimizer_state_and_larger_batches_are_no_leaks(tmp_path: Path) -> None:
    run(tmp_path, "harmless.py")
    memory = memory_of(tmp_path)
    assert leaks(memory) == []
    verdicts = {one.location.line: one.verdict for one in memory.growing}
    # Whether a cache that is full by now is worth a line is open; that it leaks is not.
    assert verdicts.get(line_with("harmless.py", "torch.zeros(50_000)"), "cache") == "cache"
    assert verdicts.get(line_with("harmless.py", "last_batch = torch"), "") == "input shape"


def test_a_cycle_is_garbage_and_its_class_is_named(tmp_path: Path) -> None:
    run(tmp_path, "cycles.py")
    memory = memory_of(tmp_path)
    assert leaks(memory) == []
    (garbage,) = [one for one in memory.growing if one.verdict == "cycle garbage"]
    assert garbage.made_by == "Episode"
    assert garbage.bytes_per_step == pytest.approx(400_000, rel=0.05)
    assert garbage.location.line == line_with("cycles.py", "torch.zeros")


@pytest.mark.slow
def test_the_steps_until_memory_runs_out_come_true(tmp_path: Path) -> None:
    """It dies of its limit; half way there the rest was foretold within 15 %."""
    ran = run(tmp_path, "runs_out.py", "4000000", "800000000")
    assert ran.exit_code != 0
    assert "can't allocate memory" in ran.stderr
    died = int(ran.stdout.split()[-1])
    steps = [row for row in ran.training.rows if row.name == "memory.step_peak_bytes"]
    assert died - 5 < steps[-1].step <= died  # short steps are recorded a few at a time
    half = steps[len(steps) // 2]
    early = memory_of(tmp_path, until_ns=half.time_ns)
    known = early.devices[0].steps[-1][0]  # the last step that was told by then
    assert early.headroom is not None
    assert early.headroom.limit == "RLIMIT_AS"
    assert early.headroom.steps is not None
    assert known + early.headroom.steps[1] == pytest.approx(died, rel=0.15)
    (refused,) = memory_of(tmp_path).refused
    assert refused.bytes == 4_000_000
    assert refused.location.line == line_with("runs_out.py", "history.append")
