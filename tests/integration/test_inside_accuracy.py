"""What a profiler in the code says, against what is known or was read from other clocks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.inside import BEGINNING, told_by, told_when_quiet

pytestmark = pytest.mark.timed

MB = 2**20
CORES = pytest.mark.parametrize("core", ["native", "python"])


def close(found: float, known: float) -> bool:
    """Within 5 %, or within the few milliseconds that clocks of the kernel are coarse."""
    return abs(found - known) <= max(0.05 * known, 0.004)


# ---- memory ----

HOLD = """
profiler = PerformanceProfiler(memory_interval=0.5)
with profiler.profile("hold"):
    hold(300, 0.02)
m = profiler.get_metrics("hold")
tell(grown=m.memory.peak_ram_mb - m.memory.initial_ram_mb, method=m.memory_method)
"""


def resettable() -> bool:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not resettable(), reason="this kernel does not let the mark be reset")
class TestPeaks:
    @CORES
    def test_a_peak_much_shorter_than_the_interval_is_found(self, core: str) -> None:
        told = told_by(HOLD, STEPSCOPE_CORE=core)
        assert told["grown"] == pytest.approx(300, rel=0.05)
        assert "high-water mark, reset" in told["method"]

    @CORES
    def test_a_larger_peak_before_it_is_not_inherited(self, core: str) -> None:
        told = told_by(
            """
            profiler = PerformanceProfiler(memory_interval=0.5)
            with profiler.profile("larger"):
                hold(600, 0.02)
            with profiler.profile("hold"):
                hold(300, 0.02)
            with profiler.profile("nothing"):
                pass
            tell(**{
                name: profiler.get_metrics(name).peak_ram_mb
                - profiler.get_metrics(name).initial_ram_mb
                for name in ("larger", "hold", "nothing")
            })
            """,
            STEPSCOPE_CORE=core,
        )
        assert told["larger"] == pytest.approx(600, rel=0.05)
        assert told["hold"] == pytest.approx(300, rel=0.05)
        assert told["nothing"] < 15

    @CORES
    def test_a_peak_before_all_operations_is_not_inherited(self, core: str) -> None:
        told = told_by("hold(600, 0.0)\n" + HOLD, STEPSCOPE_CORE=core)
        assert told["grown"] == pytest.approx(300, rel=0.05)

    @CORES
    def test_the_peak_of_an_inner_operation_is_also_that_of_the_outer_one(self, core: str) -> None:
        told = told_by(
            """
            profiler = PerformanceProfiler(memory_interval=0.5)
            with profiler.profile("outer"):
                with profiler.profile("before"):
                    time.sleep(0.01)
                with profiler.profile("inner"):
                    hold(300, 0.02)
                with profiler.profile("after"):
                    time.sleep(0.01)
            tell(**{
                name: profiler.get_metrics(name).peak_ram_mb
                - profiler.get_metrics(name).initial_ram_mb
                for name in ("outer", "before", "inner", "after")
            })
            """,
            STEPSCOPE_CORE=core,
        )
        assert told["inner"] == pytest.approx(300, rel=0.05)
        assert told["outer"] == pytest.approx(300, rel=0.05)
        assert told["before"] < 15
        assert told["after"] < 15

    @CORES
    def test_a_large_parent_does_not_hide_it(self, core: str) -> None:
        """The kernel starts a process with the mark of the one that started it."""
        told = told_by(
            f"""
            import mmap
            large = mmap.mmap(-1, 900 * MB)
            for at in range(0, len(large), 4096):
                large[at] = 1
            program = [sys.executable, "-c", {BEGINNING + HOLD!r}]
            child = subprocess.run(program, stdout=subprocess.PIPE, text=True)
            told = json.loads(child.stdout)
            tell(**told, parent=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
            """,
            STEPSCOPE_CORE=core,
        )
        assert told["parent"] > 900
        assert told["grown"] == pytest.approx(300, rel=0.05)

    def test_every_one_of_several_threads_sees_it(self) -> None:
        told = told_by(
            """
            profiler = PerformanceProfiler(memory_interval=0.5)
            begun, go_on = threading.Barrier(5), threading.Event()

            def wait(name):
                with profiler.profile(name):
                    begun.wait()
                    go_on.wait()

            threads = [threading.Thread(target=wait, args=(f"thread {n}",)) for n in range(4)]
            for thread in threads:
                thread.start()
            begun.wait()
            with profiler.profile("hold"):
                hold(300, 0.02)
            go_on.set()
            for thread in threads:
                thread.join()
            names = [f"thread {n}" for n in range(4)] + ["hold"]
            found = map(profiler.get_metrics, names)
            tell(grown=[m.peak_ram_mb - m.initial_ram_mb for m in found])
            """
        )
        assert told["grown"] == pytest.approx([300] * 5, rel=0.05)


# ---- time ----

TIMED = """
profiler = PerformanceProfiler()
with profiler.profile("warm"):
    pass
time.sleep(0.1)
before = clocks()
with profiler.profile("timed"):
    {work}
known = [later - earlier for earlier, later in zip(before, clocks())]
timing = profiler.get_metrics("timed").timing
tell(
    known=[known[0], known[1] + known[2], known[1], known[2]],
    found=[timing.wall_time_s, timing.cpu_time_s, timing.user_time_s, timing.system_time_s],
)
"""
WORK = {
    "a sleep": "time.sleep(0.4)",
    "a burn in user mode": "burn(0.4)",
    "work of the kernel": "end = time.thread_time() + 0.4\n"
    "    while time.thread_time() < end: os.urandom(1 << 20)",
    "a child that was waited for": "subprocess.run([sys.executable, '-c',"
    " 'import time\\nwhile time.process_time() < 0.4: sum(range(10000))'], check=True)",
}


def clocks_agree(told: dict[str, Any]) -> bool:
    return all(close(*pair) for pair in zip(told["found"], told["known"], strict=True))


@CORES
@pytest.mark.parametrize("what", WORK)
def test_wall_cpu_user_and_system_are_those_of_other_clocks(what: str, core: str) -> None:
    text = TIMED.format(work=WORK[what])
    told = told_when_quiet(text, clocks_agree, core=core)
    assert clocks_agree(told), told
    wall, cpu, user, system = told["found"]
    assert cpu == pytest.approx(user + system)
    assert wall >= 0.4
    assert (cpu >= 0.4) == (what != "a sleep")
    assert (system > 0.3) == (what == "work of the kernel")


def test_workers_that_live_on_count() -> None:
    """Persistent workers of a loader burn during the operation and are not waited for in it."""
    text = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Burning(Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, index):
            burn(0.05)
            return index, os.getpid(), time.process_time()

    loader = DataLoader(Burning(), num_workers=2, persistent_workers=True, batch_size=1,
                        multiprocessing_context="fork")
    list(loader)  # the workers are there, and live on
    profiler = PerformanceProfiler(memory_interval=0.1)
    with profiler.profile("load"):
        before = clocks()
        batches = list(loader)
        own = sum(b - a for a, b in zip(before[1:], clocks()[1:]))
        time.sleep(0.1)
    tell(found=profiler.get_metrics("load").cpu_time, own=own, burnt=24 * 0.05)
    """

    def is_right(told: dict[str, float]) -> bool:
        known = told["own"] + told["burnt"]
        return abs(told["found"] - known) < 0.1 * known  # /proc counts in ticks of 10 ms a worker

    told = told_when_quiet(text, is_right)
    assert is_right(told), told


# ---- work ----

FLOPS = {
    # forward: 2·m·n·k; backward: the same once for the weight, once for the input
    "linear": (
        "torch.nn.Linear(64, 32, bias=False)",
        "torch.randn(16, 64, requires_grad=True)",
        3 * 2 * 16 * 64 * 32,
    ),
    # forward: 2 · batch · out · (H·W of the result) · in · (kernel)
    "conv2d": (
        "torch.nn.Conv2d(3, 8, 3, bias=False)",
        "torch.randn(2, 3, 10, 10, requires_grad=True)",
        3 * 2 * 2 * 8 * 8 * 8 * 3 * 3 * 3,
    ),
}


@pytest.mark.parametrize("layer", FLOPS)
def test_flops_of_a_layer_and_its_backward_are_exact(layer: str) -> None:
    module, made, known = FLOPS[layer]
    told = told_by(
        f"""
        import torch
        profiler = PerformanceProfiler(estimate_flops=True)
        module, given = {module}, {made}
        for _ in range(3):
            with profiler.profile("layer"):
                module(given).sum().backward()
        compute = profiler.get_metrics("layer").compute
        tell(flops=compute.estimated_flops, rate=compute.flops_per_second)
        """
    )
    assert told["flops"] == 3 * known
    assert told["rate"] > 0


def test_flops_of_attention_and_its_backward_are_exact() -> None:
    """Forward: two products of 2·B·H·L·L·D; backward: two for each of them, and where the kernel
    keeps no scores it computes them again."""
    told = told_by(
        """
        import torch
        profiler = PerformanceProfiler(estimate_flops=True)
        q, k, v = (torch.randn(2, 4, 32, 16, requires_grad=True) for _ in range(3))
        with profiler.profile("forward"):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        with profiler.profile("backward"):
            out.sum().backward()
        found = {name: profiler.get_metrics(name) for name in ("forward", "backward")}
        tell(**{name: metrics.compute.estimated_flops for name, metrics in found.items()})
        """
    )
    product = 2 * 2 * 4 * 32 * 32 * 16
    assert told["forward"] == 2 * product
    assert told["backward"] in (4 * product, 5 * product)


def test_the_share_of_the_peak_is_plausible() -> None:
    told = told_by(
        """
        import torch
        profiler = PerformanceProfiler(estimate_flops=True)
        a = torch.randn(512, 512)
        a @ a
        with profiler.profile("products"):
            for _ in range(20):
                a @ a
        compute = profiler.get_metrics("products").compute
        tell(flops=compute.estimated_flops, rate=compute.flops_per_second,
             percent=compute.peak_flops_percent)
        """
    )
    assert told["flops"] == 20 * 2 * 512**3
    assert told["rate"] > 1e6
    assert 0 < told["percent"] < 150
